// `npm test`: everything CI checks, from a fresh clone. Steps run in order of cost; the first that
// fails ends the run with its status. The runners' own summary lines are repeated at the end.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { CONFORMANCE, PREBUILT, RELEASE, buildWorker } from "./build.mjs";
import { chromium } from "./chromium.mjs";
import { setUp } from "./setup.mjs";
import { ENV, NODE, ROOT, WASM_TARGET, main, run, say, wranglerCommand } from "./toolchain.mjs";

const CLIPPY = ["clippy", "--quiet"];
const DENY = ["--", "-D", "warnings"];
/** What cargo and node's test runner print when they are done, one line a runner or a count. */
const SUMMARY = /^(test result: .*|ℹ (tests|pass|fail|cancelled|skipped|todo) \d+)$/;

const STEPS = [
  ["set-up", setUp],
  ["set-up, browser", browser],
  ["format", () => run("cargo", ["fmt", "--check"])],
  ["clippy, native", () => run("cargo", [...CLIPPY, "--all-targets", ...DENY])],
  ["clippy, wasm", () => run("cargo", [...CLIPPY, "--lib", "--target", WASM_TARGET, ...DENY])],
  ["tests, native", () => run("cargo", ["test"])],
  ["Worker bundle", () => buildWorker(RELEASE)],
  ["deploy, dry run", deployDryRun],
  ["conformance bundle", () => buildWorker(CONFORMANCE)],
  ["tests over HTTP and in a browser, against workerd", endToEnd],
];

await main(async () => {
  const summary = [];
  for (const [name, step] of STEPS) {
    const begin = Date.now();
    say(`── ${name} …`);
    const text = await step();
    say(`── ${name}: ok, ${((Date.now() - begin) / 1000).toFixed(1)} s`);
    const lines = (text ?? "").split("\n").filter((line) => SUMMARY.test(line));
    if (lines.length > 0) summary.push(`${name}:`, ...lines);
  }
  console.log(summary.join("\n"));
});

/** Before the minutes of building, so that a machine without a browser hears of it at once. */
async function browser() {
  say(`the browser is ${await chromium()}`);
}

function deployDryRun() {
  const args = ["deploy", "--dry-run", "--outdir", "target/dry-run"];
  return run(...wranglerCommand(args), { env: { ...ENV, [PREBUILT]: "1" } });
}

/** One process for all files, so that they share one server and boot it once. */
function endToEnd() {
  const files = ["e2e", "browser"].flatMap((name) => {
    const folder = join(ROOT, "tests", name);
    const tests = readdirSync(folder).filter((file) => file.endsWith(".test.mjs")).sort();
    return tests.map((file) => join(folder, file));
  });
  const flags = ["--no-warnings", "--test", "--test-reporter=spec"];
  const inOneProcess = "--experimental-test-isolation=none";
  return run(NODE, [...flags, inOneProcess, ...files]);
}
