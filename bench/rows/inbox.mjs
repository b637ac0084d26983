// Deliveries stored a second, against a JavaScript Worker that verifies with WebCrypto and inserts
// into D1. Every delivery is a new event, signed by the stand-in; both sides get the same ones.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { api, each, rounds, startCounterfoil, startScript, wrk } from "../harness.mjs";

const EVENTS = 12_000;

/** Measures and gives the row of the table. */
export async function inbox() {
  const counterfoil = await startCounterfoil();
  const folder = mkdtempSync(join(tmpdir(), "counterfoil-events-"));
  let script;
  try {
    const tokens = await signedEvents(counterfoil);
    const jwks = await (await fetch(counterfoil.url + "/standin/.well-known/jwks")).json();
    const sql = ["create table event (id text primary key, type text, body text)"];
    script = await startScript("store_webhook.js", { d1Databases: { DB: "events" }, bindings: { JWKS: jwks }, sql });
    // Each round sends its own third of the events, so that none is a copy.
    const share = Math.floor(EVENTS / 3);
    const used = { counterfoil: 0, script: 0 };
    const deliver = async (name, url) => {
      const part = tokens.slice(used[name] * share, (used[name] + 1) * share);
      used[name] += 1;
      return stored(url, part, folder);
    };
    const rates = await rounds({
      counterfoil: () => deliver("counterfoil", counterfoil.url + "/webhooks/kinde"),
      script: () => deliver("script", script.url + "/"),
    });
    return [{ row: "deliveries verified and stored : JavaScript Worker, WebCrypto and D1 insert",
      ours: rates.counterfoil, theirs: rates.script, ratio: rates.counterfoil / rates.script, aim: 1,
      unit: "deliveries/s" }];
  } finally {
    await Promise.all([counterfoil.close(), script?.close()]);
    rmSync(folder, { recursive: true, force: true });
  }
}

async function signedEvents(counterfoil) {
  const tokens = [];
  const numbers = Array.from({ length: EVENTS }, (_, index) => index);
  await each(numbers, 20, async (number) => {
    const event = { type: "customer.meter_usage_updated", customer_id: `customer_${number % 500}`, deliver: 0 };
    tokens.push((await api(counterfoil, "POST", "/standin/events", event)).jwt);
  });
  return tokens;
}

/** Deliveries a second for a list that is sent once, by as many connections as for every row. */
async function stored(url, tokens, folder) {
  const list = join(folder, "tokens");
  writeFileSync(list, tokens.join("\n"));
  // Two threads, each every other line; the list is longer than what one round can send.
  const lua = `
local lines, n, step = {}, 0, 2
local count = 0
function setup(thread) thread:set("mine", count); count = count + 1 end
function init()
  for line in io.lines("${list}") do lines[#lines + 1] = line end
  n = mine
end
request = function()
  n = n + step
  return wrk.format("POST", nil, nil, lines[(n % #lines) + 1])
end`;
  const seen = await wrk(url, { lua, seconds: 3 });
  if (seen.errors > 0) throw new Error(`${url}: ${seen.errors} errors`);
  return seen.rate;
}
