// Starts contenders, all the same way, and measures them.
//
// Every contender runs in a workerd of its own, started by miniflare with a direct socket to the
// Worker: no proxy stands in front of any of them. Rounds are interleaved, so that noise of the
// machine meets all alike; what counts is the median and the ratio within one run.

import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Miniflare, convertV4MiniflareOptions } from "miniflare";
import { Failed, ROOT, output, say } from "../scripts/toolchain.mjs";
import { freePort } from "../tests/e2e/server.mjs";

export const BROWSER =
  "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36";
export const OPERATOR = { authorization: "Bearer dev-operator" };
const COMPATIBILITY = "2026-11-01";

/** A contender that answers on its direct socket; `close` ends it and removes its data. */
async function start(worker) {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), "counterfoil-bench-"));
  const miniflare = new Miniflare(convertV4MiniflareOptions({
    port: await freePort(),
    cf: false,
    defaultPersistRoot: folder,
    compatibilityDate: COMPATIBILITY,
    unsafeDirectSockets: [{ host: "127.0.0.1", port }],
    ...worker({ port }),
  }));
  await miniflare.ready;
  return {
    url: `http://127.0.0.1:${port}`,
    folder,
    miniflare,
    async close() {
      await miniflare.dispose();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A contender in JavaScript. */
export async function startScript(file, { sql = [], ...options } = {}) {
  const script = readFileSync(join(ROOT, "bench/contenders", file), "utf8");
  const contender = await start(() => ({ modules: true, script, ...options }));
  if (sql.length > 0) await execute(await contender.miniflare.getD1Database("DB"), sql);
  return contender;
}

/** A wasm bundle that worker-build made in `folder`. */
export function bundle(folder) {
  const code = (name, type) => ({ type, path: name, contents: readFileSync(join(folder, name)) });
  return [code("index.js", "ESModule"), code("index_bg.wasm", "CompiledWasm")];
}

/** A contender in Rust that needs nothing but its bundle. */
export function startWasm(folder) {
  return start(() => ({ modules: bundle(folder), modulesRoot: ROOT }));
}

/** Counterfoil itself, with the stand-in. */
export async function startCounterfoil(vars = {}) {
  const object = (className) => ({ className, useSQLite: true });
  const contender = await start(({ port }) => ({
    modules: bundle(join(ROOT, "build")),
    modulesRoot: ROOT,
    bindings: {
      PROVIDER: "standin", DEV: "1", PUBLIC_URL: `http://127.0.0.1:${port}`, ...vars,
    },
    d1Databases: { DB: "control", LEDGER_0: "ledger" },
    durableObjects: {
      ACCOUNT: object("Account"), LEDGER_SHARD: object("LedgerShard"), STANDIN: object("StandIn"),
    },
  }));
  for (const [binding, folder] of [["DB", "control"], ["LEDGER_0", "ledger"]]) {
    await execute(await contender.miniflare.getD1Database(binding), migrations(folder));
  }
  return contender;
}

function migrations(folder) {
  const home = join(ROOT, "migrations", folder);
  const files = readdirSync(home).filter((name) => name.endsWith(".sql")).sort();
  const text = files.map((name) => readFileSync(join(home, name), "utf8")).join("\n");
  const plain = text.replace(/--[^\n]*/g, "");
  return plain.split(";").map((part) => part.trim()).filter((part) => part !== "");
}

async function execute(db, statements) {
  for (const statement of statements) await db.prepare(statement).run();
}

/** Calls the API as the operator and gives the parsed answer; fails on an error. */
export async function api(contender, method, path, body) {
  const response = await fetch(contender.url + path, {
    method,
    headers: OPERATOR,
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Failed(`${method} ${path}: ${response.status} ${text}`);
  return JSON.parse(text);
}

/** Runs `work` over `items`, so many at a time. */
export async function each(items, concurrency, work) {
  const rest = items[Symbol.iterator]();
  const lane = async () => {
    for (let next = rest.next(); !next.done; next = rest.next()) await work(next.value);
  };
  await Promise.all(Array.from({ length: concurrency }, lane));
}

/** wrk from Debian's packages, installed if it is missing and this machine lets us. */
export async function requireWrk() {
  if ((await output("wrk", ["--version"])) !== null || existsSync("/usr/bin/wrk")) return;
  say("installing wrk (once) …");
  try {
    execFileSync("apt-get", ["update", "-qq"], { stdio: "ignore" });
    execFileSync("apt-get", ["install", "-y", "-qq", "wrk"], { stdio: "ignore" });
  } catch {
    throw new Failed("wrk is missing and could not be installed: install it and try again");
  }
}

/** One round of wrk: requests a second, the answers' p50 and p99 in ms, and how many were not of a
 * wanted status. */
export async function wrk(url, { seconds = 4, connections = 50, lua = "" } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "counterfoil-wrk-"));
  const script = join(folder, "wrk.lua");
  writeFileSync(script, `wrk.headers["user-agent"] = "${BROWSER}"\n${lua}\n${REPORT}`);
  const args = ["-t2", `-c${connections}`, `-d${seconds}s`, "--latency", "-s", script, url];
  const text = await new Promise((resolve, reject) => {
    const child = spawn("wrk", args, { stdio: ["ignore", "pipe", "inherit"] });
    let out = "";
    child.stdout.on("data", (chunk) => (out += chunk));
    child.once("error", reject);
    child.once("close", () => resolve(out));
  });
  rmSync(folder, { recursive: true, force: true });
  const found = text.match(/REPORT (\S+) (\S+) (\S+) (\S+) (\S+)/);
  if (!found) throw new Failed(`wrk said:\n${text}`);
  const [requests, micros, errors, p50, p99] = found.slice(1).map(Number);
  return { requests, rate: (requests * 1e6) / micros, errors, p50: p50 / 1000, p99: p99 / 1000 };
}

const REPORT = `
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("REPORT %d %d %d %d %d\\n", summary.requests, summary.duration,
    e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50), latency:percentile(99)))
end`;

/** The middle value. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/** Interleaved rounds of several works: `{name: async () => number}` → `{name: median}`. */
export async function rounds(works, count = 3) {
  const seen = Object.fromEntries(Object.keys(works).map((name) => [name, []]));
  for (let round = 0; round < count; round += 1) {
    for (const [name, work] of Object.entries(works)) seen[name].push(await work());
  }
  return Object.fromEntries(Object.entries(seen).map(([name, values]) => [name, median(values)]));
}
