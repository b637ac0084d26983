// The server itself: it answers, keeps its data over a restart and ends cleanly.

import assert from "node:assert/strict";
import { test } from "node:test";
import { own, shared } from "./harness.mjs";

test("healthz names version and provider", async () => {
  const server = await shared();
  const answer = await server.request("GET", "/healthz");
  assert.equal(answer.status, 200);
  assert.equal(answer.body.ok, true);
});

test("it starts again after a kill on the same data", async () => {
  const server = await own();
  try {
    await server.kill();
    await server.start();
    assert.equal((await server.request("GET", "/healthz")).status, 200);
  } finally {
    await server.stop();
  }
  assert.equal(server.alive(), false);
});
