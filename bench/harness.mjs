// Starts contenders, all the same way, and measures them.
//
// Every contender runs in a workerd of its own, started by miniflare with a direct socket to the
// Worker: no proxy stands in front of any of them. Rounds are interleaved, so that noise of the
// machine meets all alike; what counts is the median and the ratio within one run.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Miniflare, convertV4MiniflareOptions } from "miniflare";
import { Failed, ROOT, output, say } from "../scripts/toolchain.mjs";
import { freePort } from "../tests/e2e/server.mjs";

export const BROWSER =
  "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36";
export const OPERATOR = { authorization: "Bearer dev-operator" };
const COMPATIBILITY = "2026-11-01";
const ROUNDS = 5;
const ROUND_SECONDS = 3;
/** So long nothing may change before a row is given up. */
const STANDSTILL_MS = 60_000;

/** A contender that answers on its direct socket; `close` ends it and removes its data. */
async function start(worker) {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), "counterfoil-bench-"));
  const others = workerds();
  const miniflare = new Miniflare(convertV4MiniflareOptions({
    port: await freePort(),
    cf: false,
    resourcePersistencePath: folder,
    compatibilityDate: COMPATIBILITY,
    unsafeDirectSockets: [{ host: "127.0.0.1", port }],
    ...worker({ port }),
  }));
  await miniflare.ready;
  return {
    url: `http://127.0.0.1:${port}`,
    pid: workerds().find((pid) => !others.includes(pid)),
    folder,
    miniflare,
    async close() {
      await miniflare.dispose();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The process ids of the contenders that run. */
function workerds() {
  try {
    return execFileSync("pgrep", ["-P", String(process.pid), "-x", "workerd"]).toString().trim().split("\n");
  } catch {
    return [];
  }
}

/** A contender in JavaScript. */
export async function startScript(file, { sql = [], ...options } = {}) {
  const script = readFileSync(join(ROOT, "bench/contenders", file), "utf8");
  const contender = await start(() => ({ modules: true, script, ...options }));
  if (sql.length > 0) await execute(await contender.miniflare.getD1Database("DB"), sql);
  return contender;
}

/** A wasm bundle that worker-build made in `folder`, behind the entries that are named. */
export function bundle(folder, ...entries) {
  const code = (name, type) => ({ type, path: name, contents: readFileSync(join(folder, name)) });
  const scripts = [...entries, "index.js"].map((name) => code(name, "ESModule"));
  return [...scripts, code("index_bg.wasm", "CompiledWasm")];
}

/** A contender in Rust that needs nothing but its bundle. */
export function startWasm(folder) {
  return start(() => ({ modules: bundle(folder), modulesRoot: ROOT }));
}

/** Counterfoil itself, with the stand-in. */
export async function startCounterfoil(vars = {}) {
  const object = (className) => ({ className, useSQLite: true });
  const contender = await start(({ port }) => ({
    modules: bundle(join(ROOT, "build"), "worker.js"),
    modulesRoot: ROOT,
    bindings: {
      PROVIDER: "standin", DEV: "1", PUBLIC_URL: `http://127.0.0.1:${port}`, ...vars,
    },
    d1Databases: { DB: "control", LEDGER_0: "ledger" },
    durableObjects: {
      ACCOUNT: object("Account"), LEDGER_SHARD: object("LedgerShard"), STANDIN: object("StandIn"),
    },
  }));
  for (const [binding, folder] of [["DB", "control"], ["LEDGER_0", "ledger"]]) {
    await execute(await contender.miniflare.getD1Database(binding), migrations(folder));
  }
  return contender;
}

function migrations(folder) {
  const home = join(ROOT, "migrations", folder);
  const files = readdirSync(home).filter((name) => name.endsWith(".sql")).sort();
  const text = files.map((name) => readFileSync(join(home, name), "utf8")).join("\n");
  const plain = text.replace(/--[^\n]*/g, "");
  // A trigger has statements of its own, up to its end.
  return plain.match(/create trigger[^]*?\nend;|\S[^;]*;/g);
}

async function execute(db, statements) {
  for (const statement of statements) await db.prepare(statement).run();
}

/** Calls the API as the operator and gives the parsed answer; fails on an error. */
export async function api(contender, method, path, body) {
  const response = await fetch(contender.url + path, {
    method,
    headers: OPERATOR,
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Failed(`${method} ${path}: ${response.status} ${text}`);
  return JSON.parse(text);
}

/** Runs `work` over `items`, so many at a time. */
export async function each(items, concurrency, work) {
  const rest = items[Symbol.iterator]();
  const lane = async () => {
    for (let next = rest.next(); !next.done; next = rest.next()) await work(next.value);
  };
  await Promise.all(Array.from({ length: concurrency }, lane));
}

/** Tools from Debian's packages, installed if they are missing and this machine lets us. */
export async function requireTools(...names) {
  for (const name of names) {
    if ((await output("sh", ["-c", `command -v ${name}`])) !== null) continue;
    say(`installing ${name} (once) …`);
    try {
      execFileSync("apt-get", ["update", "-qq"], { stdio: "ignore" });
      execFileSync("apt-get", ["install", "-y", "-qq", name], { stdio: "ignore" });
    } catch {
      throw new Failed(`${name} is missing and could not be installed: install it and try again`);
    }
  }
}

/** One round of wrk: how many requests were answered, how many a second, and the answers' p50 and
 * p99 in ms. One answer of status 400 or more, or none at all, fails the row: an error is quick. */
export async function wrk(url, { seconds = ROUND_SECONDS, connections = 50, lua = "" } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "counterfoil-wrk-"));
  const script = join(folder, "wrk.lua");
  writeFileSync(script, `wrk.headers["user-agent"] = "${BROWSER}"\n${lua}\n${REPORT}`);
  const args = [
    "-t2", `-c${connections}`, `-d${seconds}s`, "--timeout", "30s", "--latency", "-s", script, url,
  ];
  const text = await new Promise((resolve, reject) => {
    const child = spawn("wrk", args, { stdio: ["ignore", "pipe", "inherit"] });
    let out = "";
    child.stdout.on("data", (chunk) => (out += chunk));
    child.once("error", reject);
    child.once("close", () => resolve(out));
  });
  rmSync(folder, { recursive: true, force: true });
  const found = text.match(/REPORT (\S+) (\S+) (\S+) (\S+) (\S+) (\S+)/);
  if (!found) throw new Failed(`wrk said:\n${text}`);
  const [requests, micros, refused, broken, p50, p99] = found.slice(1).map(Number);
  if (refused + broken > 0 || requests === 0) {
    const told = `${requests} answers, ${refused} of them errors; ${broken} broken connections`;
    throw new Failed(`${url}: ${told}`);
  }
  return { requests, rate: (requests * 1e6) / micros, p50: p50 / 1000, p99: p99 / 1000 };
}

const REPORT = `
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("REPORT %d %d %d %d %d %d\\n", summary.requests, summary.duration,
    e.status, e.connect + e.read + e.write + e.timeout,
    latency:percentile(50), latency:percentile(99)))
end`;

/** Fails the row unless `url` answers with that status and those headers. */
export async function answers(url, status, headers = {}, options = {}) {
  const response = await fetch(url, { redirect: "manual", ...options });
  await response.arrayBuffer();
  const told = Object.entries(headers).every(([name, value]) => response.headers.get(name) === value);
  if (response.status !== status || !told) throw new Failed(`${url}: it answered ${response.status}`);
}

/** Fails the row unless what was stored is what was answered: a client that ends in the middle of
 * its requests has heard of fewer answers than were given, one a connection and round at most. */
export function stands(what, stored, answered, rounds, connections = 50) {
  const most = answered + rounds * connections;
  if (stored < answered || stored > most) {
    throw new Failed(`${what}: ${stored} stored, ${answered} answered`);
  }
}

/** Looks until `look` gives at least `wanted`, and says when it first did, in ms; fails when
 * nothing has changed for a while. */
export async function reached(what, look, wanted) {
  let [last, changed] = [-1, performance.now()];
  for (;;) {
    const seen = await look();
    const now = performance.now();
    if (seen >= wanted) return now;
    if (seen !== last) [last, changed] = [seen, now];
    if (now - changed > STANDSTILL_MS) throw new Failed(`${what}: ${seen} of ${wanted}, and no more`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** The middle value. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/** Interleaved rounds of several works: `{name: async () => number}` → `{name: [number, …]}`. */
export async function rounds(works, count = ROUNDS) {
  const seen = Object.fromEntries(Object.keys(works).map((name) => [name, []]));
  for (let round = 0; round < count; round += 1) {
    for (const [name, work] of Object.entries(works)) seen[name].push(await work());
  }
  return seen;
}

/** A row of the table, from what both sides reached in each round. The ratio is the median of the
 * rounds' own ratios: the machine does the same other work during both halves of a round. */
export function row(name, ours, theirs, { unit, aim = null, atMost = false }) {
  const ratio = median(ours.map((value, round) => value / theirs[round]));
  const figures = { ours: median(ours), theirs: median(theirs), ratio };
  return { row: name, ...figures, unit, aim, atMost, rounds: { ours, theirs } };
}
