// A few of the random runs of the soak, one of them with a SIGKILL in its middle.

import assert from "node:assert/strict";
import { test } from "node:test";
import { runs } from "../soak/runs.mjs";

test("random runs of 32 clients never pass the limit and end with balanced books", async () => {
  const seen = await runs(2, 4);
  assert.deepEqual(seen.broken, []);
  assert.equal(seen.runs, 2);
  for (const what of ["admitted", "refused", "charges", "settled", "hungUp", "looks", "kills"]) {
    assert.ok(seen[what] > 0, `nothing was ${what}: ${JSON.stringify(seen)}`);
  }
});
