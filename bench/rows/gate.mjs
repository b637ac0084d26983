// Admissions: one account at 50 clients against a bare JavaScript object that does one read and two
// writes for each request, and against PostgreSQL's conditional update of one row; many accounts
// against one; the race of 120 jobs.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ENV, output } from "../../scripts/toolchain.mjs";
import { api, each, rounds, startCounterfoil, startScript, wrk } from "../harness.mjs";

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
  const counterfoil = await startCounterfoil({ JOBS_PER_MINUTE: "10000000", LIMIT_FRESH_SECONDS: "3600" });
  const bare = await startScript("bare_object.js", {
    durableObjects: { BARE: { className: "Bare", useSQLite: true } },
  });
  let round = 0;
  const started = async (accounts) => {
    round += 1;
    const lua = `ROUND = ${round}\n${admit(accounts)}`;
    const seen = await wrk(counterfoil.url, { lua });
    if (seen.errors > 0) throw new Error(`gate: ${seen.errors} errors`);
    return seen.rate;
  };
  try {
    await makeAccounts(counterfoil);
    const rates = await rounds({
      one: () => started(1),
      bare: async () => (await wrk(bare.url)).rate,
      many: () => started(ACCOUNTS),
    });
    const row = (name, ours, theirs, aim) => ({
      row: name, ours, theirs, ratio: ours / theirs, aim, unit: "admissions/s",
    });
    const table = [
      row("admissions, one account, 50 clients : bare JavaScript object, 1 read + 2 writes", rates.one, rates.bare, 1),
      row("admissions, 1,000 accounts : one account", rates.many, rates.one, null),
    ];
    const postgres = await postgresRate();
    if (postgres !== null) {
      table.push(row("admissions, one account, 50 clients : PostgreSQL conditional update of one row", rates.one, postgres, null));
    }
    return [...table, await race(counterfoil)];
  } finally {
    await Promise.all([counterfoil.close(), bare.close()]);
  }
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
    if (settled.status !== 200) throw new Error(`settle: ${settled.status}`);
  });
  const seconds = (performance.now() - begun) / 1000;
  const budget = await api(counterfoil, "GET", "/v1/budget?account=race&feature=tokens");
  if (told[201] !== 100 || told[402] !== 20 || budget.used !== 100_000 || budget.held !== 0) {
    throw new Error(`the race ended with ${JSON.stringify({ told, budget })}`);
  }
  return { row: "race: 120 jobs of 1,000, 50 at a time, against 100,000 (100 started, 20 refused, 100,000 spent)",
    ours: seconds, theirs: 6.7, ratio: 6.7 / seconds, aim: 1, unit: "s (published run of an earlier system)" };
}

/** pgbench's conditional update of one row at 50 clients, where PostgreSQL is installed. */
async function postgresRate() {
  const found = await output("sh", ["-c", "ls -d /usr/lib/postgresql/*/bin | tail -n 1"]);
  if (found === null || found.trim() === "" || process.platform !== "linux") return null;
  const folder = mkdtempSync(join(tmpdir(), "counterfoil-pg-"));
  const bin = found.trim();
  const as = process.getuid?.() === 0 ? ["runuser", "-u", "postgres", "--"] : [];
  const sh = (...args) => new Promise((resolve) => {
    const [command, ...rest] = [...as, ...args];
    const child = spawn(command, rest, { env: ENV, cwd: "/", stdio: ["ignore", "pipe", "ignore"] });
    let text = "";
    child.stdout.on("data", (chunk) => (text += chunk));
    child.once("error", () => resolve(null));
    child.once("close", (code) => resolve(code === 0 ? text : null));
  });
  const socket = join(folder, "s");
  const script = join(folder, "admit.sql");
  writeFileSync(script, "update budget set held = held + 1 where id = 1 and used + held + 1 <= cap;\n");
  await output("sh", ["-c", `mkdir -p ${socket} && chmod -R 777 ${folder}`]);
  const data = join(folder, "data");
  const psql = ["-h", socket, "-p", "54329", "-U", "postgres", "postgres"];
  try {
    if ((await sh(`${bin}/initdb`, "-U", "postgres", "-A", "trust", "-D", data)) === null) return null;
    await sh(`${bin}/pg_ctl`, "-D", data, "-w", "-l", join(folder, "log"), "-o",
      `-k ${socket} -p 54329 -c listen_addresses=''`, "start");
    await sh("psql", ...psql, "-c",
      "create table budget (id int primary key, used bigint, held bigint, cap bigint); insert into budget values (1, 0, 0, 9000000000000)");
    const text = await sh("pgbench", "-n", "-c", "50", "-j", "2", "-T", "5", "-f", script, ...psql);
    const tps = text?.match(/tps = ([0-9.]+)/);
    return tps ? Number(tps[1]) : null;
  } finally {
    await sh(`${bin}/pg_ctl`, "-D", data, "-m", "immediate", "stop");
    rmSync(folder, { recursive: true, force: true });
  }
}
