// The inbox in workerd: signed deliveries over HTTP, D1, the account's object and cron.

import assert from "node:assert/strict";
import { request } from "node:http";
import { describe, test } from "node:test";
import { BACKEND, eventually, own, shared, unique } from "./harness.mjs";

const post = (server, jwt, webhookId = unique("webhook")) => server.request(
  "POST", "/webhooks/kinde",
  { headers: { "content-type": "application/jwt", "webhook-id": webhookId }, body: jwt },
);

/** A signed event that is not delivered. */
async function signed(server, type, customer, more = {}) {
  const body = { type, customer_id: customer, deliver: 0, ...more };
  const answer = await server.api("POST", "/standin/events", body);
  assert.equal(answer.status, 200, answer.text);
  return answer.body.jwt;
}

async function withCustomer(server, plan) {
  const customer_id = unique("customer");
  if (plan) await server.api("PUT", `/standin/customers/${customer_id}`, { plan });
  const account = await server.account({ customer_id });
  return { ...account, customer_id };
}

const events = async (server, account) =>
  (await server.api("GET", `/v1/events?account=${account.id}`)).body.items;

const state = async (server, account) => {
  const { body } = await server.api("GET", `/v1/accounts/${account.id}`);
  return [body.plan, body.balance.credits];
};

/** Waits until no event of the account is on its way. */
const settled = (server, account) => eventually(async () => {
  const all = await events(server, account);
  const ends = ["applied", "ignored", "skipped", "dead"];
  return all.length > 0 && all.every((event) => ends.includes(event.status)) && all;
}, { what: "the end of every event" });

test("a customer who upgrades is on Pro with its allowance behind the answer", async () => {
  const server = await shared();
  const account = await withCustomer(server);
  assert.deepEqual(await state(server, account), ["free", 10]);
  await server.api("PUT", `/standin/customers/${account.customer_id}`, { plan: "pro" });
  const sent = await server.api("POST", "/standin/events", {
    type: "customer.plan_changed", customer_id: account.customer_id,
    data: { plan: { key: "pro" } }, deliver: 3,
  });
  assert.deepEqual(sent.body.answers, [200, 200, 200]);
  const [event] = await settled(server, account);
  assert.deepEqual([event.status, event.result, event.seen], ["applied", "plan pro", 3]);
  assert.equal(event.receipts.length, 3);
  assert.deepEqual(await state(server, account), ["pro", 500]);
});

test("forgeries are refused by the platform's verifier and leave no row", async () => {
  const server = await shared();
  const account = await withCustomer(server);
  const good = await signed(server, "customer.plan_changed", account.customer_id);
  const [head, payload, signature] = good.split(".");
  const header = JSON.parse(Buffer.from(head, "base64url"));
  const recoded = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const cases = [
    [400, "hello"],
    [400, ""],
    [400, `${head}.${payload}`],
    [400, `${head}.${payload}.${signature}=`],
    [401, `${recoded({ ...header, alg: "none" })}.${payload}.`],
    [401, `${recoded({ ...header, alg: "HS256" })}.${payload}.${signature}`],
    [401, `${recoded({ ...header, kid: "k".repeat(10_000) })}.${payload}.${signature}`],
    [401, `${recoded({ ...header, kid: "../jwks" })}.${payload}.${signature}`],
    [401, `${recoded({ ...header, crit: ["b64"] })}.${payload}.${signature}`],
    [401, `${head}.${payload}.${"A".repeat(signature.length)}`],
    [401, `${head}.${recoded({ type: "customer.plan_changed" })}.${signature}`],
    [401, `${head}.${payload}.${signature.slice(0, 100)}`],
    [413, "a".repeat(2 * 1024 * 1024)],
  ];
  for (const [status, body] of cases) {
    const answer = await post(server, body);
    assert.equal(answer.status, status, `${body.slice(0, 60)}: ${answer.text}`);
  }
  assert.deepEqual(await events(server, account), []);
  const stale = await signed(server, "customer.plan_changed", account.customer_id,
    { timestamp: new Date(Date.now() - 97 * 3_600_000).toISOString() });
  assert.equal((await post(server, stale)).body.code, "stale");
  assert.equal((await post(server, good)).status, 200);
});

