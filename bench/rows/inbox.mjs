// Deliveries stored a second, against a JavaScript Worker that verifies with WebCrypto and inserts
// into D1. Every delivery is a new event, signed by the stand-in; both sides get the same ones.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  answers, api, each, reached, rounds, row, stands, startCounterfoil, startScript, wrk,
} from "../harness.mjs";

const ROUNDS = 5;
const CUSTOMERS = 500;
/** Of one round; more than it can send. */
const EVENTS = 5_000;
const DUE = "select count(*) as due from event where next_at_ms <= ?1";

/** Measures and gives the row of the table. */
export async function inbox() {
  const counterfoil = await startCounterfoil();
  const folder = mkdtempSync(join(tmpdir(), "counterfoil-events-"));
  let script;
  try {
    const tokens = await signedEvents(counterfoil, EVENTS * ROUNDS);
    const jwks = await (await fetch(`${counterfoil.url}/standin/.well-known/jwks`)).json();
    const sql = ["create table event (id text primary key, type text, body text)"];
    script = await startScript("store_webhook.js", { d1Databases: { DB: "events" }, bindings: { JWKS: jwks }, sql });
    const ours = `${counterfoil.url}/webhooks/kinde`;
    for (const url of [ours, script.url]) {
      await answers(url, 401, {}, { method: "POST", body: forged(tokens[0]) });
    }
    const events = await counterfoil.miniflare.getD1Database("DB");
    const due = () => events.prepare(DUE).bind(Date.now()).first("due");
    const deliveries = { counterfoil: [], script: [] };
    const deliver = async (side, url) => {
      const first = deliveries[side].length * EVENTS;
      const { requests, rate } = await sent(url, tokens.slice(first, first + EVENTS), folder);
      deliveries[side].push(requests);
      // What is still to be applied must not slow the contender's round.
      await reached("applied events", async () => -(await due()), 0);
      return rate;
    };
    const rates = await rounds({
      counterfoil: () => deliver("counterfoil", ours),
      script: () => deliver("script", script.url),
    }, ROUNDS);
    const count = (db) => db.prepare("select count(*) as total from event").first("total");
    const sum = (side) => deliveries[side].reduce((all, one) => all + one, 0);
    stands("events", await count(events), sum("counterfoil"), ROUNDS);
    const inserted = await script.miniflare.getD1Database("DB");
    stands("inserted events", await count(inserted), sum("script"), ROUNDS);
    const what = "deliveries verified and stored : JavaScript Worker, WebCrypto and D1 insert";
    return [row(what, rates.counterfoil, rates.script, { unit: "deliveries/s", aim: 1 })];
  } finally {
    await Promise.all([counterfoil.close(), script?.close()]);
    rmSync(folder, { recursive: true, force: true });
  }
}

async function signedEvents(counterfoil, count) {
  const tokens = [];
  const numbers = Array.from({ length: count }, (_, index) => index);
  await each(numbers, 20, async (number) => {
    const event = { type: "customer.meter_usage_updated", customer_id: `customer_${number % CUSTOMERS}`, deliver: 0 };
    tokens.push((await api(counterfoil, "POST", "/standin/events", event)).jwt);
  });
  return tokens;
}

/** The same with another signature. */
function forged(token) {
  return `${token.slice(0, token.lastIndexOf(".") + 1)}${"A".repeat(342)}`;
}

/** One round over a list whose every line is sent once; it ends where the list does. */
function sent(url, tokens, folder) {
  const list = join(folder, "tokens");
  writeFileSync(list, tokens.join("\n"));
  const lua = `
local lines, n = {}, 0
local count = 0
function setup(thread) thread:set("mine", count); count = count + 1 end
function init()
  for line in io.lines("${list}") do lines[#lines + 1] = line end
  n = mine - 1
end
request = function()
  n = n + 2
  if n > #lines then wrk.thread:stop() end
  return wrk.format("POST", nil, nil, lines[math.min(n, #lines)])
end`;
  return wrk(url, { lua });
}
