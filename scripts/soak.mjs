// `npm run soak -- --minutes N`: the simulation and a mixed load with kills, side by side, ended
// after N minutes. Exit status 0 only if nothing failed; the last line is the summary.

import { spawn } from "node:child_process";
import { setUp } from "./setup.mjs";
import { ENV, Failed, NODE, ROOT, main, run, say } from "./toolchain.mjs";

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
  const { mixed } = await import("../tests/soak/mixed.mjs");
  // A new place in the line of seeds for each day, the same for each repeat of that day.
  const from = Math.floor(Date.now() / 86_400_000) * 1_000_000;
  say(`simulating from seed ${from}, and loading workerd with a kill each minute, for ${minutes} minutes …`);
  const [simulation, load] = await Promise.all([simulate(minutes, from), mixed(minutes * 60)]);
  console.log(simulation.text);
  console.log(JSON.stringify(load, null, 2));
  const broken = (simulation.status === 0 ? 0 : 1) + load.broken.length;
  const passed = simulation.seeds + (load.broken.length === 0 ? 1 : 0);
  console.log(`soak: ${passed} passed, ${broken} failed`);
  process.exitCode = broken === 0 ? 0 : 1;
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