/** A delivery over a socket of its own, its body in pieces where no length is given. */
function pieces(server, body, headers) {
  return new Promise((resolve, reject) => {
    const options = { port: server.port, host: "127.0.0.1", method: "POST",
      path: "/webhooks/kinde", headers };
    const sent = request(options, (answer) => {
      answer.resume();
      answer.on("end", () => resolve(answer.statusCode));
    });
    sent.on("error", reject);
    if ("content-length" in headers) {
      sent.end(body);
    } else {
      for (let at = 0; at < body.length; at += 65_536) sent.write(body.slice(at, at + 65_536));
      sent.end();
    }
  });
}

test("2 MB are refused with and without a length, 256 KiB are read, and no row is left", async () => {
  const server = await shared();
  const account = await withCustomer(server);
  const bodies = [["a".repeat(2 * 1024 * 1024), 413], ["a".repeat(256 * 1024 + 1), 413],
    ["a".repeat(256 * 1024), 400]];
  for (const [body, status] of bodies) {
    const withLength = { "content-length": String(body.length) };
    assert.equal(await pieces(server, body, withLength), status, `${body.length} with a length`);
    assert.equal(await pieces(server, body, { "transfer-encoding": "chunked" }), status,
      `${body.length} in pieces`);
  }
  assert.deepEqual(await events(server, account), []);
  const jwt = await signed(server, "customer.payment_succeeded", account.customer_id);
  assert.equal(await pieces(server, jwt, { "transfer-encoding": "chunked" }), 200);
});

test("a delivery is read whatever its content type says", async () => {
  const server = await shared();
  const account = await withCustomer(server);
  const types = ["application/jwt", "application/json", "text/plain", "application/octet-stream",
    "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"];
  for (const type of types) {
    const jwt = await signed(server, "customer.payment_succeeded", account.customer_id);
    const headers = { "content-type": type };
    const answer = await server.request("POST", "/webhooks/kinde", { headers, body: jwt });
    assert.deepEqual([answer.status, answer.body.copy], [200, false], type);
  }
  assert.equal((await settled(server, account)).length, types.length);
});

test("twins on many connections are one event with one effect", async () => {
  const server = await shared();
  const account = await withCustomer(server, "pro");
  const jwt = await signed(server, "customer.payment_succeeded", account.customer_id);
  const answers = await Promise.all(Array.from({ length: 25 }, () => post(server, jwt)));
  assert.ok(answers.every((answer) => answer.status === 200));
  assert.equal(answers.filter((answer) => !answer.body.copy).length, 1);
  const [event] = await settled(server, account);
  assert.deepEqual([event.seen, event.status], [25, "applied"]);
  assert.ok(event.receipts.length <= 20);
  const shown = await server.api("GET", `/v1/events/${event.id}`);
  assert.equal(shown.body.runs.length, 1);
  assert.equal(shown.body.payload.type, "customer.payment_succeeded");
});

test("an account sees and replays its own events only", async () => {
  const server = await shared();
  const [a, b] = [await withCustomer(server), await withCustomer(server)];
  await post(server, await signed(server, "customer.payment_succeeded", a.customer_id));
  const [event] = await settled(server, a);
  const own = await a.api("GET", "/v1/events");
  assert.deepEqual(own.body.items.map((item) => item.id), [event.id]);
  assert.deepEqual((await b.api("GET", "/v1/events")).body.items, []);
  assert.equal((await b.api("GET", `/v1/events/${event.id}`)).status, 404);
  assert.equal((await b.api("POST", `/v1/events/${event.id}/replay`)).status, 404);
  const shown = await a.api("GET", `/v1/events/${event.id}`);
  assert.deepEqual([shown.status, "payload" in shown.body], [200, false]);
  assert.equal((await a.api("POST", `/v1/events/${event.id}/replay`)).status, 202);
  assert.equal((await a.api("POST", `/v1/events/${event.id}/skip`, { reason: "x" })).status, 403);
  await settled(server, a);
  const skip = `/v1/events/${event.id}/skip`;
  assert.equal((await server.api("POST", skip, { reason: "x" }, { token: BACKEND })).status, 403);
});

