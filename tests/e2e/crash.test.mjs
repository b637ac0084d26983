// A power cut between what a shard took in and what the ledger was sent.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { eventually, opened, own, storages } from "./harness.mjs";

/** What `look` gives for each storage of a class, read beside the running server. */
function read(server, className, look) {
  return storages(server, className).flatMap((path) => {
    const database = opened(path, { readOnly: true });
    try {
      return look(database);
    } finally {
      database.close();
    }
  });
}

const has = (database, table) =>
  database.prepare("select 1 from sqlite_master where name = ?").get(table) !== undefined;

/** Every table of a storage with its rows, but for the platform's own. */
function dump(database) {
  const tables = database
    .prepare("select name from sqlite_master where type = 'table' order by name")
    .all()
    .filter(({ name }) => !name.startsWith("_cf"));
  return tables.map(({ name }) => [name, database.prepare(`select * from "${name}"`).all()]);
}

describe("after a power cut", () => {
  test("a click that a shard had taken in is in the ledger once", async () => {
    const server = await own({ vars: { FLUSH_MS: 60_000, SHARDS: 2 } });
    try {
      const account = await server.account();
      const link = await account.api("POST", "/v1/links", { destination: "https://example.com/" });
      assert.equal((await server.click(link.body.code)).status, 302);
      const waiting = () => read(server, "LedgerShard", (database) =>
        has(database, "outbox") ? database.prepare("select * from outbox").all() : []);
      await eventually(() => waiting().length > 0, { what: "the shard's row" });
      const entries = async () =>
        (await account.api("GET", "/v1/entries?feature=clicks")).body.items;
      assert.deepEqual(await entries(), []);

      await server.kill();
      await server.start();
      await eventually(async () => {
        await server.run("sweeper");
        return (await entries()).length > 0;
      }, { within: 70_000, what: "the entry" });
      await server.run("sweeper");
      assert.equal((await entries()).length, 1);
      const usage = await account.api("GET", "/v1/usage?feature=clicks");
      assert.equal(usage.body.total, 1);
    } finally {
      await server.stop();
    }
  });

  test("a storage of a newer release is refused and nothing is written to it", async () => {
    const server = await own();
    try {
      const account = await server.account({ customer_id: "customer_newer" });
      const job = (key) => account.api("POST", "/v1/jobs", { key, feature: "tokens", hold: 10 });
      const held = await job("before");
      assert.equal(held.status, 201, held.text);
      await server.kill();
      for (const path of storages(server, "Account")) {
        const database = opened(path);
        if (has(database, "object_meta")) {
          database.exec("update object_meta set value = '99' where name = 'schema'");
        }
        database.close();
      }
      const before = read(server, "Account", dump);
      await server.start();
      const refused = await job("after");
      assert.equal(refused.status, 503, refused.text);
      assert.equal(refused.body.code, "newer_schema");
      assert.ok(refused.headers.get("retry-after"));
      await server.tick();
      assert.deepEqual(read(server, "Account", dump), before);
    } finally {
      await server.stop();
    }
  });
});
