// The conformance list of the ports, inside workerd. rusqlite runs the same list in `cargo test`.

import assert from "node:assert/strict";
import { createServer } from "node:http";
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

  test("outgoing requests carry what they were given and follow no redirect", async () => {
    const outside = await listen((request, answer) => {
      if (request.url === "/moved") return answer.writeHead(302, { location: "/ok" }).end("moved");
      let body = "";
      request.on("data", (chunk) => (body += chunk));
      request.on("end", () => {
        const seen = { method: request.method, sent: request.headers["x-sent"], body };
        answer.writeHead(201, { "x-answer": "a" }).end(JSON.stringify(seen));
      });
      return undefined;
    });
    try {
      const ok = await send(`${outside.url}/ok`);
      assert.equal(ok.status, 201);
      assert.deepEqual(JSON.parse(ok.body), { method: "POST", sent: "yes", body: "héllo" });
      assert.deepEqual(ok.headers.find(([name]) => name === "x-answer"), ["x-answer", "a"]);
      const moved = await send(`${outside.url}/moved`);
      assert.deepEqual([moved.status, moved.body], [302, "moved"]);
    } finally {
      outside.close();
    }
    assert.match((await send(`${outside.url}/ok`)).fault, /^POST 127\.0\.0\.1:\d+: /);
    assert.match((await send("not a url")).fault, /^POST/);
  });

  test("an answer that never comes, never ends or is too large is given up", async () => {
    const outside = await listen((request, answer) => {
      if (request.url === "/large") answer.end("x".repeat(2 * 1024 * 1024));
      if (request.url === "/endless") answer.write("x");
    });
    try {
      const begin = Date.now();
      const paths = ["/silent", "/endless", "/large"];
      const [silent, endless, large] = await Promise.all(
        paths.map((path) => send(outside.url + path)),
      );
      assert.match(silent.fault, /no answer within 10 s/);
      assert.match(endless.fault, /no answer within 10 s/);
      assert.match(large.fault, /larger than 1 MiB/);
      assert.ok(Date.now() - begin < 15_000);
    } finally {
      outside.close();
    }
  });

  async function send(url) {
    return (await server.request("GET", `/conformance?url=${encodeURIComponent(url)}`)).body;
  }
});

/** A server outside: `{ url, close() }`. */
async function listen(handler) {
  const server = createServer(handler);
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${server.address().port}`, close };
}
