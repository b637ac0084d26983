// Links and clicks over HTTP against workerd: exact headers, one row for each answered redirect,
// visitors that hang up, and a kill between answer and batch.

import assert from "node:assert/strict";
import { request } from "node:http";
import { connect } from "node:net";
import { test } from "node:test";
import { BROWSER, eventually, own, shared, unique } from "./harness.mjs";

const TO = "https://d.example/p?abc&&x=%2f#123";

/** A fresh account with one link. */
async function linked(server, fields = {}) {
  const account = await server.account();
  const code = unique("link");
  const made = await account.api("POST", "/v1/links", { code, destination: TO, ...fields });
  assert.equal(made.status, 201, made.text);
  return { account, code, made: made.body };
}

/** What the ledger has of a link; waits until its gross is `gross`. */
function usage(account, code, gross) {
  const path = `/v1/usage?feature=clicks&code=${code}`;
  const look = async () => {
    const { body } = await account.api("GET", path);
    return body.gross >= gross ? body : null;
  };
  return eventually(look, { within: 20_000, what: `gross ${gross} of ${code}` });
}

/** A request that `fetch` would not send: with exactly these headers. */
function bare(server, method, path, headers = {}) {
  return new Promise((resolve, reject) => {
    const sent = request({ host: "localhost", port: server.port, method, path, headers }, (answer) => {
      answer.resume();
      answer.once("end", () => resolve({ status: answer.statusCode, headers: answer.headers }));
    });
    sent.once("error", reject);
    sent.end();
  });
}

test("a_redirect_says_the_stored_bytes_and_may_be_kept_by_nobody", async () => {
  const server = await shared();
  const { account, code, made } = await linked(server);
  assert.equal(made.url, `${server.url}/${code}`);
  const answer = await server.click(`${code.toUpperCase()}/?utm=1`);
  assert.equal(answer.status, 302);
  assert.equal(answer.headers.get("location"), TO);
  assert.equal(answer.headers.get("cache-control"), "private, no-store");
  assert.equal(answer.headers.get("x-robots-tag"), "noindex, nofollow");
  assert.equal(answer.headers.get("etag"), null);
  assert.equal(answer.text, "");
  const recorded = await usage(account, code, 1);
  assert.deepEqual([recorded.total, recorded.gross, recorded.corrected], [1, 1, {}]);
});

test("a_link_that_is_remembered_is_answered_as_at_its_first_visit", async () => {
  const server = await shared();
  const { account, code } = await linked(server);
  const said = async (headers) => {
    const { status, text, headers: all } = await server.click(code, headers);
    const { date, "x-request-id": id, ...rest } = Object.fromEntries(all);
    assert.match(id, /^req_[0-9a-z]{26}$/);
    return { status, text, rest };
  };
  const first = await said({});
  // The stand-in's clock is asked for once a second, and that by the router.
  for (let visit = 0; visit < 5; visit += 1) assert.deepEqual(await said({}), first);
  const recorded = await usage(account, code, 6);
  assert.deepEqual([recorded.total, recorded.gross], [6, 6]);
});

test("only_answered_redirects_are_recorded_and_machines_are_taken_back", async () => {
  const server = await shared();
  const { account, code } = await linked(server);
  const statuses = [];
  const ask = async (method, headers) => {
    statuses.push((await bare(server, method, `/${code}`, headers)).status);
  };
  await ask("HEAD", { "user-agent": BROWSER });
  await ask("OPTIONS", { "user-agent": BROWSER });
  await ask("DELETE", { "user-agent": BROWSER });
  await ask("GET", { "user-agent": BROWSER, "sec-purpose": "prefetch;prerender" });
  await ask("GET", { "user-agent": "meta-externalagent/1.1" });
  await ask("GET", { "user-agent": "Mozilla/5.0 (compatible; Googlebot/2.1)" });
  await ask("GET", {});
  await ask("GET", { "user-agent": BROWSER });
  assert.deepEqual(statuses, [302, 204, 405, 503, 302, 302, 302, 302]);
  const recorded = await usage(account, code, 4);
  assert.equal(recorded.total, 1);
  assert.deepEqual(recorded.corrected, { bot: 1, no_user_agent: 1, preview_crawler: 1 });
  const list = await account.api("GET", `/v1/entries?code=${code}&kind=correction`);
  assert.ok(list.body.items.every((entry) => /\d/.test(entry.rule)), list.text);
});

