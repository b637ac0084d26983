// Builds a contender's crate with worker-build, into a folder of its own.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { buildEnv } from "../scripts/build.mjs";
import { ROOT, run, say } from "../scripts/toolchain.mjs";

/** Builds `bench/<name>` once and gives the folder of its bundle. */
export async function buildCrate(name) {
  const home = join(ROOT, "bench", name);
  const out = join(home, "build");
  if (!existsSync(join(out, "index.js"))) {
    say(`building the contender ${name} (once) …`);
    const env = { ...buildEnv(), CARGO_TARGET_DIR: join(ROOT, "target") };
    await run("worker-build", ["--release", home], { env });
  }
  return out;
}
