// Admissions: one account at 50 clients against a bare JavaScript object that does one read and two
// writes for each request, and against PostgreSQL's conditional update of one row; many accounts
// against one; the race of 120 jobs.

import { answers, api, each, rounds, row, stands, startCounterfoil, startScript, wrk } from "../harness.mjs";
import { startPostgres } from "../postgres.mjs";
import { Failed } from "../../scripts/toolchain.mjs";

const ACCOUNTS = 1000;
const HUGE = 9_000_000_000_000;

/** Each request admits a new job of 1; with several accounts, each of another one. */
const admit = (accounts) => `
local n, threads = 0, 0
function setup(t) t:set("id", threads); threads = threads + 1 end
wrk.headers["authorization"] = "Bearer dev-backend"
request = function()
  n = n + 1
  local account = (n * 7919) % ${accounts}
  local key = id .. "-" .. n .. "-" .. ROUND
  local body = '{"key":"' .. key .. '","feature":"tokens","hold":1}'
  return wrk.format("POST", "/v1/jobs?account=bench-" .. account, nil, body)
end`;

/** Measures and gives the rows of the table. */
export async function gate() {
  // Nothing may be refused, and what was admitted is still held when it is counted.
  const counterfoil = await startCounterfoil({
    JOBS_PER_MINUTE: "10000000", LIMIT_FRESH_SECONDS: "3600", LIMIT_STALE_SECONDS: "3600", LEASE_SECONDS: "3600",
  });
  const bare = await startScript("bare_object.js", {
    durableObjects: { BARE: { className: "Bare", useSQLite: true } },
  });
  const postgres = await startPostgres();
  const admitted = { answered: 0, rounds: 0 };
  const admissions = async (accounts) => {
    admitted.rounds += 1;
    const lua = `ROUND = ${admitted.rounds}\n${admit(accounts)}`;
    const { requests, rate } = await wrk(counterfoil.url, { lua });
    admitted.answered += requests;
    return rate;
  };
  try {
    await makeAccounts(counterfoil);
    await answers(bare.url, 201);
    const rates = await rounds({
      one: () => admissions(1),
      bare: async () => (await wrk(bare.url)).rate,
      many: () => admissions(ACCOUNTS),
      ...(postgres === null ? {} : { postgres: () => postgres.rate() }),
    });
    stands("held", await heldInAll(counterfoil), admitted.answered, admitted.rounds);
    const unit = "admissions/s";
    const one = "admissions, one account, 50 clients";
    const table = [
      row(`${one} : bare JavaScript object, 1 read + 2 writes`, rates.one, rates.bare, { unit, aim: 1 }),
      row("admissions, 1,000 accounts : one account", rates.many, rates.one, { unit }),
    ];
    if (postgres !== null) {
      table.push(row(`${one} : PostgreSQL conditional update of one row`, rates.one, rates.postgres, { unit }));
    }
    return [...table, await race(counterfoil)];
  } finally {
    await Promise.all([counterfoil.close(), bare.close(), postgres?.close()]);
  }
}

/** What all accounts hold: one unit for each job that was admitted. */
async function heldInAll(counterfoil) {
  let held = 0;
  await each(Array.from({ length: ACCOUNTS }, (_, number) => number), 20, async (number) => {
    const path = `/v1/budget?account=bench-${number}&feature=tokens`;
    const budget = await api(counterfoil, "GET", path);
    held += budget.held;
  });
  return held;
}

async function makeAccounts(counterfoil) {
  const numbers = Array.from({ length: ACCOUNTS }, (_, index) => index);
  await each(numbers, 20, async (number) => {
    const customer = `customer_bench_${number}`;
    await api(counterfoil, "PUT", `/standin/customers/${customer}`, { limits: { tokens: HUGE } });
    await api(counterfoil, "POST", "/v1/accounts", { id: `bench-${number}`, customer_id: customer });
  });
}

/** 120 jobs of 1,000 at 50 at a time against 100,000; an earlier system needed 6.7 s. */
async function race(counterfoil) {
  await api(counterfoil, "PUT", "/standin/customers/customer_race", { limits: { tokens: 100_000 } });
  await api(counterfoil, "POST", "/v1/accounts", { id: "race", customer_id: "customer_race" });
  const told = { 201: 0, 402: 0 };
  const begun = performance.now();
  const keys = Array.from({ length: 120 }, (_, index) => `race-${index}`);
  await each(keys, 50, async (key) => {
    const post = (path, body) => fetch(`${counterfoil.url}${path}?account=race`, {
      method: "POST",
      headers: { authorization: "Bearer dev-backend" },
      body: JSON.stringify(body),
    });
    const answer = await post("/v1/jobs", { key, feature: "tokens", hold: 1000 });
    told[answer.status] = (told[answer.status] ?? 0) + 1;
    if (answer.status !== 201) return;
    const { id } = await answer.json();
    const settled = await post(`/v1/jobs/${id}/settle`, { used: 1000 });
    if (settled.status !== 200) throw new Failed(`settle: ${settled.status}`);
  });
  const seconds = (performance.now() - begun) / 1000;
  const budget = await api(counterfoil, "GET", "/v1/budget?account=race&feature=tokens");
  if (told[201] !== 100 || told[402] !== 20 || budget.used !== 100_000 || budget.held !== 0) {
    throw new Failed(`the race ended with ${JSON.stringify({ told, budget })}`);
  }
  return { row: "race: 120 jobs of 1,000, 50 at a time, against 100,000 (100 started, 20 refused, 100,000 spent)",
    ours: seconds, theirs: 6.7, ratio: seconds / 6.7, aim: 1, atMost: true, unit: "s (theirs: a published run)" };
}
