// Bad input to what needs no token: short links, webhooks, signing in, health, documents, pages.
// The right answer, no panic, and the service goes on.

import assert from "node:assert/strict";
import http from "node:http";
import { after, before, describe, test } from "node:test";
import { OPERATOR, own } from "./harness.mjs";
import { ROUTES } from "./routes.mjs";

const OPEN = ROUTES.filter(({ access }) => access === "Open");
const PAGES = ROUTES.filter(({ access }) => access === "Page");
const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "PROPFIND", "OPTIONS"];
const MIB = 1024 * 1024;
const BODIES = {
  none: undefined, garbage: "{]", nul: "\0", list: "[1]", number: "7", deep: "[".repeat(100_000),
  bytes: new Uint8Array([0xff, 0xfe, 0x00, 0x80]), large: "x".repeat(MIB),
  wrong: JSON.stringify({ token: 7, next: [], dev: {}, jobs: "x", zzz: null }),
};
const QUERIES = ["?", "?&&=", "?account=%00", "?account=..%2F", "?next=%ff", "?size=1e9", "?q=%f0",
  "?cycle=x&feature=%00&code=.&from=now&by=hour", `?x=${"y".repeat(4000)}`, "?account=a&account=b"];
const HEADERS = {
  cookie: "counterfoil_session=;;=\xff;counterfoil_session=a.b;=", "user-agent": "\xe9\xff",
  referer: ":::\x80", origin: "\xff", accept: "text/html", "sec-purpose": "\x80",
  "cf-connecting-ip": "nobody", "webhook-id": "\xff".repeat(300), authorization: "Bearer \xff",
  "content-type": "nonsense", "if-none-match": "*", range: "bytes=9-1",
};