test("a_prefetch_is_not_told_when_to_come_back", async () => {
  const server = await shared();
  const { code } = await linked(server);
  const answer = await server.click(code, { purpose: "prefetch" });
  assert.deepEqual([answer.status, answer.headers.get("retry-after")], [503, null]);
  assert.equal(answer.headers.get("cache-control"), "no-store");
});

test("every_one_of_many_simultaneous_clicks_is_one_row", async () => {
  const server = await shared();
  const { account, code } = await linked(server);
  const clicks = 500;
  let next = 0;
  const visitor = async () => {
    while (next++ < clicks) assert.equal((await server.click(code)).status, 302);
  };
  await Promise.all(Array.from({ length: 50 }, visitor));
  const recorded = await usage(account, code, clicks);
  assert.deepEqual([recorded.gross, recorded.total], [clicks, clicks]);
  const days = await account.api("GET", `/v1/usage?feature=clicks&code=${code}&by=day`);
  assert.equal(days.body.days.reduce((sum, day) => sum + day.total, 0), clicks);
});

// L18: a visitor that hangs up at once either had no answer and no row, or both.
test("a_visitor_that_hangs_up_is_never_redirected_without_a_row", async () => {
  const server = await own({ vars: { FLUSH_MS: "100" } });
  try {
    const { account, code } = await linked(server);
    let answered = 0;
    const hangUp = () => new Promise((resolve) => {
      const socket = connect(server.port, "localhost");
      socket.on("error", () => {});
      socket.on("data", (bytes) => {
        if (String(bytes).startsWith("HTTP/1.1 302")) answered += 1;
        socket.destroy();
      });
      socket.on("close", resolve);
      socket.on("connect", () => {
        socket.write(`GET /${code} HTTP/1.1\r\nhost: localhost\r\nuser-agent: ${BROWSER}\r\n\r\n`);
        if (Math.random() < 0.5) socket.destroy();
      });
    });
    for (let round = 0; round < 20; round += 1) await Promise.all([1, 2, 3, 4, 5].map(hangUp));
    assert.ok(answered > 0);
    const recorded = await usage(account, code, answered);
    assert.ok(recorded.gross <= 100, `${recorded.gross} of 100`);
  } finally {
    await server.stop();
  }
});

test("recorded_clicks_survive_a_kill", async () => {
  const server = await own();
  try {
    const { account, code } = await linked(server);
    for (let click = 0; click < 30; click += 1) {
      assert.equal((await server.click(code)).status, 302);
    }
    // Batches of other shards may still be on their way when the first one has arrived.
    await usage(account, code, 1);
    await server.kill();
    await server.start();
    await server.run("sweeper");
    const recorded = await usage(account, code, 30);
    assert.equal(recorded.total, 30);
    assert.equal((await server.click(code)).status, 302);
  } finally {
    await server.stop();
  }
});

test("a_disabled_link_is_gone_within_the_bound_and_a_new_one_is_there_at_once", async () => {
  const server = await own({ vars: { LINK_CACHE_SECONDS: "1" } });
  try {
    const account = await server.account();
    const code = unique("link");
    assert.equal((await server.click(code)).status, 404);
    const made = await account.api("POST", "/v1/links", { code, destination: TO });
    assert.equal(made.status, 201);
    assert.equal((await server.click(code)).status, 302);
    const off = await account.api("PATCH", `/v1/links/${code}`, { disabled: true });
    assert.equal(off.body.disabled, true);
    const gone = async () => (await server.click(code)).status === 410;
    await eventually(gone, { within: 3_000, what: "410" });
  } finally {
    await server.stop();
  }
});

test("a_qr_picture_needs_no_token_and_has_the_size_that_was_asked_for", async () => {
  const server = await shared();
  const { code } = await linked(server);
  const answer = await fetch(`${server.url}/v1/links/${code}/qr.png?size=300`);
  assert.deepEqual([answer.status, answer.headers.get("content-type")], [200, "image/png"]);
  const png = Buffer.from(await answer.arrayBuffer());
  assert.equal(png.subarray(1, 4).toString(), "PNG");
  assert.deepEqual([png.readUInt32BE(16), png.readUInt32BE(20)], [300, 300]);
  const svg = await server.request("GET", `/v1/links/${code}/qr.svg`);
  assert.equal(svg.headers.get("content-type"), "image/svg+xml");
  assert.ok(svg.text.startsWith("<svg "));
});
