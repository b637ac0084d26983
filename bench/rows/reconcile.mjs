// Reconcile 1,000,000 entries in 1,000 cycles, against one GROUP BY in sqlite3 over the same rows.

import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Failed } from "../../scripts/toolchain.mjs";
import { api, each, rounds, row, startCounterfoil } from "../harness.mjs";

const ACCOUNTS = 1000;
const EACH = 1000;
const SUMS = "select account_id, feature, cycle, sum(units) from entry group by 1, 2, 3";

/** Measures and gives the rows of the table. */
export async function reconcile() {
  const counterfoil = await startCounterfoil({ FEATURES: "clicks=clicks:counted" });
  try {
    await fill(counterfoil, await makeAccounts(counterfoil));
    const file = databaseFile(counterfoil.folder);
    await run(counterfoil, "reporter");
    // The first run leaves its evidence; the next ones find what it found.
    await proven(counterfoil);
    const before = memoryMb(counterfoil, "VmRSS");
    forgetPeak(counterfoil);
    const seconds = await rounds({
      counterfoil: () => timed(() => proven(counterfoil)),
      sqlite: () => timed(() => groupBy(file)),
    });
    const peak = memoryMb(counterfoil, "VmHWM");
    const what = "reconcile 1,000,000 entries in 1,000 cycles";
    return [
      row(`${what} : one GROUP BY in sqlite3`, seconds.counterfoil, seconds.sqlite, { unit: "s", aim: 3, atMost: true }),
      row(`${what}, workerd's highest memory : before`, [peak], [before], { unit: "MB", aim: 1.25, atMost: true }),
    ];
  } finally {
    await counterfoil.close();
  }
}

async function timed(work) {
  const begun = performance.now();
  await work();
  return (performance.now() - begun) / 1000;
}

/** Runs a job until it is done, and adds up what its runs said. */
async function run(counterfoil, job) {
  const sums = {};
  for (let done = false; !done; ) {
    const { done: ended, ...part } = await api(counterfoil, "POST", `/v1/run/${job}`, {});
    for (const [name, count] of Object.entries(part)) sums[name] = (sums[name] ?? 0) + count;
    done = ended;
  }
  return sums;
}

/** One whole reconciliation; every cycle must be proven by it. */
async function proven(counterfoil) {
  const sums = await run(counterfoil, "reconciler");
  if (sums.checked !== ACCOUNTS || sums.matched !== ACCOUNTS) {
    throw new Failed(`the reconciler ended with ${JSON.stringify(sums)}`);
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
    "insert into counter (account_id, feature, cycle, total, version, changed_at_ms) " +
    "select account_id, feature, cycle, sum(units), 1, 0 from entry where true group by 1, 2, 3",
  ).run();
}

/** The ledger is by far the largest of the databases. */
function databaseFile(folder) {
  const files = readdirSync(folder, { recursive: true }).map((name) => join(folder, String(name)));
  const databases = files.filter((name) => name.endsWith(".sqlite"));
  return databases.sort((a, b) => statSync(b).size - statSync(a).size)[0];
}

function groupBy(file) {
  const sums = execFileSync("sqlite3", [file, SUMS], { maxBuffer: 1e8 }).toString().trim().split("\n");
  if (sums.length !== ACCOUNTS || !sums.every((line) => line.endsWith(`|${EACH}`))) {
    throw new Failed(`sqlite3 gave ${sums.length} sums`);
  }
}

function memoryMb({ pid }, name) {
  const found = readFileSync(`/proc/${pid}/status`, "utf8").match(new RegExp(`${name}:\\s+(\\d+) kB`));
  return Math.round(Number(found[1]) / 1000);
}

function forgetPeak({ pid }) {
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
}
