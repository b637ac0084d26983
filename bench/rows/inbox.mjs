// Deliveries stored a second, against a JavaScript Worker that verifies with WebCrypto and inserts
// into D1. Every delivery is a new event, signed by the stand-in; both sides get the same ones: what
// Kinde sends for every write of a meter, and plan changes of accounts, each of which reads the
// provider behind its answer.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  answers, api, each, reached, rounds, row, stands, startCounterfoil, startScript, wrk,
} from "../harness.mjs";

const ROUNDS = 5;
const CUSTOMERS = 500;
/** Of one round; more than it can send. */
const EVENTS = 8_000;
const DUE = "select count(*) as due from event where next_at_ms <= ?1";

/** Measures and gives the rows of the table. */
export async function inbox() {
  const stored = "deliveries verified and stored : JavaScript Worker, WebCrypto and D1 insert";
  const changes = "the same of plan changes, applied behind the answer";
  return [
    await deliveries(stored, "customer.meter_usage_updated", { accounts: 0, aim: 1 }),
    await deliveries(changes, "customer.plan_changed", { accounts: CUSTOMERS, aim: null }),
  ];
}

async function deliveries(what, type, { accounts, aim }) {
  const counterfoil = await startCounterfoil();
  const folder = mkdtempSync(join(tmpdir(), "counterfoil-events-"));
  let script;
  try {
    const numbers = Array.from({ length: accounts }, (_, index) => index);
    const account = (number) => ({ id: `account-${number}`, customer_id: `customer_${number}` });
    await each(numbers, 10, (number) => api(counterfoil, "POST", "/v1/accounts", account(number)));
    const tokens = await signedEvents(counterfoil, type, EVENTS * ROUNDS);
    const jwks = await (await fetch(`${counterfoil.url}/standin/.well-known/jwks`)).json();
    const sql = ["create table event (id text primary key, type text, body text)"];
    script = await startScript("store_webhook.js", { d1Databases: { DB: "events" }, bindings: { JWKS: jwks }, sql });
    const ours = `${counterfoil.url}/webhooks/kinde`;
    for (const url of [ours, script.url]) {
      await answers(url, 401, {}, { method: "POST", body: forged(tokens[0]) });
    }
    const events = await counterfoil.miniflare.getD1Database("DB");
    const due = () => events.prepare(DUE).bind(Date.now()).first("due");
    const sent = { counterfoil: [], script: [] };
    const deliver = async (side, url) => {
      const first = sent[side].length * EVENTS;
      const { requests, rate } = await send(url, tokens.slice(first, first + EVENTS), folder);
      sent[side].push(requests);
      // What is still to be applied must not slow the contender's round: cron takes up the rest.
      await reached("applied events", async () => {
        await api(counterfoil, "POST", "/v1/run/inbox");
        return -(await due());
      }, 0);
      return rate;
    };
    const rates = await rounds({
      counterfoil: () => deliver("counterfoil", ours),
      script: () => deliver("script", script.url),
    }, ROUNDS);
    const count = (db) => db.prepare("select count(*) as total from event").first("total");
    const sum = (side) => sent[side].reduce((all, one) => all + one, 0);
    stands("events", await count(events), sum("counterfoil"), ROUNDS);
    const inserted = await script.miniflare.getD1Database("DB");
    stands("inserted events", await count(inserted), sum("script"), ROUNDS);
    return row(what, rates.counterfoil, rates.script, { unit: "deliveries/s", aim });
  } finally {
    await Promise.all([counterfoil.close(), script?.close()]);
    rmSync(folder, { recursive: true, force: true });
  }
}

async function signedEvents(counterfoil, type, count) {
  const tokens = [];
  const numbers = Array.from({ length: count }, (_, index) => index);
  await each(numbers, 20, async (number) => {
    const event = { type, customer_id: `customer_${number % CUSTOMERS}`, deliver: 0 };
    tokens.push((await api(counterfoil, "POST", "/standin/events", event)).jwt);
  });
  return tokens;
}

/** The same with another signature. */
function forged(token) {
  return `${token.slice(0, token.lastIndexOf(".") + 1)}${"A".repeat(342)}`;
}

/** One round over a list whose every line is sent once; it ends where the list does. */
function send(url, tokens, folder) {
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
