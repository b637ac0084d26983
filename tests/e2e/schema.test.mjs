// A persist folder of an older release is served by this one, and one of a newer release is
// refused and left as it is. The databases of the older release are made by its migrations; its
// objects are those of this release, taken back to their first step (steps only add).

import assert from "node:assert/strict";
import {
  cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { eventually, opened, own } from "./harness.mjs";
import { ROOT, run, wranglerCommand } from "../../scripts/toolchain.mjs";

const DATABASES = {
  DB: { folder: "migrations/control", name: "counterfoil-control", table: "account" },
  LEDGER_0: { folder: "migrations/ledger", name: "counterfoil-ledger-0", table: "entry" },
};
const VARS = { FLUSH_MS: 60_000, SHARDS: 1 };

const folders = [];
function newFolder() {
  const folder = mkdtempSync(join(tmpdir(), "counterfoil-schema-"));
  folders.push(folder);
  return folder;
}

/** The SQLite files below a folder of the platform. */
function files(...path) {
  const folder = join(...path);
  return readdirSync(folder)
    .filter((name) => name.endsWith(".sqlite") && name !== "metadata.sqlite")
    .map((name) => join(folder, name));
}

function using(path, work) {
  const database = opened(path);
  try {
    return work(database);
  } finally {
    database.close();
  }
}

const tables = (database, schema = "main") => database
  .prepare(`select name from ${schema}.sqlite_master where type = 'table' order by name`)
  .all()
  .map(({ name }) => name)
  .filter((name) => !/^(_cf_|sqlite_|d1_)/.test(name));

const columns = (database, schema, table) => database
  .prepare(`select name from pragma_table_info(?, ?)`)
  .all(table, schema)
  .map(({ name }) => name);

/** Every table of a storage with its rows, but for the platform's own. */
const dump = (path) => using(path, (database) =>
  tables(database).map((name) => [name, database.prepare(`select * from "${name}"`).all()]));

/** The local file of a database: the one that has a table of its own. */
function fileOf(persist, table) {
  return files(persist, "v3/d1/miniflare-D1DatabaseObject").find((path) =>
    using(path, (database) => tables(database).includes(table)));
}

/** Databases as a release with so many migrations left them, with what `from` has of them. */
async function olderDatabases(persist, counts, from) {
  const config = readFileSync(join(ROOT, "wrangler.toml"), "utf8");
  for (const [binding, { folder, table }] of Object.entries(DATABASES)) {
    const migrations = readdirSync(join(ROOT, folder)).filter((name) => name.endsWith(".sql"));
    assert.ok(counts[binding] < migrations.length, "an older release has fewer migrations");
    if (counts[binding] === 0) continue;
    const older = newFolder();
    mkdirSync(join(older, "migrations"));
    for (const name of migrations.sort().slice(0, counts[binding])) {
      cpSync(join(ROOT, folder, name), join(older, "migrations", name));
    }
    const id = config.split(`binding = "${binding}"`)[1].match(/database_id = "([^"]+)"/)[1];
    const file = join(older, "wrangler.json");
    const database = {
      binding, database_name: DATABASES[binding].name, database_id: id, migrations_dir: "migrations",
    };
    writeFileSync(file, JSON.stringify({ name: "counterfoil", d1_databases: [database] }));
    const args = ["d1", "migrations", "apply", binding, "--local", "--persist-to", persist];
    await run(...wranglerCommand([...args, "--config", file]), { quiet: true });
    using(fileOf(persist, table), (target) => {
      target.prepare("attach ? as live").run(fileOf(from, table));
      for (const name of tables(target)) {
        const live = columns(target, "live", name);
        const both = columns(target, "main", name).filter((column) => live.includes(column));
        target.exec(`delete from main."${name}"`);
        target.exec(`insert into main."${name}" (${both}) select ${both} from live."${name}"`);
      }
    });
  }
}

/** The tables of the first step of accounts and shards, which both have in common, with the
 * columns that they had in it. */
function firstStep() {
  const source = readFileSync(join(ROOT, "src/ledger/outbox.rs"), "utf8");
  const [step] = source.split("pub const STEP")[1].split("];");
  const statements = [...step.matchAll(/"((?:[^"\\]|\\[^])*)"/g)];
  return using(":memory:", (database) => {
    for (const [, sql] of statements) database.exec(sql.replace(/\\\n\s*/g, ""));
    return new Map(tables(database).map((name) => [name, columns(database, "main", name)]));
  });
}

/** Takes every object of a class back to its first step. */
function takeBack(persist, className) {
  const kept = firstStep();
  for (const path of files(persist, "v3/do", `counterfoil-${className}`)) {
    using(path, (database) => {
      const ours = tables(database).filter((name) => !["object_meta", "due"].includes(name));
      const added = ours.filter((name) => !kept.has(name));
      assert.ok(added.length > 0, `${className} has had a second step`);
      for (const name of added) database.exec(`drop table "${name}"`);
      for (const [name, before] of kept) {
        const grown = columns(database, "main", name).filter((column) => !before.includes(column));
        for (const column of grown) database.exec(`alter table "${name}" drop column "${column}"`);
      }
      database.exec("update object_meta set value = '1' where name = 'schema'");
    });
  }
}

function setSchema(persist, className, value) {
  for (const path of files(persist, "v3/do", `counterfoil-${className}`)) {
    using(path, (database) =>
      database.prepare("update object_meta set value = ? where name = 'schema'").run(value));
  }
}

const schemas = (persist, className) =>
  files(persist, "v3/do", `counterfoil-${className}`).map((path) => using(path, (database) =>
    Number(database.prepare("select value from object_meta where name = 'schema'").get().value)));

