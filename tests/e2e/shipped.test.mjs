// The bundle with the shipped wrangler.toml and no secrets, as a first deploy has it: nothing is
// open that needs a token.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { OPERATOR, own } from "./harness.mjs";
import { ROUTES } from "./routes.mjs";

const GUARDED = ROUTES.filter(({ access }) => access !== "Open" && access !== "Page");

describe("the shipped configuration", () => {
  let server;
  before(async () => {
    server = await own({ shipped: true });
  });
  after(() => server?.stop());

  const api = ({ method, path }, token) =>
    server.api(method, `${path}?account=a`, method === "GET" ? undefined : {}, { token });

  test("every operator and account route says that it is not configured", async () => {
    for (const route of GUARDED.filter(({ pattern }) => !pattern.startsWith("/standin"))) {
      const answer = await api(route, OPERATOR);
      const seen = `${route.method} ${route.pattern}: ${answer.status} ${answer.text}`;
      assert.equal(answer.status, 503, seen);
      assert.equal(answer.body.code, "not_configured", seen);
      assert.ok(answer.headers.get("retry-after"), seen);
    }
  });

  test("no token and an unknown api key are 401", async () => {
    for (const route of GUARDED.filter(({ pattern }) => !pattern.startsWith("/standin"))) {
      assert.equal((await api(route, null)).status, 401, route.pattern);
      assert.equal((await api(route, "cfk_nobody_secret")).status, 401, route.pattern);
    }
  });

  test("the stand in is not there", async () => {
    const standIn = ROUTES.filter(({ pattern }) => pattern.startsWith("/standin"));
    assert.ok(standIn.length > 0);
    for (const route of standIn) {
      assert.equal((await api(route, OPERATOR)).status, 404, route.pattern);
    }
  });

  test("pages are not open either", async () => {
    for (const { method, path } of ROUTES.filter(({ access }) => access === "Page")) {
      const answer = await server.request(method, path);
      assert.ok([401, 404, 503].includes(answer.status), `${method} ${path}: ${answer.status}`);
    }
  });

  test("a webhook is not accepted", async () => {
    const answer = await server.request("POST", "/webhooks/kinde", { body: "a.b.c" });
    assert.ok([400, 401, 503].includes(answer.status), `${answer.status} ${answer.text}`);
  });

  test("it says that its provider is kinde", async () => {
    assert.equal((await server.request("GET", "/healthz")).body.provider, "kinde");
  });
});
