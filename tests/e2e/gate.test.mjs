// The gate over HTTP in real workerd: races, repeats, a killed server, the stand-in's limits.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { eventually, own, shared, unique } from "./harness.mjs";

const FEATURE = "tokens";

/** A fresh account whose plan allows that many tokens. */
async function limited(server, limit) {
  const customer = unique("customer");
  const limits = { plan: "pro", limits: { [FEATURE]: limit } };
  const put = await server.api("PUT", `/standin/customers/${customer}`, limits);
  assert.equal(put.status, 200, put.text);
  const account = await server.account({ customer_id: customer, jobs_per_minute: 100_000 });
  const post = (path, body) => account.api("POST", path, body);
  return {
    id: account.id,
    customer,
    post,
    get: (path) => account.api("GET", path),
    hold: (key, hold, more = {}) => post("/v1/jobs", { key, feature: FEATURE, hold, ...more }),
    budget: async () => (await account.api("GET", `/v1/budget?feature=${FEATURE}`)).body,
  };
}

/** Runs `work(n)` for every n below `count`, `width` at a time. */
async function crowd(count, width, work) {
  const results = [];
  let next = 0;
  const worker = async () => {
    while (next < count) {
      const number = next++;
      results[number] = await work(number);
    }
  };
  await Promise.all(Array.from({ length: width }, worker));
  return results;
}

const ledgerTotal = async (account) =>
  (await account.get(`/v1/usage?feature=${FEATURE}`)).body.total;

describe("the gate", () => {
  test("120 jobs of 1,000 at 50 at a time against 100,000: 100 start, 20 are refused", async () => {
    const account = await limited(await shared(), 100_000);
    const told = await crowd(120, 50, async (number) => {
      const job = await account.hold(`job-${number}`, 1000);
      if (job.status !== 201) return job;
      const settled = await account.post(`/v1/jobs/${job.body.id}/settle`, { used: 1000 });
      assert.equal(settled.status, 200);
      return job;
    });
    assert.equal(told.filter((one) => one.status === 201).length, 100);
    assert.equal(told.filter((one) => one.status === 402).length, 20);
    const { used, held, remaining } = await account.budget();
    assert.deepEqual({ used, held, remaining }, { used: 100_000, held: 0, remaining: 0 });
    await eventually(async () => (await ledgerTotal(account)) === 100_000, { what: "the ledger" });
  });

  test("the same key from 20 clients at once is one job", async () => {
    const account = await limited(await shared(), 1000);
    const told = await crowd(20, 20, () => account.hold("same", 600));
    assert.equal(told.filter((one) => one.status === 201).length, 1);
    assert.equal(told.filter((one) => one.status === 200).length, 19);
    assert.equal(new Set(told.map((one) => one.body.id)).size, 1);
    assert.equal((await account.budget()).held, 600);
  });

  test("a charge, a cut, an extension, a settlement, and the entries of the ledger", async () => {
    const account = await limited(await shared(), 100);
    const job = (await account.hold("k", 30)).body;
    const charge = (units, step) => account.post(`/v1/jobs/${job.id}/charges`, { units, step });
    assert.equal((await charge(20, "1")).body.charged, 20);
    assert.equal((await charge(20, "1")).body.used, 20);
    const cut = (await charge(15, "2")).body;
    assert.deepEqual([cut.charged, cut.uncovered, cut.capped], [10, 5, true]);
    assert.equal((await account.post(`/v1/jobs/${job.id}/extend`, { units: 20 })).status, 200);
    const end = (await account.post(`/v1/jobs/${job.id}/settle`, { used: 41 })).body;
    assert.deepEqual(end.charged, { [FEATURE]: 41 });
    assert.deepEqual(end.released, { [FEATURE]: 9 });
    await eventually(async () => (await ledgerTotal(account)) === 41, { what: "the ledger" });
  });

  test("a limit that changed at the provider is in force after a sync", async () => {
    const server = await shared();
    const account = await limited(server, 10);
    assert.equal((await account.hold("a", 10)).status, 201);
    assert.equal((await account.hold("b", 10)).status, 402);
    const change = { plan: "free", limits: { [FEATURE]: 25 } };
    await server.api("PUT", `/standin/customers/${account.customer}`, change);
    assert.equal((await account.post("/v1/account/sync", {})).status, 200);
    assert.equal((await account.hold("b", 10)).status, 201);
  });

  test("the Lab: the plain check spends 200,000, the gate 80,000", async () => {
    const server = await shared();
    const race = { limit: 100_000, jobs: 5, amount: 40_000, concurrency: 5 };
    const headers = { accept: "application/json" };
    const answer = await server.api("POST", "/app/lab/run", race, { headers });
    assert.equal(answer.status, 200, answer.text);
    const { plain, gate, jobs } = answer.body;
    assert.equal(plain.spent, 200_000);
    assert.deepEqual(gate, { spent: 80_000, held: 0 });
    const refused = jobs.filter((job) => !job.gate.started);
    assert.deepEqual(refused.map((job) => job.gate.left), [20_000, 20_000, 20_000]);
  });

  test("killed while jobs run: nothing that was answered is lost, and leases end", async () => {
    const server = await own();
    try {
      const account = await limited(server, 100_000);
      const jobs = await crowd(20, 20, (number) =>
        account.hold(`job-${number}`, 1000, { lease_seconds: 5 }));
      assert.ok(jobs.every((job) => job.status === 201));
      const charges = await crowd(20, 20, (number) =>
        account.post(`/v1/jobs/${jobs[number].body.id}/charges`, { units: 100, step: "1" }));
      assert.ok(charges.every((charge) => charge.status === 200));
      await server.kill();
      await server.start();
      const again = await account.post(`/v1/jobs/${jobs[0].body.id}/charges`,
        { units: 100, step: "1" });
      assert.deepEqual([again.status, again.body.charged], [200, 100]);
      await eventually(async () => (await account.budget()).held === 0,
        { within: 30_000, what: "the end of the leases" });
      assert.equal((await account.budget()).used, 2000);
      await eventually(async () => (await ledgerTotal(account)) === 2000,
        { within: 30_000, what: "the ledger" });
    } finally {
      await server.stop();
    }
  });
});
