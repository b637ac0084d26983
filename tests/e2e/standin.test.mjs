// The built-in provider in workerd: its own token, signatures by the platform, a delivery of its
// own, and the clock, which every object has heard of before the answer.

import { test } from "node:test";
import assert from "node:assert/strict";
import { createPublicKey, verify } from "node:crypto";

import { own, shared, unique } from "./harness.mjs";

const DAY_MS = 86_400_000;
const FORM = "application/x-www-form-urlencoded";

async function accessToken(server) {
  const body = new URLSearchParams({
    grant_type: "client_credentials",
    client_id: "standin",
    client_secret: "standin-secret",
    audience: `${server.url}/standin/api`,
  }).toString();
  const headers = { "content-type": FORM };
  const answer = await server.request("POST", "/standin/oauth2/token", { headers, body });
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.body.token_type, "Bearer");
  return answer.body.access_token;
}

test("the stand-in's paths take its own token only and its controls the operator's", async () => {
  const server = await shared();
  const token = await accessToken(server);
  const customer = unique("customer_");
  const path = `/standin/api/v1/billing/entitlements?customer_id=${customer}`;
  const mine = await server.api("GET", path, undefined, { token });
  assert.equal(mine.status, 200, mine.text);
  const codes = mine.body.entitlements.map((row) => row.feature_code);
  assert.deepEqual(codes, ["clicks", "tokens", "base_price"]);
  assert.equal((await server.api("GET", path)).status, 401);
  assert.equal((await server.api("GET", "/standin/calls", undefined, { token })).status, 401);
});

test("a total is written as Kinde has it and read back, and a wrong write moves nothing", async () => {
  const server = await shared();
  const token = await accessToken(server);
  const customer = unique("customer_");
  const set = await server.api("PUT", `/standin/customers/${customer}`, { plan: "pro" });
  assert.equal(set.status, 200, set.text);
  const { agreement_id: agreement } = set.body;
  const write = (fields) => server.api("POST", "/standin/api/v1/billing/meter_usage", {
    customer_agreement_id: agreement, billing_feature_code: "tokens", ...fields,
  }, { token, headers: { "content-type": "application/json" } });
  assert.equal((await write({ meter_value: "1234" })).status, 200);
  assert.equal((await write({ meter_value: 1234 })).status, 400);
  assert.equal((await write({ meter_value: "-1" })).status, 400);
  const meter = await server.api("GET", `/standin/meters/${agreement}/tokens`);
  assert.equal(meter.body.total, 1234);
});

test("an event verifies under the published keys, before and after a rotation", async () => {
  const server = await own();
  const sign = async () => (await server.api("POST", "/standin/events", {
    type: "customer.plan_changed", customer_id: "customer_1", deliver: 0,
  })).body.jwt;
  const verifies = async (jwt) => {
    const [head, payload, signature] = jwt.split(".");
    const { kid } = JSON.parse(Buffer.from(head, "base64url"));
    const { body } = await server.request("GET", "/standin/.well-known/jwks");
    const jwk = body.keys.find((key) => key.kid === kid);
    if (jwk === undefined) return false;
    const key = createPublicKey({ key: jwk, format: "jwk" });
    const message = Buffer.from(`${head}.${payload}`);
    return verify("RSA-SHA256", message, key, Buffer.from(signature, "base64url"));
  };
  const before = await sign();
  assert.equal(await verifies(before), true);
  await server.api("POST", "/standin/keys/rotate");
  const after = await sign();
  assert.deepEqual([await verifies(before), await verifies(after)], [true, true]);
  await server.api("POST", "/standin/keys/rotate", { drop: true });
  assert.deepEqual([await verifies(before), await verifies(after)], [false, false]);
  await server.stop();
});

test("a delivery reaches the inbox of this Worker and is stored once", async () => {
  const server = await shared();
  const sent = await server.api("POST", "/standin/events", {
    type: "customer.payment_succeeded", customer_id: unique("customer_"), deliver: 3,
  });
  assert.equal(sent.status, 200, sent.text);
  assert.deepEqual(sent.body.answers, [200, 200, 200]);
});

test("the clock moves periods and budgets for worker, objects and stand-in alike", async () => {
  const server = await own({ vars: { SHARDS: 2 } });
  const { id } = await server.account({ customer_id: "customer_1" });
  const cycle = async () => (await server.api("GET", `/v1/accounts/${id}`)).body.cycle.name;
  const before = await cycle();
  const period = async () =>
    (await server.api("PUT", "/standin/customers/customer_1", {})).body.period_start;
  const started = await period();
  const moved = await server.api("PUT", "/standin/clock", { offset_ms: 40 * DAY_MS });
  assert.equal(moved.status, 200, moved.text);
  assert.ok((await cycle()) > before);
  assert.ok((await period()) > started);
  const back = await server.api("PUT", "/standin/clock", { offset_ms: 1 });
  assert.deepEqual([back.status, back.body.field], [422, "offset_ms"]);
  await server.stop();
});