test("the Engine Room shows the naive handler at 2,950 and the pipeline at 500", async () => {
  const server = await shared();
  for (const doorbell of [false, true]) {
    const answer = await server.api("POST", "/app/engine-room/run", { doorbell },
      { headers: { accept: "application/json" } });
    assert.equal(answer.status, 200, answer.text);
    const { arrived, stored, dropped, finished, ignored, granted, steps } = answer.body;
    assert.deepEqual([arrived, stored, dropped, finished, granted], [9, 3, 6, 1, 1]);
    assert.deepEqual(ignored, ["a newer plan change is already stored"]);
    const last = steps.at(-1);
    assert.deepEqual([last.naive.plan, last.naive.balance], ["Pro", 2950]);
    assert.deepEqual([last.pipeline.plan, last.pipeline.balance], ["Pro", 500]);
    assert.deepEqual([steps[1].naive.plan, steps[1].naive.balance], ["Pro", 10]);
    assert.equal(steps[6].naive.plan, "Free");
  }
});

describe("with a server of its own", () => {
  test("what was answered 200 is applied after a power cut", async () => {
    const server = await own();
    try {
      const accounts = await Promise.all(
        Array.from({ length: 8 }, () => withCustomer(server)));
      for (const account of accounts) {
        await server.api("PUT", `/standin/customers/${account.customer_id}`, { plan: "pro" });
      }
      const tokens = await Promise.all(accounts.map((account) => signed(
        server, "customer.plan_changed", account.customer_id, { data: { plan: { key: "pro" } } })));
      const answers = await Promise.all(tokens.map((jwt) => post(server, jwt)));
      await server.kill();
      assert.ok(answers.every((answer) => answer.status === 200));
      await server.start();
      // A lease that the killed worker held runs out by the clock alone.
      await server.api("PUT", "/standin/clock", { offset_ms: 31_000 });
      await eventually(async () => {
        await server.tick();
        const plans = await Promise.all(accounts.map((account) => state(server, account)));
        return plans.every(([plan, credits]) => plan === "pro" && credits === 500);
      }, { within: 30_000, what: "Pro for everybody" });
    } finally {
      await server.stop();
    }
  });

  test("a key that is rotated between two deliveries is taken at once", async () => {
    const server = await own();
    try {
      const account = await withCustomer(server);
      const one = () => signed(server, "customer.payment_succeeded", account.customer_id);
      assert.equal((await post(server, await one())).status, 200);
      await server.api("POST", "/standin/keys/rotate", {});
      const rotated = await Promise.all([one(), one(), one()]);
      const told = await Promise.all(rotated.map((jwt) => post(server, jwt)));
      assert.deepEqual(told.map((answer) => answer.status), [200, 200, 200]);
      assert.equal((await settled(server, account)).length, 4);
    } finally {
      await server.stop();
    }
  });

  test("while the provider is out of reach events wait without a try and recover", async () => {
    const server = await own();
    try {
      const account = await withCustomer(server);
      await server.api("PUT", "/standin/faults", { operation: "plan", mode: "error" });
      await server.api("PUT", `/standin/customers/${account.customer_id}`, { plan: "pro" });
      await post(server, await signed(server, "customer.agreement_created", account.customer_id));
      const waiting = await eventually(async () => {
        const [event] = await events(server, account);
        return event.status === "failed" && event;
      });
      assert.equal(waiting.attempts, 0);
      await server.api("PUT", "/standin/faults", { operation: "plan", mode: "ok" });
      await eventually(async () => {
        await server.tick();
        return (await state(server, account))[0] === "pro";
      }, { within: 30_000, what: "Pro after the outage" });
    } finally {
      await server.stop();
    }
  });

  test("rotated keys are taken, unreachable ones answered 503, and nothing is lost", async () => {
    const server = await own();
    try {
      const account = await withCustomer(server, "pro");
      const send = async () =>
        post(server, await signed(server, "customer.payment_succeeded", account.customer_id));
      assert.equal((await send()).status, 200);
      await server.api("POST", "/standin/keys/rotate");
      await server.api("PUT", "/standin/faults", { operation: "jwks", mode: "error" });
      await server.api("PUT", "/standin/clock", { offset_ms: 31_000 });
      const jwt = await signed(server, "customer.payment_succeeded", account.customer_id);
      const refused = await post(server, jwt);
      assert.deepEqual([refused.status, refused.headers.has("retry-after")], [503, true]);
      await server.api("PUT", "/standin/faults", { operation: "jwks", mode: "ok" });
      await server.api("PUT", "/standin/clock", { offset_ms: 62_000 });
      assert.equal((await post(server, jwt)).status, 200);
      assert.equal((await settled(server, account)).length, 2);
    } finally {
      await server.stop();
    }
  });
});
