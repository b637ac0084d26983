// The servers of the end-to-end tests: real workerd, real D1, the stand-in provider, over HTTP.
//
//   import { test } from "node:test";
//   import assert from "node:assert/strict";
//   import { shared, own, browser } from "./harness.mjs";
//
//   test("a link redirects", async () => {
//     const server = await shared();          // one for all files of the run, booted once
//     const account = await server.account(); // a fresh account with its API key
//     const made = await account.api("POST", "/v1/links", { destination: "https://example.com/" });
//     assert.equal(made.status, 201);
//   });
//
// `shared()` is for tests that only touch accounts of their own. A test that kills the server,
// moves the clock, needs other settings or looks at totals of everything takes `own({ vars })`
// and ends it with `await server.stop()` in a `finally`.
//
// All files of a run share one process, so a file that needs `before` or `after` puts its tests
// into a `describe`: outside of one these hooks are everybody's.
//
//   npx node --test --experimental-test-isolation=none tests/e2e/NAME.test.mjs
//
// With E2E_LOG=1 the servers' output is shown as it comes.

import { DatabaseSync } from "node:sqlite";
import { after } from "node:test";
import { own } from "./server.mjs";

export * from "./server.mjs";

let sharedServer = null;
/** The server that all tests share; it is ended after the last test. */
export function shared() {
  sharedServer ??= own();
  return sharedServer;
}
after(async () => {
  if (sharedServer !== null) await (await sharedServer).stop();
});

/** For so long a look at a storage waits for the server, which locks it while it makes it. */
const LOCKED_MS = 5_000;
/** Opens a storage, also beside the server that has it. */
export function opened(path, options = {}) {
  return new DatabaseSync(path, { timeout: LOCKED_MS, ...options });
}
