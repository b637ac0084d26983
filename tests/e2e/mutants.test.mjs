// The lists of planted bugs still fit the code: what they replace stands where they say.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { mutants, planted } from "../../scripts/mutants.mjs";
import { ROOT } from "../../scripts/toolchain.mjs";

test("every_planted_bug_changes_its_file", async () => {
  const all = await mutants();
  assert.ok(all.length > 100, `${all.length} of them`);
  for (const mutant of all) {
    const sound = readFileSync(join(ROOT, mutant.file), "utf8");
    assert.notEqual(planted(mutant, sound), sound, mutant.name);
  }
});
