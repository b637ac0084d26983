// Accounts, keys, sessions and the description of the API over HTTP.

import assert from "node:assert/strict";
import { test } from "node:test";
import { BACKEND, OPERATOR, own, shared, unique } from "./harness.mjs";

/** Signs in as a browser on the server's own page would; the session's cookie. */
async function signIn(server, form, origin = server.url) {
  const answer = await server.request("POST", "/signin", {
    headers: { origin, "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams(form).toString(),
  });
  const set = answer.headers.get("set-cookie");
  return { answer, cookie: set?.split(";")[0] };
}

test("of_many_creations_at_once_one_is_answered_201_with_the_key", async () => {
  const server = await shared();
  const body = { id: unique("acct"), name: "Once" };
  const create = () => server.api("POST", "/v1/accounts", body, { token: BACKEND });
  const answers = await Promise.all(Array.from({ length: 20 }, create));
  const made = answers.filter((answer) => answer.status === 201);
  assert.equal(made.length, 1);
  assert.ok(answers.every((answer) => [200, 201].includes(answer.status)));
  assert.equal(answers.filter((answer) => "api_key" in answer.body).length, 1);
  const key = made[0].body.api_key;
  const own = await server.api("GET", "/v1/account", undefined, { token: key });
  assert.equal(own.body.id, body.id);
});

test("of_many_accounts_for_one_customer_one_is_made", async () => {
  const server = await shared();
  const customer_id = unique("customer");
  const create = () => server.api("POST", "/v1/accounts", { customer_id }, { token: BACKEND });
  const answers = await Promise.all(Array.from({ length: 10 }, create));
  assert.equal(answers.filter((answer) => answer.status === 201).length, 1);
  for (const answer of answers.filter((one) => one.status !== 201)) {
    assert.deepEqual([answer.status, answer.body.code], [409, "customer_taken"]);
  }
});

test("a_revoked_key_ends_and_no_secret_is_logged", async () => {
  const server = await shared();
  const account = await server.account();
  const keys = await server.api("GET", `/v1/accounts/${account.id}/keys`);
  assert.equal(keys.body.items.length, 1);
  const path = `/v1/accounts/${account.id}/keys/${keys.body.items[0].id}`;
  assert.equal((await account.api("GET", "/v1/account")).status, 200);
  assert.equal((await server.api("DELETE", path)).status, 204);
  const after = await account.api("GET", "/v1/account");
  assert.deepEqual([after.status, after.headers.get("www-authenticate")], [401, "Bearer"]);
  assert.ok(!server.log.includes(account.key.split("_").at(-1)));
});

test("a_session_reads_pages_and_changes_things_only_from_our_own_origin", async () => {
  const server = await shared();
  const { answer, cookie } = await signIn(server, { token: OPERATOR, next: "/app" });
  assert.equal(answer.status, 303);
  assert.match(answer.headers.get("set-cookie"), /HttpOnly; SameSite=Lax/);
  assert.equal(answer.headers.get("location"), "/app");
  const page = await server.request("GET", "/app", { headers: { cookie } });
  assert.equal(page.status, 200);
  assert.match(page.headers.get("content-security-policy"), /script-src 'self'/);
  const post = (origin) => server.request("POST", "/v1/accounts", {
    headers: { cookie, ...(origin && { origin }) },
    body: JSON.stringify({ id: unique("acct") }),
  });
  assert.equal((await post(server.url)).status, 201);
  assert.equal((await post("http://evil.test")).status, 403);
  assert.equal((await post()).status, 403);
  const away = await server.request("GET", "/app/links?x=1", {});
  assert.equal(away.status, 303);
  assert.equal(away.headers.get("location"), "/signin?next=%2Fapp%2Flinks%3Fx%3D1");
  const foreign = await signIn(server, { token: OPERATOR }, "http://evil.test");
  assert.equal(foreign.answer.status, 403);
});

test("the_address_127_0_0_1_is_as_good_as_localhost", async () => {
  const server = await shared();
  const url = server.url.replace("localhost", "127.0.0.1");
  const answer = await fetch(`${url}/signin`, {
    method: "POST",
    headers: { origin: url },
    body: new URLSearchParams({ dev: "1" }),
    redirect: "manual",
  });
  assert.equal(answer.status, 303, await answer.text());
});

test("an_accounts_session_sees_its_own_account_only", async () => {
  const server = await shared();
  const account = await server.account();
  const other = await server.account();
  const { answer, cookie } = await signIn(server, { token: account.key });
  assert.equal(answer.headers.get("location"), `/app/accounts/${account.id}`);
  const get = async (path) => (await server.request("GET", path, { headers: { cookie } })).status;
  assert.equal(await get(`/app/accounts/${account.id}`), 200);
  assert.equal(await get(`/app/accounts/${other.id}`), 404);
  assert.equal(await get("/app/reconcile"), 403);
  assert.equal(await get("/v1/accounts"), 403);
});

test("the_session_key_that_was_made_here_outlives_a_restart", async () => {
  const server = await own();
  try {
    const { cookie } = await signIn(server, { dev: "1" });
    await server.kill();
    await server.start();
    const page = await server.request("GET", "/app", { headers: { cookie } });
    assert.equal(page.status, 200);
  } finally {
    await server.stop();
  }
});

test("every_described_path_is_served_and_the_metrics_are_prometheus_text", async () => {
  const server = await shared();
  const described = (await server.request("GET", "/openapi.json")).body;
  assert.equal(described.openapi, "3.1.0");
  for (const [path, methods] of Object.entries(described.paths)) {
    if (path === "/{code}") continue;
    // Only the crons' own names are paths; any id is one.
    const target = path.replace("{job}", "reporter").replaceAll(/[{}]/g, "");
    const answer = await server.request("OPTIONS", target);
    assert.equal(answer.status, 204, path);
    for (const method of Object.keys(methods)) {
      assert.ok(answer.headers.get("allow").includes(method.toUpperCase()), path);
    }
  }
  const metrics = await server.api("GET", "/metrics");
  assert.equal(metrics.status, 200);
  for (const line of metrics.text.trim().split("\n")) {
    assert.match(line, /^(# (HELP|TYPE) \w+ .+|\w+(\{[^}]*\})? -?\d+)$/);
  }
  assert.equal((await server.request("GET", "/docs")).status, 200);
});
