// Bad input to every route: the right 4xx with the field's name, no panic, and the service goes
// on.

import assert from "node:assert/strict";
import http from "node:http";
import { after, before, describe, test } from "node:test";
import { OPERATOR, own, unique } from "./harness.mjs";
import { ROUTES } from "./routes.mjs";

const API = ROUTES.filter(({ path, access }) => path.startsWith("/v1/") && access !== "Open");
const WITH_BODY = API.filter(({ method }) => ["POST", "PUT", "PATCH"].includes(method));

describe("bad input", () => {
  let server;
  let account;
  before(async () => {
    server = await own();
    account = await server.account();
  });
  after(async () => {
    const log = server?.log ?? "";
    await server?.stop();
    assert.doesNotMatch(log, /panicked|RuntimeError|unreachable|Critical|Uncaught/);
  });

  /** The routes of one account name it in the path; the account is looked at before the body. */
  const url = ({ pattern, path }) => pattern.startsWith("/v1/accounts/")
    ? path.replace("nothing-1", account.id)
    : `${path}?account=${account.id}`;

  /** Asks every route of the list and tells all that answered otherwise at once. */
  async function each(routes, ask, expected) {
    const wrong = [];
    for (const route of routes) {
      const answer = await ask(route);
      const problem = answer.status < 400 ? null : answer.headers.get("content-type");
      const fine = answer.status === expected
        && (problem === null || problem === "application/problem+json")
        && (expected !== 422 || typeof answer.body.field === "string")
        && answer.headers.get("x-request-id");
      if (!fine) wrong.push(`${route.method} ${route.pattern}: ${answer.status} ${answer.text}`);
    }
    assert.deepEqual(wrong, []);
  }

  const BROKEN = {
    garbage: "{]", "an array": "[]", "a number": "7", "half a text": '{"a":"', nul: "\0",
  };

  for (const [name, body] of Object.entries(BROKEN)) {
    test(`a body that is ${name} is 400`, async () => {
      await each(WITH_BODY, (route) => server.api(route.method, url(route), body), 400);
    });
  }

  test("a body of 1 MiB is 413", async () => {
    const body = JSON.stringify({ key: "x".repeat(1024 * 1024) });
    await each(WITH_BODY, (route) => server.api(route.method, url(route), body), 413);
  });

  test("an unknown field is 422 and named", async () => {
    await each(WITH_BODY, (route) => server.api(route.method, url(route), { zzz: 1 }), 422);
  });

  test("a field of the wrong type is 422 and named", async () => {
    const wrong = { key: 7, feature: [], hold: "10", units: 1.5, destination: {}, reason: 1, ids: 3,
      id: 9, name: [], customer_id: 4, used: -1, status: 2, items: "x", account: 1, dry_run: "y" };
    await each(WITH_BODY, (route) => server.api(route.method, url(route), wrong), 422);
  });

  test("no token and a wrong one are 401, before anything else is looked at", async () => {
    const huge = "x".repeat(300 * 1024);
    for (const token of [null, "wrong", "cfk_", "cfk_a_b", "Ünïcode".normalize(), "a b c"]) {
      const headers = token === null ? {} : { authorization: `Bearer ${encodeURI(token)}` };
      await each(
        API,
        ({ method, path }) =>
          server.request(method, path, { headers, body: method === "GET" ? undefined : huge }),
        401,
      );
    }
  });

  test("an account's key may not use the operator's routes", async () => {
    const operators = API.filter(({ access }) => ["Operator", "AccountOperator"].includes(access));
    await each(operators, (route) => account.api(route.method, url(route), body(route)), 403);
  });

  test("another account is 404 to an account's key, as if it did not exist", async () => {
    const other = await server.account();
    const own = API.filter(({ access }) => ["Account", "AccountOrAll", "Filter"].includes(access));
    const ask = (id) => (route) =>
      account.api(route.method, `${route.path}?account=${id}`, body(route));
    await each(own, ask(other.id), 404);
    await each(own, ask(unique("nobody")), 404);
  });

  test("an account that must be named and is not is 422, one that is not there 404", async () => {
    const named = API.filter(({ access }) => ["Account", "AccountOperator"].includes(access));
    await each(named, (route) => server.api(route.method, route.path, body(route)), 422);
    const nobody = unique("nobody");
    const ask = (route) => server.api(route.method, `${route.path}?account=${nobody}`, body(route));
    await each(named, ask, 404);
  });

  test("another method is 405 with Allow, OPTIONS is 204", async () => {
    for (const { path, pattern } of API) {
      const answer = await server.api("PUT", path, {});
      assert.equal(answer.status, 405, pattern);
      assert.ok(answer.headers.get("allow"), pattern);
      assert.equal((await server.api("OPTIONS", path)).status, 204, pattern);
    }
  });

  test("odd paths, queries and headers are answered", async () => {
    const paths = ["/%", "/%zz", "/%ff%fe", "/%00", "//", "/a//b", "/.", "/a%2Fb",
      `/${"x".repeat(5000)}`, "/v1/jobs/%20", "/v1/jobs/..%2f..", `/v1/jobs/${"j".repeat(65)}`, "/v1/links/%F0%9F%A7%BE"];
    for (const path of paths) {
      const answer = await raw("GET", path, { authorization: `Bearer ${OPERATOR}` });
      assert.ok(answer >= 300 && answer < 500, `${path}: ${answer}`);
    }
    const queries = ["?", "?&&=", "?limit=", "?limit=-1", "?limit=1e9", "?after=%ff", "?account=%00"];
    const authorization = `Bearer ${OPERATOR}`;
    for (const query of queries) {
      const answer = await raw("GET", `/v1/accounts${query}`, { authorization });
      assert.ok([200, 404, 422].includes(answer), `${query}: ${answer}`);
    }
    const odd = { cookie: "=;;=\xff;a", "user-agent": "\xe9\xff", referer: ":::",
      "sec-purpose": "\x80", "cf-connecting-ip": "nobody", "content-length": "0", "accept-language": "x".repeat(4000) };
    for (const [name, value] of Object.entries(odd)) {
      const answer = await raw("GET", "/nothing-here", { [name]: value });
      assert.equal(answer, 404, name);
    }
    assert.equal(await raw("PROPFIND", "/v1/accounts", {}), 405);
  });

  test("after all that it still answers", async () => {
    assert.equal((await server.request("GET", "/healthz")).status, 200);
    const answer = await server.api("GET", `/v1/accounts/${account.id}`);
    assert.equal(answer.status, 200, answer.text);
  });

  function body({ method }) {
    return method === "GET" || method === "DELETE" ? undefined : {};
  }

  /** A request that `fetch` would refuse to send; its status. */
  function raw(method, path, headers) {
    return new Promise((resolve, reject) => {
      const options = { host: "127.0.0.1", port: server.port, method, path, headers, agent: false };
      const request = http.request(options, (answer) => {
        answer.resume();
        answer.on("end", () => resolve(answer.statusCode));
      });
      request.on("error", reject);
      request.end();
    });
  }
});
