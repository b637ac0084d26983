// Builds the Worker's bundle with worker-build. wrangler's [build] command runs this too, so a
// plain `npx wrangler deploy` ships what is in the tree; nothing is built when nothing changed.

import { createHash } from "node:crypto";
import {
  copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync,
} from "node:fs";
import { homedir } from "node:os";
import { join, relative } from "node:path";
import { setUp } from "./setup.mjs";
import { ENV, ROOT, isMain, main, npmBinary, readJson, run, say } from "./toolchain.mjs";

const INPUTS = ["Cargo.toml", "Cargo.lock", "src", "migrations", "scripts/build.mjs"];
/** The bundle's entry; worker-build's own, `index.js`, is behind it. */
const ENTRY = "worker.js";
const STAMPS = join(ROOT, "target", "bundles.json");

const DEPLOYED = ["--release"];
/** Built again in seconds instead of minutes, and slower to run. */
const QUICK = ["--profile", "quick", "--no-opt"];

/** The bundle that is deployed. `COUNTERFOIL_QUICK=1` builds it quickly, while one works on it. */
export const RELEASE = {
  out: "build",
  how: process.env.COUNTERFOIL_QUICK === undefined ? DEPLOYED : QUICK,
  features: [],
};
/** The same with the route that runs the SQL conformance list inside workerd; never deployed. */
export const CONFORMANCE = { out: "target/conformance", how: QUICK, features: ["conformance"] };

/** Builds one bundle if its inputs changed since it was last built. */
export async function buildWorker({ out, how, features }) {
  const digest = inputsDigest([how, features]);
  const stamps = readJson(STAMPS) ?? {};
  if (stamps[out] === digest && existsSync(join(ROOT, out, ENTRY))) return;
  say(`building the Worker into ${out}/ (minutes when nothing is compiled yet) …`);
  const flags = features.length > 0 ? ["--", "--features", features.join(",")] : [];
  // `/healthz` tells it, so that nobody takes an older server for this one.
  const env = { ...buildEnv(), COUNTERFOIL_BUILD: digest.slice(0, 12) };
  await run("worker-build", [...how, "--out-dir", out, ...flags], { env });
  copyFileSync(join(ROOT, "src/edge", ENTRY), join(ROOT, out, ENTRY));
  mkdirSync(join(ROOT, "target"), { recursive: true });
  writeFileSync(STAMPS, JSON.stringify({ ...readJson(STAMPS), [out]: digest }));
}

/** worker-build would download these tools itself, from places that may be out of reach. */
export function buildEnv() {
  const cargoHome = process.env.CARGO_HOME ?? join(homedir(), ".cargo");
  return {
    ...ENV,
    WASM_BINDGEN_BIN: join(cargoHome, "bin", "wasm-bindgen"),
    WASM_OPT_BIN: npmBinary("wasm-opt"),
    ESBUILD_BIN: npmBinary("esbuild"),
  };
}

/** A digest of every file that goes into the bundle. */
function inputsDigest(flags) {
  const hash = createHash("sha256").update(JSON.stringify(flags));
  for (const input of INPUTS) {
    for (const file of filesUnder(join(ROOT, input))) {
      hash.update(`\0${relative(ROOT, file)}\0`).update(readFileSync(file));
    }
  }
  return hash.digest("hex");
}

function filesUnder(path) {
  if (!existsSync(path)) return [];
  if (statSync(path).isFile()) return [path];
  return readdirSync(path).sort().flatMap((name) => filesUnder(join(path, name)));
}

/** Set by whoever has built already and must not see the bundle change under a running server. */
export const PREBUILT = "COUNTERFOIL_PREBUILT";

if (isMain(import.meta) && process.env[PREBUILT] === undefined) {
  await main(async () => {
    await setUp();
    await buildWorker(RELEASE);
  });
}