describe("a persist folder of another release", () => {
  let live;
  let account;
  let code;

  /** A copy of what the live server left, turned into what another release would have left. */
  function copy(...parts) {
    const persist = newFolder();
    for (const part of parts) {
      cpSync(join(live.persist, part), join(persist, part), { recursive: true });
    }
    return persist;
  }

  const served = async (persist, work) => {
    const server = await own({ vars: { SHARDS: VARS.SHARDS }, persist });
    try {
      await work(server, (method, path, body) =>
        server.api(method, path, body, { token: account.key }));
      assert.doesNotMatch(server.log, /panicked|RuntimeError|unreachable/);
    } finally {
      await server.stop();
    }
  };

  before(async () => {
    live = await own({ vars: VARS });
    account = await live.account({ customer_id: "customer_older" });
    const link = await account.api("POST", "/v1/links", { destination: "https://example.com/" });
    code = link.body.code;
    const usage = { key: "k", feature: "clicks", units: 2 };
    assert.equal((await account.api("POST", "/v1/usage", usage)).status, 201);
    const job = { key: "j", feature: "tokens", hold: 10 };
    const held = await account.api("POST", "/v1/jobs", job);
    assert.equal(held.status, 201, held.text);
    const charge = `/v1/jobs/${held.body.id}/charges`;
    assert.equal((await account.api("POST", charge, { units: 4 })).status, 200);
    assert.equal((await live.click(code)).status, 302);
    const waits = () => files(live.persist, "v3/do/counterfoil-LedgerShard").some((path) =>
      using(path, (database) => tables(database).includes("outbox")
        && database.prepare("select count(*) as n from outbox").get().n > 0));
    await eventually(waits, { what: "the click in its shard" });
    await live.kill();
  });
  after(async () => {
    await live?.stop();
    folders.forEach((folder) => rmSync(folder, { recursive: true, force: true }));
  });

  test("of the first release is served: its account, its key, and everything new", async () => {
    const persist = newFolder();
    await olderDatabases(persist, { DB: 1, LEDGER_0: 0 }, live.persist);
    await served(persist, async (server, api) => {
      const own = await api("GET", "/v1/account");
      assert.deepEqual([own.status, own.body.id], [200, account.id], own.text);
      const usage = await api("POST", "/v1/usage", { key: "n", feature: "clicks", units: 3 });
      assert.equal(usage.status, 201, usage.text);
      const link = await api("POST", "/v1/links", { destination: "https://example.com/" });
      assert.equal((await server.click(link.body.code)).status, 302);
      const total = async () => (await api("GET", "/v1/usage")).body.total;
      await eventually(async () => {
        await server.run("sweeper");
        return await total() === 4;
      }, { within: 90_000, what: "the click in the ledger" });
      await server.run("reporter");
      const job = await api("POST", "/v1/jobs", { key: "j", feature: "tokens", hold: 10 });
      assert.equal(job.status, 201, job.text);
    });
  });

  test("of the release before loses nothing: entries, links, and what its objects had not sent", async () => {
    const persist = copy("v3/do");
    const counts = Object.fromEntries(Object.entries(DATABASES).map(([binding, { folder }]) =>
      [binding, readdirSync(join(ROOT, folder)).filter((name) => name.endsWith(".sql")).length - 1]));
    await olderDatabases(persist, counts, live.persist);
    takeBack(persist, "Account");
    takeBack(persist, "LedgerShard");
    await served(persist, async (server, api) => {
      assert.equal((await server.click(code)).status, 302);
      const sum = async (feature) => (await api("GET", `/v1/usage?feature=${feature}`)).body.total;
      await eventually(async () => {
        await server.run("sweeper");
        return await sum("clicks") === 4 && await sum("tokens") === 4;
      }, { within: 90_000, what: "the usage, both clicks and the charge" });
      await server.run("reporter");
      await server.run("reconciler");
      const meters = (await server.api("GET", `/v1/meters?account=${account.id}`)).body.items;
      assert.deepEqual(meters.map((meter) => [meter.feature, meter.ledger, meter.sent]),
        [["clicks", 4, 4], ["tokens", 4, 4]]);
      const job = await api("POST", "/v1/jobs", { key: "new", feature: "tokens", hold: 10 });
      assert.equal(job.status, 201, job.text);
      assert.ok(schemas(server.persist, "Account").every((schema) => schema >= 2));
    });
  });

  for (const className of ["Account", "LedgerShard", "StandIn"]) {
    test(`of a newer release of ${className} is answered 503 and nothing is written`, async () => {
      const persist = copy("v3");
      setSchema(persist, className, "99");
      const stored = () => files(persist, "v3/do", `counterfoil-${className}`).map(dump);
      const before = stored();
      await served(persist, async (server, api) => {
        const refused = (answer) => {
          assert.equal(answer.status, 503, answer.text);
          assert.equal(answer.body.code, "newer_schema", answer.text);
          assert.ok(answer.headers.get("retry-after"));
        };
        if (className === "Account") {
          refused(await api("POST", "/v1/jobs", { key: "a", feature: "tokens", hold: 1 }));
          refused(await api("GET", "/v1/budget?feature=tokens"));
        } else if (className === "StandIn") {
          refused(await server.api("GET", "/standin/calls"));
        }
        // What does not need such an object goes on, and no click is lost for it.
        assert.equal((await server.click(code)).status, 302);
        const clicks = "/v1/entries?feature=clicks&kind=click";
        const isThere = async () => (await api("GET", clicks)).body.items.length > 0;
        if (className === "LedgerShard") await eventually(isThere, { what: "the click" });
        await server.tick();
        assert.deepEqual(stored(), before);
      });
    });
  }
});
