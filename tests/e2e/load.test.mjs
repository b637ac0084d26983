// `counterfoil load clicks` against workerd: every click is proven from the redirect to the meter,
// also by one visitor with the double-click rule, also while the server is killed and started again.
//
// LOAD_CLICKS and LOAD_AT_ONCE set the size; 5,000 and 100 are the contract's.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { describe, test } from "node:test";
import { eventually, opened, own, storages } from "./harness.mjs";
import { ENV, ROOT } from "../../scripts/toolchain.mjs";

const CLICKS = Number(process.env.LOAD_CLICKS ?? 400);
const AT_ONCE = Number(process.env.LOAD_AT_ONCE ?? 50);
const CODE = "spring";

/** Runs the command-line tool: `{ status, figures, text }`, the figures by their names. */
function load(server, clicks, flags = []) {
  const how = ["--clicks", `${clicks}`, "--concurrency", `${AT_ONCE}`, "--url", server.url, ...flags];
  const args = ["run", "--quiet", "--bin", "counterfoil", "--", "load", "clicks", CODE, ...how];
  const child = spawn("cargo", args, { cwd: ROOT, env: ENV, stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (text += chunk));
  return new Promise((resolve) => child.once("close", (status) => {
    const rows = text.matchAll(/^(\w+) {2,}(\d+)/gm);
    resolve({ status, text, figures: Object.fromEntries([...rows].map(([, name, n]) => [name, +n])) });
  }));
}

/** A server with one account of a stand-in customer and one link. */
async function stage(vars = {}) {
  const server = await own({ vars });
  const account = await server.account({ id: "acme", customer_id: "customer_acme" });
  const made = await account.api("POST", "/v1/links", { code: CODE, destination: "https://example.com/" });
  assert.equal(made.status, 201, made.text);
  return { server, account };
}

/** Every entry of the account, page by page. */
async function entries(account) {
  const all = [];
  for (let after = ""; after !== null; ) {
    const page = await account.api("GET", `/v1/entries?limit=500${after}`);
    assert.equal(page.status, 200, page.text);
    all.push(...page.body.items);
    after = page.body.next === null ? null : `&after=${encodeURIComponent(page.body.next)}`;
  }
  return all;
}

async function metric(server, name) {
  const { text } = await server.api("GET", "/metrics");
  const line = text.split("\n").find((each) => each.startsWith(`${name} `));
  return Number(line?.split(" ")[1]);
}

async function newestEvidence(server) {
  const list = await server.api("GET", "/v1/evidence?account=acme&feature=clicks");
  return list.body.items[0];
}

describe("a load of clicks", () => {
  test("is redirected, recorded, reported and proven to the last one", async () => {
    const { server, account } = await stage();
    try {
      const { status, text, figures } = await load(server, CLICKS);
      assert.equal(status, 0, text);
      const { sent, redirected, recorded, gross, net, ledger, meter } = figures;
      assert.deepEqual({ sent, redirected, recorded, gross, net, ledger, meter }, {
        sent: CLICKS, redirected: CLICKS, recorded: CLICKS, gross: CLICKS, net: CLICKS,
        ledger: CLICKS, meter: CLICKS,
      });
      assert.deepEqual([figures.lost, figures.corrected], [0, 0]);
      for (const name of ["rate", "p50", "p95", "p99"]) assert.match(text, new RegExp(`^${name} `, "m"));
      const proof = await newestEvidence(server);
      assert.deepEqual([proof.verdict, proof.ledger, proof.provider], ["match", CLICKS, CLICKS]);
      const rows = await entries(account);
      assert.equal(rows.length, CLICKS);
      assert.ok(rows.every((row) => row.kind === "click" && row.units === 1 && row.code === CODE));
      assert.equal(await metric(server, "counterfoil_clicks_recorded_total"), CLICKS);
      const found = await server.run("reconciler", { account: "acme" });
      assert.deepEqual([found.matched, found.drifted], [found.checked, 0]);
    } finally {
      await server.stop();
    }
  });

  test("of one visitor counts once within the window, and each other click is taken back", async () => {
    const { server, account } = await stage({ DOUBLE_CLICK_MS: 1000 });
    try {
      const { status, text, figures } = await load(server, CLICKS, ["--same-visitor"]);
      assert.equal(status, 0, text);
      assert.deepEqual([figures.redirected, figures.gross], [CLICKS, CLICKS]);
      const rows = await entries(account);
      const clicks = rows.filter(({ kind }) => kind === "click");
      const corrections = rows.filter(({ kind }) => kind === "correction");
      assert.equal(clicks.length, CLICKS);
      for (const row of corrections) {
        assert.deepEqual([row.units, row.reason, row.rule], [-1, "double_click", "double_click/1000"]);
      }
      const takenBack = new Set(corrections.map(({ corrects }) => corrects));
      assert.equal(takenBack.size, corrections.length, "no click is taken back twice");
      const time = ({ occurred_at }) => Date.parse(occurred_at);
      const counted = clicks.filter(({ id }) => !takenBack.has(id)).map(time).sort((a, b) => a - b);
      assert.ok(counted.length >= 1 && corrections.length > counted.length, text);
      counted.reduce((before, at) => {
        assert.ok(at - before >= 1000, `${at} counts though ${before} does`);
        return at;
      });
      const isNear = (at) => counted.some((other) => Math.abs(at - other) < 1000);
      for (const click of clicks) assert.ok(isNear(time(click)), `${click.occurred_at} is nobody's double`);
      const net = counted.length;
      assert.deepEqual([figures.net, figures.ledger, figures.meter], [net, net, net]);
      assert.equal(figures.corrected, CLICKS - net);
      assert.equal((await newestEvidence(server)).verdict, "match");
    } finally {
      await server.stop();
    }
  });

  test("survives three kills: nothing twice, and lost is only what was on its way", async () => {
    const { server, account } = await stage({ FLUSH_MS: 200, SHARDS: 4 });
    try {
      const gross = async () =>
        (await account.api("GET", "/v1/usage?feature=clicks").catch(() => null))?.body?.gross ?? 0;
      // As many as this machine answers in some seconds, so that the third kill meets a load too.
      const first = await load(server, CLICKS);
      assert.equal(first.status, 0, first.text);
      const clicks = Math.max(CLICKS, first.figures.rate * 6);
      let ended = false;
      const loading = load(server, clicks).finally(() => (ended = true));
      for (let kill = 0; kill < 3; kill += 1) {
        const before = await gross();
        await eventually(async () => (await gross()) > before, { within: 60_000, what: "clicks" });
        assert.ok(!ended, "the load was over before the kill");
        await server.kill();
        await server.start();
      }
      const { status, text, figures } = await loading;
      assert.equal(status, 0, text);
      assert.match(text, /the server broke off 3 times: \d+ clicks had no answer/);

      const rows = (await entries(account)).filter(({ kind }) => kind === "click");
      const visitors = rows.map(({ referrer_host }) => referrer_host);
      assert.equal(new Set(visitors).size, rows.length, "a click is in the ledger twice");
      const [, broken, unheard, answered] = text
        .match(/: (\d+) clicks had no answer, of which (\d+) are in the ledger, and (\d+) redirects/)
        .map(Number);
      assert.equal(figures.sent, clicks);
      assert.equal(figures.redirected + broken, clicks);
      assert.equal(figures.recorded, figures.redirected - figures.lost + unheard);
      assert.equal(rows.length, CLICKS + figures.recorded);
      assert.ok(figures.lost <= broken + answered, text);

      const taken = storages(server, "LedgerShard").map(takenIn).reduce((sum, n) => sum + n, 0);
      assert.equal(taken, rows.length, "what shards took in is what the ledger holds");
      assert.equal(await metric(server, "counterfoil_clicks_recorded_total"), rows.length);
      assert.equal(await metric(server, "counterfoil_clicks_direct_total") || 0, 0);
      assert.equal(await metric(server, "counterfoil_clicks_lost_total"), 0);
      assert.equal(await metric(server, "counterfoil_clicks_doubtful_total"), 0);
      assert.deepEqual([figures.ledger, figures.meter], [rows.length, rows.length]);
      const found = await server.run("reconciler", { account: "acme" });
      assert.deepEqual([found.matched, found.incomplete], [found.checked, 0]);
    } finally {
      await server.stop();
    }
  });
});

/** What a shard's own counters say that it took in. */
function takenIn(path) {
  const database = opened(path, { readOnly: true });
  try {
    const known = database.prepare("select 1 from sqlite_master where name = 'taken'").get();
    if (known === undefined) return 0;
    return database.prepare("select coalesce(sum(entries), 0) as n from taken").get().n;
  } finally {
    database.close();
  }
}
