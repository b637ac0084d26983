// Applies the D1 migrations to the local databases of a persist folder.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT, run, say, wranglerCommand } from "./toolchain.mjs";

const DATABASES = { DB: "migrations/control", LEDGER_0: "migrations/ledger" };

/** Applies the migrations that a persist folder lacks. What was applied is noted beside the
 * databases, so that it is lost together with them and a start without news skips wrangler. */
export async function migrate(persist) {
  const note = join(persist, "v3", "d1", "migrations.sha256");
  const digest = migrationsDigest();
  if (existsSync(note) && readFileSync(note, "utf8") === digest) return;
  say("applying the D1 migrations to the local databases …");
  for (const binding of Object.keys(DATABASES)) {
    const args = ["d1", "migrations", "apply", binding, "--local", "--persist-to", persist];
    await run(...wranglerCommand(args), { quiet: true });
  }
  mkdirSync(join(persist, "v3", "d1"), { recursive: true });
  writeFileSync(note, digest);
}

function migrationsDigest() {
  const hash = createHash("sha256");
  for (const folder of Object.values(DATABASES)) {
    for (const name of readdirSync(join(ROOT, folder)).sort()) {
      hash.update(`\0${folder}/${name}\0`).update(readFileSync(join(ROOT, folder, name)));
    }
  }
  return hash.digest("hex");
}
