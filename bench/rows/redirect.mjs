// Redirect with every click recorded, against a Worker that answers a constant 302 and records
// nothing, in Rust and in JavaScript; and entries a second into the ledger, against one D1 upsert
// for each click.

import { buildCrate } from "../crate.mjs";
import { api, each, rounds, startCounterfoil, startScript, startWasm, wrk } from "../harness.mjs";

const LINKS = 10_000;
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
  try {
    await makeLinks(counterfoil);
    const rates = await rounds({
      counterfoil_hot: () => rate(counterfoil.url + "/bench-0"),
      rust: () => rate(rust.url),
      script: () => rate(script.url),
      counterfoil_spread: () => rate(counterfoil.url, SPREAD),
    });
    const row = (name, ours, theirs, aim) => ({
      row: name, ours: rates[ours], theirs: rates[theirs], ratio: rates[ours] / rates[theirs], aim,
      unit: "requests/s",
    });
    return [
      row("redirect, one hot link, every click recorded : constant 302 in Rust", "counterfoil_hot", "rust", 0.85),
      row("redirect, one hot link, every click recorded : constant 302 in JavaScript", "counterfoil_hot", "script", null),
      row("redirect, 10,000 links, every click recorded : constant 302 in Rust", "counterfoil_spread", "rust", 0.85),
    ];
  } finally {
    await Promise.all([counterfoil, rust, script].map((contender) => contender.close()));
  }
}

async function rate(url, lua) {
  const seen = await wrk(url, { lua });
  if (seen.errors > 0) throw new Error(`${url}: ${seen.errors} errors`);
  return seen.rate;
}

async function makeLinks(counterfoil) {
  await api(counterfoil, "POST", "/v1/accounts", { id: "bench", customer_id: "customer_bench" });
  const codes = Array.from({ length: LINKS }, (_, index) => `bench-${index}`);
  await each(codes, 20, (code) =>
    api(counterfoil, "POST", "/v1/links?account=bench", { code, destination: "https://example.com/" }));
}

/** Entries a second through shards into the ledger, until the last one is there. */
export async function entries() {
  const counterfoil = await startCounterfoil();
  const sql = ["create table clicks (code text, day text, total integer, primary key (code, day))"];
  const upsert = await startScript("upsert_per_click.js", { d1Databases: { DB: "clicks" }, sql });
  try {
    await api(counterfoil, "POST", "/v1/accounts", { id: "bench", customer_id: "customer_bench" });
    await api(counterfoil, "POST", "/v1/links?account=bench", { code: "bench-0", destination: "https://example.com/" });
    const ours = async () => (await api(counterfoil, "GET", "/v1/usage?account=bench&feature=clicks")).gross;
    const theirs = async () => (await (await fetch(upsert.url + "/total")).json()).total ?? 0;
    const rates = await rounds({
      counterfoil: () => recorded(counterfoil.url + "/bench-0", ours),
      upsert: () => recorded(upsert.url + "/bench-0", theirs),
    });
    const { counterfoil: mine, upsert: other } = rates;
    return [{ row: "entries through shards into the ledger : one D1 upsert per click", ours: mine,
      theirs: other, ratio: mine / other, aim: 10, unit: "entries/s" }];
  } finally {
    await Promise.all([counterfoil, upsert].map((contender) => contender.close()));
  }
}

/** From the first click until all are recorded, in entries a second. */
async function recorded(url, total) {
  const before = await total();
  const started = performance.now();
  const { requests } = await wrk(url);
  let last = before;
  let changed = performance.now();
  for (;;) {
    const now = await total();
    if (now !== last) [last, changed] = [now, performance.now()];
    if (now - before >= requests || performance.now() - changed > 10_000) break;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return ((last - before) * 1000) / (changed - started);
}
