// `npm run bench`: each work against its contender in the same run, medians and ratios.
// `-- --json` prints JSON for machines; `-- --only redirect,gate` runs some of the rows.

import { RELEASE, buildWorker } from "./build.mjs";
import { setUp } from "./setup.mjs";
import { Failed, NODE, main, run, say } from "./toolchain.mjs";

const ALL = ["redirect", "entries", "gate", "inbox", "reconcile"];

await main(async () => {
  const { json, only } = options(process.argv.slice(2));
  const write = process.stdout.write.bind(process.stdout);
  // A machine reads the table from stdout and nothing else.
  if (json) process.stdout.write = process.stderr.write.bind(process.stderr);
  await setUp();
  if (Number(process.versions.node.split(".")[0]) < 22) {
    // The first start on a machine with an older Node: npm has brought a newer one by now.
    await run(NODE, process.argv.slice(1));
    return;
  }
  await buildWorker(RELEASE);
  const works = await load();
  const table = [];
  for (const name of only) {
    say(`measuring ${name} …`);
    table.push(...(await works[name]()));
  }
  write(json ? `${JSON.stringify({ cores: cores(), rows: table }, rounded, 2)}\n` : `${lines(table)}\n`);
});

async function load() {
  const { requireTools } = await import("../bench/harness.mjs");
  await requireTools("wrk", "sqlite3");
  const { redirect, entries } = await import("../bench/rows/redirect.mjs");
  const { gate } = await import("../bench/rows/gate.mjs");
  const { inbox } = await import("../bench/rows/inbox.mjs");
  const { reconcile } = await import("../bench/rows/reconcile.mjs");
  return { redirect, entries, gate, inbox, reconcile };
}

function options(words) {
  const seen = { json: false, only: ALL };
  for (let word = words.shift(); word !== undefined; word = words.shift()) {
    if (word === "--json") seen.json = true;
    else if (word === "--only") seen.only = (words.shift() ?? "").split(",");
    else throw new Failed(`unknown option ${word}; there are --json and --only ${ALL.join(",")}`);
  }
  const unknown = seen.only.find((name) => !ALL.includes(name));
  if (unknown !== undefined) throw new Failed(`there is no row ${unknown}`);
  return seen;
}

function rounded(_name, value) {
  return typeof value === "number" ? Math.round(value * 1000) / 1000 : value;
}

function cores() {
  return navigator.hardwareConcurrency;
}

function lines(table) {
  const figure = (value) => (value >= 100 ? Math.round(value).toLocaleString("en-US") : value.toFixed(2));
  const verdict = ({ ratio, aim, atMost }) => {
    if (aim === null) return "shown";
    const reached = atMost ? ratio <= aim : ratio >= aim;
    return `aim ${atMost ? "at most " : ""}${aim}×: ${reached ? "reached" : "missed"}`;
  };
  return table.map((row) => [
    row.row,
    `    ${figure(row.ours)} : ${figure(row.theirs)} ${row.unit} = ${row.ratio.toFixed(2)}× (${verdict(row)})`,
  ].join("\n")).join("\n");
}