describe("bad input to what is open", () => {
  let server;
  let account;
  let code;
  let cookie;
  before(async () => {
    server = await own({ vars: { APP_URL: "https://app.example" } });
    account = await server.account({ customer_id: "customer_open" });
    const link = await account.api("POST", "/v1/links", { destination: "https://example.com/" });
    code = link.body.code;
    const signed = await signIn("dev=1");
    assert.equal(signed.status, 303);
    [cookie] = signed.headers.get("set-cookie").split(";");
  });
  after(async () => {
    const log = server?.log ?? "";
    await server?.stop();
    assert.doesNotMatch(log, /panicked|RuntimeError|unreachable|Critical|Uncaught/);
  });

  const signIn = (body, headers = {}) =>
    server.request("POST", "/signin", { headers: { origin: server.url, ...headers }, body });

  /** Whether an answer is one that the contract knows. */
  function fits(answer) {
    const kind = answer.headers.get("content-type") ?? "";
    const isError = answer.status >= 400;
    const told = !isError || kind === "application/problem+json" || kind.startsWith("text/html")
      || answer.text === "" || answer.text.startsWith('{"error');
    return answer.status < 500 && told && Boolean(answer.headers.get("x-request-id"));
  }

  async function all(asks) {
    const wrong = [];
    for (const { method, target, headers, body } of asks) {
      const answer = await raw(method, target, headers, body);
      if (!fits(answer)) wrong.push(`${method} ${target.slice(0, 80)}: ${answer.status} ${answer.text}`);
    }
    assert.deepEqual(wrong, []);
  }

  test("any method with any body is answered", async () => {
    const paths = [...new Set([...OPEN, ...PAGES].map(({ path }) => path)), `/${code}`];
    const asks = paths.flatMap((target) => METHODS.flatMap((method) =>
      Object.values(BODIES).map((body) => ({ method, target, headers: { cookie }, body }))));
    await all(asks.filter(({ method, body }) =>
      body === undefined || !["GET", "HEAD", "OPTIONS"].includes(method)));
  });

  test("any query and header is answered", async () => {
    const gets = [...OPEN, ...PAGES].filter(({ method }) => method === "GET");
    const paths = [...gets.map(({ path }) => path), `/${code}`, `/app/accounts/${account.id}`];
    await all(paths.flatMap((path) => [
      ...QUERIES.map((query) => ({ method: "GET", target: path + query, headers: { cookie } })),
      ...Object.entries(HEADERS).map(([name, value]) =>
        ({ method: "GET", target: path, headers: { cookie, [name]: value } })),
    ]));
  });

  test("what is open says what it said before", async () => {
    const status = async (method, path, options) =>
      (await server.request(method, path, options)).status;
    for (const path of ["/healthz", "/docs", "/openapi.json", "/signin"]) {
      assert.equal(await status("GET", `${path}?zzz=1`), 200, path);
      assert.equal(await status("GET", path, { headers: { authorization: "Bearer wrong" } }), 200);
      assert.equal(await status("DELETE", path), 405, path);
    }
    for (const path of ["/nobody-here", "/%F0%9F%92%A5", "/%00", `/${"x".repeat(65)}`]) {
      assert.equal(await status("GET", path), 404, path);
      assert.equal(await status("POST", path, { body: "x".repeat(MIB) }), 405, path);
    }
  });

  test("a webhook that is none is 400, a foreign one 401, a large one 413, and none is stored", async () => {
    const send = async (body) => {
      const answer = await server.request("POST", "/webhooks/kinde", { body });
      return [answer.status, answer.body?.code];
    };
    for (const body of ["", "x", "{}", "a.b", "....", "\0.\0.\0", BODIES.deep, BODIES.bytes]) {
      assert.deepEqual(await send(body), [400, "not_a_jwt"], `${body}`.slice(0, 40));
    }
    const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const foreign = [{ alg: "RS256", kid: "nobody", typ: "JWT" }, { type: "x" }, "c2ln"];
    const [header, payload] = foreign.map(part);
    assert.deepEqual(await send(`${header}.${payload}.c2ln`), [401, "unknown_key"]);
    assert.deepEqual(await send(`${part({ alg: "none" })}.${payload}.`), [401, "wrong_algorithm"]);
    assert.deepEqual(await send("x".repeat(MIB)), [413, "too_large"]);
    const stored = await server.api("GET", "/v1/events");
    assert.deepEqual(stored.body.items, []);
  });

  test("a wrong sign-in is refused by its fault", async () => {
    const token = encodeURIComponent(OPERATOR);
    for (const [body, expected, field] of [
      ["{]", 400], ["[1]", 401], ['{"token":7}', 422, "token"], ['{"zzz":1}', 422, "zzz"],
      ["zzz=1", 422, "zzz"], ["x".repeat(MIB), 413], ["token=wrong", 401], ["token=%00", 401],
      ["", 401], [`token=${token}&next=%2F%2Fevil.example`, 422, "next"],
      [`token=${token}&next=%5Cevil`, 422, "next"], [`token=${token}`, 303],
    ]) {
      const answer = await signIn(body);
      const seen = `${body.slice(0, 40)}: ${answer.status} ${answer.text}`;
      if (body === "[1]") assert.ok([400, 401, 422].includes(answer.status), seen);
      else assert.equal(answer.status, expected, seen);
      if (field) assert.equal(answer.body.field, field, seen);
      assert.equal(Boolean(answer.headers.get("set-cookie")), answer.status === 303, seen);
    }
    for (const origin of ["null", "https://evil.example", "", "\xff"]) {
      assert.equal((await raw("POST", "/signin", { origin }, "dev=1")).status, 403, origin);
      assert.equal((await raw("POST", "/signout", { origin, cookie }, "")).status, 403, origin);
    }
  });

  test("a page's form needs its origin and a session, and the Lab's is refused as a body is", async () => {
    const origin = `http://127.0.0.1:${server.port}`;
    const send = async (path, body, headers = { cookie, origin }) =>
      (await raw("POST", path, headers, body)).status;
    for (const { path } of PAGES.filter((page) => page.method === "POST")) {
      assert.equal(await send(path, "{}", { cookie }), 403, path);
      assert.equal(await send(path, "{}", { origin }), 401, path);
    }
    assert.equal(await send("/app/lab/run", "{]"), 400);
    // It also takes a form, in which this is a field that nobody knows.
    assert.equal(await send("/app/lab/run", "[]"), 422);
    assert.equal(await send("/app/lab/run", '{"zzz":1}'), 422);
    assert.equal(await send("/app/lab/run", "x".repeat(MIB)), 413);
  });

  test("a body may have 256 KiB and not a byte more, however it is sent", async () => {
    const fact = (key) => JSON.stringify({ key, feature: "clicks", units: 1 });
    const padded = (key, size) => fact(key).padEnd(size, " ");
    const target = `/v1/usage?account=${account.id}`;
    const headers = { authorization: `Bearer ${OPERATOR}` };
    const chunked = { ...headers, "transfer-encoding": "chunked" };
    assert.equal((await raw("POST", target, headers, padded("k1", 262_144))).status, 201);
    assert.equal((await raw("POST", target, chunked, padded("k2", 262_144))).status, 201);
    assert.equal((await raw("POST", target, headers, padded("k3", 262_145))).status, 413);
    assert.equal((await raw("POST", target, chunked, padded("k4", 262_145))).status, 413);
    // Its sender is heard to the end: a connection closed in the middle would hide the answer.
    for (let round = 0; round < 10; round += 1) {
      assert.equal((await raw("POST", target, headers, "x".repeat(6 * MIB))).status, 413);
      assert.equal((await raw("POST", target, chunked, "x".repeat(6 * MIB))).status, 413);
    }
  });

  test("after all that a click is a click and health is well", async () => {
    assert.equal((await server.request("GET", "/healthz")).status, 200);
    assert.equal((await server.click(code)).status, 302);
    assert.equal((await server.request("GET", "/app", { headers: { cookie } })).status, 200);
  });

  /** A request that `fetch` would refuse to send. */
  function raw(method, path, headers = {}, body) {
    return new Promise((resolve, reject) => {
      const options = { host: "127.0.0.1", port: server.port, method, path, headers, agent: false };
      const request = http.request(options, (answer) => {
        const chunks = [];
        answer.on("data", (chunk) => chunks.push(chunk));
        answer.on("end", () => resolve({
          status: answer.statusCode,
          headers: { get: (name) => answer.headers[name] ?? null },
          text: Buffer.concat(chunks).toString(),
        }));
        answer.on("error", reject);
      });
      request.on("error", reject);
      request.end(body);
    });
  }
});
