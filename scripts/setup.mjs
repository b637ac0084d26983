// Brings what a build needs and a fresh machine lacks: npm packages, the wasm target,
// worker-build and the wasm-bindgen CLI of exactly Cargo.lock's version. Each is looked at first,
// so that a second run takes a moment. The tools go to cargo's usual place: a second checkout on
// the same machine then finds them.

import { join } from "node:path";
import { existsSync } from "node:fs";
import {
  Failed, ROOT, WASM_TARGET, WORKER_BUILD_VERSION,
  isMain, lockedVersion, main, output, readJson, run, say,
} from "./toolchain.mjs";

/** Does all of the set-up that is missing. */
export async function setUp() {
  await requireRust();
  await npmPackages();
  await wasmTarget();
  await cargoTool("worker-build", WORKER_BUILD_VERSION, [], "about 5 minutes");
  // Without --locked: the lock file that this crate ships names a version that cannot be had.
  await cargoTool("wasm-bindgen-cli", lockedVersion("wasm-bindgen"), [], "about 3 minutes");
}

async function requireRust() {
  if ((await output("cargo", ["--version"])) === null) {
    throw new Failed("cargo is missing: install Rust with rustup (https://rustup.rs) first");
  }
}

async function npmPackages() {
  if (npmIsUpToDate()) return;
  say("installing the npm packages of package-lock.json (under a minute) …");
  // The warning that this Node is too old for wrangler is known: npm brings a newer one here.
  await run("npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
}

/** npm notes what it has installed; that note must agree with the lock file. */
function npmIsUpToDate() {
  const wanted = readJson(join(ROOT, "package-lock.json"))?.packages ?? {};
  const present = readJson(join(ROOT, "node_modules/.package-lock.json"))?.packages ?? {};
  return Object.entries(wanted).every(
    ([path, { version, optional }]) =>
      path === "" || optional || present[path]?.version === version,
  ) && existsSync(join(ROOT, "node_modules/.bin/node"));
}

async function wasmTarget() {
  const libraries = await output("rustc", ["--print", "target-libdir", "--target", WASM_TARGET]);
  if (libraries !== null && existsSync(libraries.trim())) return;
  say(`adding Rust's ${WASM_TARGET} target …`);
  await run("rustup", ["target", "add", WASM_TARGET]);
}

/** Installs a tool of cargo's, where it is not there in that version. */
export async function cargoTool(crate, version, flags, duration) {
  const command = crate.replace(/-cli$/, "");
  const present = await output(command, ["--version"]);
  if (present?.trim().split(/\s+/).pop() === version) return;
  const instead = present === null ? "" : ` in place of ${present.trim()}`;
  say(`installing ${crate} ${version}${instead} (once; ${duration}) …`);
  await run("cargo", ["install", crate, "--version", version, "--force", ...flags]);
}

if (isMain(import.meta)) await main(setUp);
