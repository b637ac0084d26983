// Reconcile 1,000,000 entries in 1,000 cycles, against one GROUP BY in sqlite3 over the same rows.

import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { Failed, output } from "../../scripts/toolchain.mjs";
import { api, each, startCounterfoil } from "../harness.mjs";

const ACCOUNTS = 1000;
const EACH = 1000;

/** Measures and gives the rows of the table. */
export async function reconcile() {
  if ((await output("sqlite3", ["--version"])) === null) throw new Failed("sqlite3 is missing");
  const counterfoil = await startCounterfoil();
  try {
    const cycle = await makeAccounts(counterfoil);
    await fill(counterfoil, cycle);
    const file = databaseFile(join(counterfoil.folder, "d1"));
    const before = memoryMb();
    const begun = performance.now();
    const seen = { checked: 0, incomplete: 0 };
    for (let done = false; !done; ) {
      const part = await api(counterfoil, "POST", "/v1/run/reconciler", { dry_run: true });
      seen.checked += part.checked;
      seen.incomplete += part.incomplete;
      ({ done } = part);
    }
    const ours = (performance.now() - begun) / 1000;
    if (seen.checked < ACCOUNTS) throw new Error(`only ${seen.checked} were checked`);
    const grown = memoryMb() - before;
    const theirs = groupBy(file);
    return [{ row: `reconcile 1,000,000 entries in 1,000 cycles : one GROUP BY in sqlite3 (memory grew by ${grown} MB)`,
      ours, theirs, ratio: ours / theirs, aim: 3, atMost: true, unit: "s" }];
  } finally {
    await counterfoil.close();
  }
}

async function makeAccounts(counterfoil) {
  let cycle = "";
  const numbers = Array.from({ length: ACCOUNTS }, (_, index) => index);
  await each(numbers, 20, async (number) => {
    const body = { id: `bench-${number}`, customer_id: `customer_${number}` };
    cycle = (await api(counterfoil, "POST", "/v1/accounts", body)).cycle.name;
  });
  return cycle;
}

/** Rows as the ledger itself would hold them, made in SQL: a million requests prove nothing here. */
async function fill(counterfoil, cycle) {
  const db = await counterfoil.miniflare.getD1Database("LEDGER_0");
  for (let number = 0; number < ACCOUNTS; number += 1) {
    await db.prepare(
      `with recursive n (i) as (select 1 union all select i + 1 from n where i < ${EACH}) ` +
      "insert into entry (entry_id, account_id, feature, cycle, units, kind, occurred_at_ms, recorded_at_ms) " +
      `select 'bench${number}.' || i, 'bench-${number}', 'clicks', ?1, 1, 'click', 0, 0 from n`,
    ).bind(cycle).run();
  }
  await db.prepare(
    "insert into counter (account_id, feature, cycle, total, version) " +
    "select account_id, feature, cycle, sum(units), 1 from entry where true group by 1, 2, 3 " +
    "on conflict do update set total = excluded.total, version = version + 1",
  ).run();
}

function databaseFile(folder) {
  const files = readdirSync(folder, { recursive: true }).map((name) => join(folder, String(name)));
  const databases = files.filter((name) => name.endsWith(".sqlite"));
  return databases.sort((a, b) => statSync(b).size - statSync(a).size)[0];
}

function groupBy(file) {
  const query = "select account_id, feature, cycle, sum(units) from entry group by 1, 2, 3";
  const times = [1, 2, 3].map(() => {
    const begun = performance.now();
    execFileSync("sqlite3", [file, query], { stdio: ["ignore", "ignore", "inherit"], maxBuffer: 1e8 });
    return (performance.now() - begun) / 1000;
  });
  return times.sort((a, b) => a - b)[1];
}

/** The resident memory of all workerd processes, in MB. */
function memoryMb() {
  const pids = execFileSync("pgrep", ["-x", "workerd"]).toString().trim().split("\n");
  const pages = pids.map((pid) => Number(readFileSync(`/proc/${pid}/statm`, "utf8").split(" ")[1]));
  return Math.round(pages.reduce((sum, count) => sum + count, 0) * 4096 / 1e6);
}
