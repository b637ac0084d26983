// Meters on real D1 and real objects: drift and its repair, every fault of a write and a read,
// replaced agreements, the turn of a cycle, a carried tail, a period that differs.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { own, unique } from "./harness.mjs";

const MINUTE = 60_000;

describe("meters", () => {
  let server;
  let offset = 0;
  before(async () => { server = await own({ vars: { SHARDS: 4 } }); });
  after(async () => { await server?.stop(); });

  const ok = async (method, path, body) => {
    const answer = await server.api(method, path, body);
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${answer.text}`);
    return answer.body;
  };
  const advance = async (ms) => {
    offset += ms;
    await ok("PUT", "/standin/clock", { offset_ms: offset });
  };
  const until = (text) => advance(Date.parse(text) - Date.now() - offset);

  /** An account with a customer of its own, its agreement, and what can be done with its clicks. */
  const billed = async (customer = {}) => {
    const id = unique("m").replace("-", "_");
    const customer_id = `customer_${id}`;
    const put = (fields) => ok("PUT", `/standin/customers/${customer_id}`, fields);
    await put(customer);
    await server.account({ id, customer_id });
    let key = 0;
    const agreement = async () => (await ok("GET", `/v1/accounts/${id}`)).agreement_id;
    const first = await agreement();
    const self = {
      id, put, agreement, first,
      use: (units) => ok("POST", `/v1/usage?account=${id}`,
        { key: `k${key += 1}`, feature: "clicks", units }),
      meter: async (of = first) => (await ok("GET", `/standin/meters/${of}/clicks`)).total,
      move: (total) => ok("PUT", `/standin/meters/${first}/clicks`, { total }),
      meters: async () => (await ok("GET", `/v1/meters?account=${id}`)).items
        .filter(({ feature }) => feature === "clicks"),
      evidence: async () =>
        (await ok("GET", `/v1/evidence?account=${id}&feature=clicks`)).items,
      reviews: async () => (await ok("GET", `/v1/review?account=${id}`)).items,
      reconcile: (more = {}) => ok("POST", "/v1/run/reconciler", { account: id, ...more }),
      sync: () => ok("POST", `/v1/account/sync?account=${id}`, {}),
    };
    return self;
  };

  test("a meter moved behind our back is repaired, proven and told once", async () => {
    const account = await billed();
    await account.use(1000);
    await server.run("reporter");
    await account.reconcile();
    await account.move(574);
    const dry = await account.reconcile({ dry_run: true });
    assert.deepEqual([dry.drifted, dry.repaired, await account.meter()], [1, 0, 574]);
    const found = await account.reconcile();
    assert.deepEqual([found.drifted, found.repaired], [1, 1]);
    assert.equal(await account.meter(), 1000);
    const [row] = await account.evidence();
    assert.deepEqual([row.verdict, row.cause, row.repaired_to, row.read_back],
      ["under_billed", "meter_moved_by_other", 1000, 1000]);
    const rows = (await account.evidence()).length;
    assert.equal((await account.reconcile()).drifted, 0);
    assert.equal((await account.evidence()).length, rows);
    await account.move(1426);
    await account.reconcile();
    assert.equal((await account.evidence())[0].verdict, "over_billed");
    assert.equal(await account.meter(), 1000);
  });

  for (const operation of ["meter_write", "meter_read"]) {
    for (const mode of ["error", "429", "garbage", "lost_answer", "late"]) {
      test(`${mode} on ${operation} heals by itself`, async () => {
        const account = await billed();
        await account.use(5);
        await server.run("reporter");
        await account.use(3);
        await ok("PUT", "/standin/faults", { operation, mode, times: 1 });
        await server.run("reporter");
        await account.use(4);
        for (let run = 0; run < 4; run += 1) {
          await advance(61_000);
          await server.run("reporter");
        }
        await ok("PUT", "/standin/faults", { operation, mode: "ok" });
        const [meter] = await account.meters();
        assert.deepEqual([meter.ledger, meter.sent, meter.marked], [12, 12, false]);
        assert.equal(await account.meter(), 12);
        assert.equal((await account.reconcile()).drifted, 0);
      });
    }
  }

  test("a replaced agreement and the one before add up to the ledger", async () => {
    const account = await billed();
    await account.use(100);
    await server.run("reporter");
    await account.put({ plan: "pro" });
    await account.sync();
    const second = await account.agreement();
    assert.notEqual(second, account.first);
    await account.use(20);
    await server.run("reporter");
    assert.deepEqual([await account.meter(), await account.meter(second)], [100, 20]);
    const found = await account.reconcile();
    assert.deepEqual([found.matched, found.drifted], [found.checked, 0]);
  });

  test("somebody else's total waits for a person, one at a time or several at once", async () => {
    const account = await billed();
    await account.move(40);
    await account.use(5);
    await server.run("reporter");
    assert.equal(await account.meter(), 40);
    const [item] = await account.reviews();
    assert.equal(item.kind, "foreign_total");
    const ids = [item.id, "rev_nothing"];
    const closed = await ok("POST", "/v1/review/close", { ids, reason: "ours counts" });
    assert.deepEqual(closed.items.map(({ state }) => state), ["closed", "refused"]);
    await server.run("reporter");
    assert.equal(await account.meter(), 5);
  });

  test("the cycle turns: the tail is carried once, nothing lands in the wrong period", async () => {
    const now = new Date(Date.now() + offset);
    const ends = new Date(now.getTime() + 3 * 3_600_000);
    const starts = new Date(ends);
    starts.setUTCMonth(starts.getUTCMonth() - 1);
    const account = await billed({
      period_start: starts.toISOString(), period_end: ends.toISOString(),
    });
    await account.use(10);
    await server.run("reporter");
    await until(new Date(ends.getTime() - 10_000).toISOString());
    await account.use(2);
    await server.run("reporter");
    assert.equal(await account.meter(), 10);
    await until(new Date(ends.getTime() + 10 * MINUTE).toISOString());
    await account.use(7);
    await server.run("reporter");
    assert.equal(await account.meter(), 7);
    await account.reconcile();
    const [tail] = await account.reviews();
    assert.deepEqual([tail.kind, tail.numbers.difference], ["tail", 2]);
    const carried = await ok("POST", `/v1/review/${tail.id}/carry`, {});
    assert.equal(carried.state, "carried");
    await ok("POST", `/v1/review/${tail.id}/carry`, {});
    await server.run("reporter");
    assert.equal(await account.meter(), 9);
    assert.deepEqual((await account.meters()).map(({ ledger }) => ledger), [10, 9]);
    const found = await account.reconcile();
    assert.deepEqual([found.drifted, found.unreadable], [0, 0]);
    const audit = await ok("GET", `/v1/audit?account=${account.id}`);
    assert.equal(audit.items.filter(({ action }) => action === "review.carry").length, 1);
  });

  test("a tick does everything, and the page shows it", async () => {
    const account = await billed();
    await account.use(3);
    await server.tick();
    assert.equal(await account.meter(), 3);
    const metrics = await server.api("GET", "/metrics");
    assert.match(metrics.text, /counterfoil_cron_seconds_since\{job="reporter"\} \d+/);
    const page = await server.api("GET", `/app/reconcile?account=${account.id}`);
    assert.equal(page.status, 200, page.text);
    assert.match(page.text, new RegExp(account.first));
  });
});
