// Plain usage, corrections and clicks in workerd, many at once.

import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually, own, shared, unique } from "./harness.mjs";

const statuses = (answers) => answers.map((answer) => answer.status).sort();

async function usage(account, query = "feature=clicks") {
  const answer = await account.api("GET", `/v1/usage?${query}`);
  assert.equal(answer.status, 200, answer.text);
  return answer.body;
}

async function link(account) {
  const made = await account.api("POST", "/v1/links", { destination: "https://d.example/" });
  assert.equal(made.status, 201, made.text);
  return made.body.code;
}

test("of_one_fact_sent_twenty_times_at_once_one_is_new", async () => {
  const account = await (await shared()).account();
  const fact = { key: "k", feature: "clicks", units: 5 };
  const send = () => account.api("POST", "/v1/usage", fact);
  const answers = await Promise.all(Array.from({ length: 20 }, send));
  assert.deepEqual(statuses(answers), [...Array(19).fill(200), 201]);
  assert.equal((await account.api("POST", "/v1/usage", { ...fact, units: 6 })).status, 409);
  assert.equal((await usage(account)).total, 5);
});

test("of_two_facts_under_one_key_one_stands_and_the_other_is_a_conflict", async () => {
  const account = await (await shared()).account();
  const send = (units) => account.api("POST", "/v1/usage", { key: "k", feature: "clicks", units });
  const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => send(1 + (n % 2))));
  assert.deepEqual(statuses(answers), [...Array(9).fill(200), 201, ...Array(10).fill(409)]);
});

test("corrections_at_once_never_take_more_than_is_left", async () => {
  const server = await shared();
  const account = await server.account();
  const fact = await account.api("POST", "/v1/usage", { key: "k", feature: "clicks", units: 10 });
  const path = `/v1/entries/${fact.body.id}/correction?account=${account.id}`;
  const correct = (n) => server.api("POST", path, { reason: `reason ${n}`, units: 3 });
  const answers = await Promise.all(Array.from({ length: 8 }, (_, n) => correct(n)));
  assert.equal(answers.filter((answer) => answer.status === 201).length, 3);
  const sums = await usage(account);
  assert.deepEqual([sums.total, sums.gross, sums.corrected], [1, 10, { manual: 9 }]);
});

test("of_one_correction_sent_many_times_at_once_one_is_new", async () => {
  const server = await shared();
  const account = await server.account();
  for (let round = 0; round < 5; round += 1) {
    const fact = { key: `k${round}`, feature: "clicks", units: 10 };
    const { body } = await account.api("POST", "/v1/usage", fact);
    const path = `/v1/entries/${body.id}/correction?account=${account.id}`;
    const correct = () => server.api("POST", path, { reason: "the same", units: 2 });
    const answers = await Promise.all(Array.from({ length: 20 }, correct));
    assert.deepEqual(statuses(answers), [...Array(19).fill(200), 201]);
  }
  assert.deepEqual((await usage(account)).corrected, { manual: 10 });
});

test("every_one_of_many_clicks_at_once_is_one_entry", async () => {
  const server = await shared();
  const account = await server.account();
  const code = await link(account);
  const answers = await Promise.all(Array.from({ length: 300 }, () => server.click(code)));
  assert.ok(answers.every((answer) => answer.status === 302));
  const all = async () => (await usage(account, `code=${code}`)).gross === 300;
  await eventually(all, { what: "300 entries" });
  const page = await account.api("GET", `/v1/entries?code=${code}&limit=500`);
  assert.equal(new Set(page.body.items.map((entry) => entry.id)).size, 300);
});

test("a_double_click_is_taken_back_and_a_shards_row_outlives_a_kill", async () => {
  const server = await own({ vars: { DOUBLE_CLICK_MS: 60000, FLUSH_MS: 5000, SHARDS: 4 } });
  try {
    const account = await server.account({ id: unique("acct") });
    const code = await link(account);
    for (let click = 0; click < 3; click += 1) await server.click(code);
    await server.click(code, { "user-agent": "Mozilla/5.0 (Macintosh) Safari/605.1.15" });
    // Written to the shards, not yet in the ledger.
    await new Promise((done) => setTimeout(done, 1500));
    assert.equal((await usage(account)).gross, 0);
    await server.kill();
    await server.start();
    const there = async () => (await usage(account)).gross === 4;
    await eventually(there, { what: "four entries after the kill", within: 20_000 });
    const sums = await usage(account);
    assert.deepEqual([sums.total, sums.corrected], [2, { double_click: 2 }]);
  } finally {
    await server.stop();
  }
});
