// `npm run mutants`: plants one named bug at a time in a copy of the tree and runs the native tests.
// A mutant that no test finds is a survivor, and the command fails. Names after `--` choose some.
// The lists stand in tests/mutants; a text to replace must stand in its file exactly once, so that
// a list which no longer fits the code is told, not passed over.

import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Failed, ROOT, captureIn, isMain, main, say } from "./toolchain.mjs";

const LISTS = join(ROOT, "tests", "mutants");
const COPY = join(ROOT, "target", "mutants");
const COPIED = ["Cargo.toml", "Cargo.lock", "clippy.toml", "src", "migrations", "tests", "docs",
  "examples", "wrangler.toml", "README.md"];
/** Some bugs are loops without an end; far above what the slowest look takes. */
const HANGS_AFTER_S = "900";
/** Looks for what the tests named first leave alive: all of them, the slow ones last. */
const EVERYTHING = [["--lib"], ["--test", "native"]];

async function run() {
  const chosen = process.argv.slice(2);
  const all = await mutants();
  const mine = all.filter(({ name }) => chosen.length === 0 || chosen.some((c) => name.includes(c)));
  if (mine.length === 0) throw new Failed(`no mutant is called ${chosen.join(" or ")}`);
  layCopy();
  const results = [];
  for (const mutant of mine) {
    const result = await tried(mutant);
    say(`${result.end.padEnd(9)} ${mutant.name}${result.by ? `: ${result.by}` : ""}`);
    results.push(result.end);
  }
  const found = results.filter((end) => end === "found").length;
  console.log(`mutants: ${found} passed, ${results.length - found} failed`);
  if (found < results.length) throw new Failed("not every planted bug was found");
}

/** All that are listed. */
export async function mutants() {
  const lists = readdirSync(LISTS).filter((file) => file.endsWith(".mjs")).sort();
  const modules = await Promise.all(lists.map((file) => import(join(LISTS, file))));
  return modules.flatMap(({ default: list }) => list);
}

/** Keeps what was compiled before: only sources are laid anew. */
function layCopy() {
  mkdirSync(COPY, { recursive: true });
  for (const name of COPIED) {
    rmSync(join(COPY, name), { recursive: true, force: true });
    cpSync(join(ROOT, name), join(COPY, name), { recursive: true, preserveTimestamps: true });
  }
}

/** Plants the bug, runs tests until one finds it, and takes the bug out again. */
async function tried(mutant) {
  const path = join(COPY, mutant.file);
  const sound = readFileSync(path, "utf8");
  writeFileSync(path, planted(mutant, sound));
  try {
    const first = mutant.tests.map((filter) => ["--lib", "--test", "native", filter]);
    for (const tests of [...first, ...EVERYTHING]) {
      const limited = [HANGS_AFTER_S, "cargo", "test", "--quiet", ...tests];
      const { status, text } = await captureIn(COPY, "timeout", limited);
      if (status === 0) continue;
      if (status === 124) return { end: "found", by: `${tests.at(-1)} never ends` };
      const failed = /^test (\S+) \.\.\. FAILED|^    (\S+)$/m.exec(text.split("failures:").at(-1));
      if (!/test result: FAILED/.test(text)) return { end: "broken", by: lastLines(text) };
      return { end: "found", by: failed?.[1] ?? failed?.[2] };
    }
    return { end: "survived" };
  } finally {
    writeFileSync(path, sound);
  }
}

/** The file's text with the bug; fails where what it replaces does not stand there once. */
export function planted({ name, file, edits }, sound) {
  return edits.reduce((text, [from, to]) => {
    const places = text.split(from).length - 1;
    if (places !== 1) throw new Failed(`${name}: its text stands ${places} times in ${file}`);
    return text.replace(from, () => to);
  }, sound);
}

function lastLines(text) {
  return text.trim().split("\n").filter((line) => line.startsWith("error")).slice(0, 3).join(" | ");
}

if (isMain(import.meta)) await main(run);
