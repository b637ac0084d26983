// `npm run soak -- --minutes N`: the simulation, and beside it a mixed load with kills, random runs
// of the gate and the fuzz targets, ended after N minutes. Exit status 0 only if nothing failed;
// the last line is the summary.

import { spawn } from "node:child_process";
import { RELEASE, buildWorker } from "./build.mjs";
import { cargoTool, setUp } from "./setup.mjs";
import { CARGO_FUZZ_VERSION, ENV, Failed, NODE, ROOT, captureIn, main, run, say } from "./toolchain.mjs";

const FUZZ_TARGETS = ["delivery", "text"];
/** Without a sanitizer a stable compiler will do; there is no unsafe code for one to look at. */
const FUZZ_FLAGS = ["--sanitizer", "none"];
/** Shares of the time: what is left is for the random runs. */
const LOAD_SHARE = 0.5;
const FUZZ_SHARE = 0.2;
/** Random runs on one server. */
const RUNS = 2;

await main(async () => {
  const minutes = minutesOf(process.argv.slice(2));
  await setUp();
  if (Number(process.versions.node.split(".")[0]) < 22) {
    // The first start on a machine with an older Node: npm has brought a newer one by now.
    await run(NODE, process.argv.slice(1));
    return;
  }
  say("building the simulation …");
  await run("cargo", ["build", "--profile", "quick", "--bin", "simulate"]);
  await cargoTool("cargo-fuzz", CARGO_FUZZ_VERSION, [], "about a minute");
  say("building the fuzz targets …");
  await run("cargo", ["fuzz", "build", ...FUZZ_FLAGS]);
  await buildWorker(RELEASE);
  // A new place in the line of seeds for each day, the same for each repeat of that day.
  const from = Math.floor(Date.now() / 86_400_000) * 1_000_000;
  say(`simulating from seed ${from}, and loading workerd with kills, for ${minutes} minutes …`);
  const [simulation, beside] = await Promise.all([simulate(minutes, from), load(minutes * 60, from)]);
  console.log(simulation.text);
  for (const [name, seen] of Object.entries(beside)) console.log(name, JSON.stringify(seen, null, 2));
  const parts = Object.values(beside);
  const failed = parts.filter((seen) => seen.broken.length > 0).length + (simulation.status === 0 ? 0 : 1);
  const passed = parts.length + 1 - failed;
  console.log(`soak: ${simulation.seeds} seeds, ${passed} passed, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
});

function minutesOf(words) {
  const [name, value] = words;
  if (words.length === 0) return 1;
  if (name !== "--minutes" || !/^[1-9][0-9]*$/.test(value ?? "") || words.length > 2) {
    throw new Failed("usage: npm run soak -- --minutes N");
  }
  return Number(value);
}

function simulate(minutes, from) {
  return new Promise((resolve, reject) => {
    const args = ["--minutes", `${minutes}`, "--from", `${from}`];
    const child = spawn("target/quick/simulate", args, { cwd: ROOT, env: ENV, stdio: ["ignore", "pipe", "inherit"] });
    let text = "";
    child.stdout.on("data", (chunk) => (text += chunk));
    child.once("error", reject);
    child.once("close", (status) => {
      const seeds = Number(text.match(/^(\d+) passed/m)?.[1] ?? 0);
      resolve({ status, text: text.trimEnd(), seeds });
    });
  });
}

/** Mixed load, then random runs, then the fuzz targets, in so many seconds. */
async function load(seconds, from) {
  const { mixed } = await import("../tests/soak/mixed.mjs");
  const { runs } = await import("../tests/soak/runs.mjs");
  const until = Date.now() + seconds * (1 - FUZZ_SHARE) * 1000;
  const seen = { mixed: await mixed(seconds * LOAD_SHARE, Math.min(60, seconds / 6)) };
  seen.runs = { rounds: 0, broken: [] };
  do {
    const found = await runs(RUNS, from + seen.runs.rounds * RUNS);
    seen.runs.rounds += 1;
    seen.runs.broken.push(...found.broken);
  } while (Date.now() < until && seen.runs.broken.length === 0);
  seen.fuzz = await fuzz(Math.ceil(seconds * FUZZ_SHARE / FUZZ_TARGETS.length));
  return seen;
}

/** Each fuzz target for so many seconds. */
async function fuzz(seconds) {
  const seen = { seconds, runs: {}, broken: [] };
  for (const target of FUZZ_TARGETS) {
    const args = ["fuzz", "run", target, ...FUZZ_FLAGS, "--", `-max_total_time=${seconds}`];
    const { status, text } = await captureIn(ROOT, "cargo", args);
    seen.runs[target] = Number(text.match(/^Done (\d+) runs/m)?.[1] ?? 0);
    if (status !== 0) seen.broken.push(`${target}: ${text.slice(-2_000)}`);
  }
  return seen;
}
