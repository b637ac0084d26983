// The conformance list of the ports, inside workerd. rusqlite runs the same list in `cargo test`.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { CONFORMANCE, buildWorker } from "../../scripts/build.mjs";
import { own, shared } from "./harness.mjs";

describe("the ports inside workerd", () => {
  let server;
  let report;
  before(async () => {
    await buildWorker(CONFORMANCE);
    server = await own({ args: [`${CONFORMANCE.out}/index.js`] });
    report = (await server.request("GET", "/conformance")).body;
  });
  after(() => server?.stop());

  for (const driver of ["d1", "object", "web_crypto"]) {
    test(`${driver} conforms`, () => {
      assert.ok(report[driver].length > 0);
      assert.deepEqual(report[driver].filter(({ failure }) => failure !== null), []);
    });
  }

  test("the deployed bundle has no such route", async () => {
    const answer = await (await shared()).request("GET", "/conformance");
    assert.equal(answer.body?.d1, undefined);
  });
});
