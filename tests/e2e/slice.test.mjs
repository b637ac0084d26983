// The thin slice through the whole chain, as the README's five commands walk it.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { eventually, own, shared, unique } from "./harness.mjs";

const CLICKS = "feature=clicks";

/** An account of a stand-in customer, with one link: `{ account, code }`. */
async function linked(server) {
  const id = unique("acme");
  const account = await server.account({ id, customer_id: `customer_${id.replace("-", "_")}` });
  const made = await account.api("POST", "/v1/links", { destination: "https://example.com/a?b=c" });
  assert.equal(made.status, 201, made.text);
  return { account, code: made.body.code };
}

async function entries(account) {
  const list = await account.api("GET", `/v1/entries?${CLICKS}`);
  assert.equal(list.status, 200, list.text);
  return list.body.items;
}

describe("a click through the whole chain", () => {
  test("ends in the provider's meter and is proven there", async () => {
    const server = await own();
    try {
      const { account, code } = await linked(server);
      const visit = await server.click(code);
      assert.equal(visit.status, 302);
      assert.equal(visit.headers.get("location"), "https://example.com/a?b=c");
      assert.equal(visit.headers.get("cache-control"), "private, no-store");

      const seen = await eventually(async () => {
        const items = await entries(account);
        return items.length > 0 && items;
      }, { what: "the click's entry" });
      assert.equal(seen.length, 1);
      assert.deepEqual([seen[0].units, seen[0].kind, seen[0].code], [1, "click", code]);

      await server.run("reporter");
      const meters = await server.api("GET", `/v1/meters?account=${account.id}`);
      const meter = meters.body.items.find(({ feature }) => feature === "clicks");
      assert.deepEqual([meter.ledger, meter.sent, meter.marked], [1, 1, false], meters.text);

      const proven = await server.run("reconciler", { account: account.id });
      assert.deepEqual([proven.drifted, proven.unreadable, proven.incomplete], [0, 0, 0]);
      assert.ok(proven.matched >= 1, JSON.stringify(proven));
      const evidence = await server.api("GET", `/v1/evidence?account=${account.id}&${CLICKS}`);
      const [row] = evidence.body.items;
      assert.deepEqual([row.verdict, row.ledger, row.provider], ["match", 1, 1], evidence.text);

      const agreement = meter.agreement_id;
      const standIn = await server.api("GET", `/standin/meters/${agreement}/clicks`);
      assert.equal(standIn.body.total, 1, standIn.text);
    } finally {
      await server.stop();
    }
  });

  test("is not counted by HEAD, and a second click is a second entry", async () => {
    const server = await shared();
    const { account, code } = await linked(server);
    await server.request("HEAD", `/${code}`);
    await server.click(code);
    await server.click(code);
    await eventually(async () => (await entries(account)).length === 2, { what: "two entries" });
    const usage = await account.api("GET", `/v1/usage?${CLICKS}`);
    assert.equal(usage.body.total, 2, usage.text);
  });
});
