// Redirect with every click recorded, against a Worker that answers a constant 302 and records
// nothing, in Rust and in JavaScript; and entries a second into the ledger, against one D1 upsert
// for each click.

import { buildCrate } from "../crate.mjs";
import {
  BROWSER, answers, api, each, reached, rounds, row, stands, startCounterfoil, startScript, startWasm, wrk,
} from "../harness.mjs";

const LINKS = 10_000;
/** Long enough that the wait of the last batch for its flush is small beside it. */
const ENTRIES_SECONDS = 8;
const TARGET = "https://example.com/";
const SPREAD = `
local n = 0
request = function()
  n = (n + 7919) % ${LINKS}
  return wrk.format("GET", "/bench-" .. n)
end`;

/** Measures and gives the rows of the table. */
export async function redirect() {
  const folder = await buildCrate("constant_302");
  const counterfoil = await startCounterfoil();
  const rust = await startWasm(folder);
  const script = await startScript("constant_302.js");
  const clicks = { before: 0, answered: 0, rounds: 0 };
  const visit = async (path, lua) => {
    const { requests, rate } = await wrk(counterfoil.url + path, { lua });
    clicks.answered += requests;
    clicks.rounds += 1;
    // What is still on its way to the ledger must not slow the contender's round.
    await reached("clicks", () => gross(counterfoil), clicks.before + clicks.answered);
    return rate;
  };
  const constant = async (contender) => (await wrk(contender.url)).rate;
  try {
    await makeAccount(counterfoil);
    await makeLinks(counterfoil, LINKS);
    for (const { url } of [counterfoil, rust, script]) {
      await answers(`${url}/bench-0`, 302, { location: TARGET, "cache-control": "private, no-store" });
    }
    // A link in use is one that this isolate has met.
    await visitEach(counterfoil, LINKS);
    await reached("the first clicks", () => gross(counterfoil), LINKS + 1);
    clicks.before = await gross(counterfoil);
    const rates = await rounds({
      hot: () => visit("/bench-0"),
      rust: () => constant(rust),
      spread: () => visit("", SPREAD),
      script: () => constant(script),
    });
    const recorded = (await gross(counterfoil)) - clicks.before;
    stands("clicks", recorded, clicks.answered, clicks.rounds);
    const [unit, aim] = ["requests/s", 0.85];
    return [
      row("redirect, one hot link, every click recorded : constant 302 in Rust", rates.hot, rates.rust, { unit, aim }),
      row("redirect, one hot link, every click recorded : constant 302 in JavaScript", rates.hot, rates.script, { unit }),
      row("redirect, 10,000 links in use, every click recorded : constant 302 in Rust", rates.spread, rates.rust, { unit, aim }),
    ];
  } finally {
    await Promise.all([counterfoil, rust, script].map((contender) => contender.close()));
  }
}

async function makeAccount(counterfoil) {
  await api(counterfoil, "POST", "/v1/accounts", { id: "bench", customer_id: "customer_bench" });
}

async function makeLinks(counterfoil, count) {
  const codes = Array.from({ length: count }, (_, index) => `bench-${index}`);
  await each(codes, 20, (code) =>
    api(counterfoil, "POST", "/v1/links?account=bench", { code, destination: TARGET }));
}

async function visitEach(counterfoil, count) {
  const codes = Array.from({ length: count }, (_, index) => `bench-${index}`);
  const headers = { "user-agent": BROWSER };
  await each(codes, 50, (code) => answers(`${counterfoil.url}/${code}`, 302, {}, { headers }));
}

/** All clicks in the ledger, whatever corrects them. */
async function gross(counterfoil) {
  return (await api(counterfoil, "GET", "/v1/usage?account=bench&feature=clicks")).gross;
}

/** Entries a second through shards into the ledger, until the last one is there. */
export async function entries() {
  const counterfoil = await startCounterfoil();
  const sql = ["create table clicks (code text, day text, total integer, primary key (code, day))"];
  const upsert = await startScript("upsert_per_click.js", { d1Databases: { DB: "clicks" }, sql });
  try {
    await makeAccount(counterfoil);
    await makeLinks(counterfoil, 1);
    for (const { url } of [counterfoil, upsert]) {
      await answers(`${url}/bench-0`, 302, { location: TARGET });
    }
    await reached("the first click", () => gross(counterfoil), 1);
    const total = async () => (await (await fetch(`${upsert.url}/total`)).json()).total ?? 0;
    const rates = await rounds({
      counterfoil: () => recorded("clicks", counterfoil, () => gross(counterfoil)),
      upsert: () => recorded("upserts", upsert, total),
    });
    const what = "entries through shards into the ledger : one D1 upsert per click";
    return [row(what, rates.counterfoil, rates.upsert, { unit: "entries/s", aim: 10 })];
  } finally {
    await Promise.all([counterfoil, upsert].map((contender) => contender.close()));
  }
}

/** From the first click until all that were answered are recorded, in entries a second. */
async function recorded(what, { url }, total) {
  const before = await total();
  const begun = performance.now();
  const { requests } = await wrk(`${url}/bench-0`, { seconds: ENTRIES_SECONDS });
  const ended = await reached(what, total, before + requests);
  stands(what, (await total()) - before, requests, 1);
  return (requests * 1000) / (ended - begun);
}
