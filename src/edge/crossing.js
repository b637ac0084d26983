// One call each way: every crossing between wasm and JavaScript costs about as much as what it
// carries. Neither a header nor a URL can hold a line break.

/** Method, URL, country (empty where it is not known), then names and values of all headers. */
export function head(request) {
  const country = request.cf?.country;
  const lines = [request.method, request.url, typeof country === "string" ? country : ""];
  for (const [name, value] of request.headers) lines.push(name, value);
  return lines.join("\n");
}

/** `lines` are names and values of headers, in turn. */
export function answer(status, lines, body) {
  const words = lines === "" ? [] : lines.split("\n");
  const headers = [];
  for (let at = 0; at < words.length; at += 2) headers.push([words[at], words[at + 1]]);
  return new Response(body, { status, headers });
}

/** Takes apart what `edge::rows` put together: a list for each statement, its SQL first. */
function statements(kinds, text) {
  const all = [];
  let at = 0;
  for (const kind of kinds.split(",")) {
    const number = Number(kind.slice(1));
    switch (kind[0]) {
      case "s":
        all.push([text.slice(at, (at += number))]);
        break;
      case "t":
        all.at(-1).push(text.slice(at, (at += number)));
        break;
      case "i":
        all.at(-1).push(number);
        break;
      default:
        all.at(-1).push(null);
    }
  }
  return all;
}

/** Runs a statement of an object's SQLite: names of columns and rows as JSON, "" without rows. */
export function execute(sqlite, kinds, text) {
  const cursor = sqlite.exec(...statements(kinds, text)[0]);
  const rows = Array.from(cursor.raw());
  return rows.length === 0 ? "" : JSON.stringify([cursor.columnNames, rows]);
}

const prepare = (database, [sql, ...params]) => database.prepare(sql).bind(...params);

/** All rows of one result have the same columns in the same order. */
function table({ results }) {
  if (results.length === 0) return [[], []];
  return [Object.keys(results[0]), results.map(Object.values)];
}

/** Runs one statement of a D1 database; its rows as JSON. */
export async function query(database, kinds, text) {
  return JSON.stringify(table(await prepare(database, statements(kinds, text)[0]).all()));
}

/** Runs statements of a D1 database in one transaction; the rows of each as JSON. */
export async function batch(database, kinds, text) {
  const all = statements(kinds, text).map((statement) => prepare(database, statement));
  return JSON.stringify((await database.batch(all)).map(table));
}

/** Hands a message to an object: its status, a space, its answer. The host of such a call means
 * nothing, but a URL needs one. */
export async function ask(env, binding, name, message) {
  const stub = env[binding].getByName(name);
  const answer = await stub.fetch("http://object/", { method: "POST", body: message });
  return `${answer.status} ${await answer.text()}`;
}
