// Mixed load against workerd with a SIGKILL now and then, and books of its own beside it.
//
// Clients work on as if nothing had happened: what they hear nothing of they ask again under the
// same key. At the end everything comes to rest and the books must balance: no limit was passed,
// every job's charges and every fact of usage are in the ledger once, no redirect is there twice,
// and the reconciler finds what the ledger says at the provider's meter.

import { BACKEND, BROWSER, own, unique } from "../e2e/server.mjs";

const ACCOUNTS = 8;
const CLIENTS = 24;
const LIMIT = 50_000;

/** Runs for so many seconds; gives what was seen, with `broken` empty where all is well. */
export async function mixed(seconds, killEverySeconds = 60) {
  const server = await own({ vars: { JOBS_PER_MINUTE: 1_000_000, SHARDS: 4 } });
  const seen = { jobs: 0, refused: 0, charges: 0, clicks: 0, usage: 0, kills: 0, retries: 0, broken: [] };
  try {
    const accounts = await found(server);
    const until = Date.now() + seconds * 1000;
    const clients = Array.from({ length: CLIENTS }, (_, number) =>
      client(server, accounts, number, until, seen));
    await Promise.all([...clients, killer(server, until, killEverySeconds, seen)]);
    await rest(server);
    for (const account of accounts) await audit(server, account, seen);
  } finally {
    await server.stop();
  }
  return seen;
}

async function found(server) {
  const accounts = [];
  for (let number = 0; number < ACCOUNTS; number += 1) {
    const customer = unique("customer");
    await server.api("PUT", `/standin/customers/${customer}`, { limits: { tokens: LIMIT } });
    const { id } = await server.account({ customer_id: customer });
    const code = unique("soak");
    const link = await server.api("POST", `/v1/links?account=${id}`, { code, destination: "https://example.com/" });
    if (link.status !== 201) throw new Error(`no link: ${link.status} ${link.text}`);
    accounts.push({ id, code, jobs: new Map(), usage: 0, answered: 0, unheard: 0 });
  }
  return accounts;
}

/** Asks until something other than 503 or silence is heard. */
async function persist(seen, ask) {
  for (let round = 0; ; round += 1) {
    const answer = await ask().catch(() => null);
    if (answer !== null && answer.status !== 503 && answer.status !== 500) return answer;
    seen.retries += 1;
    if (round > 600) throw new Error("the server does not come back");
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function client(server, accounts, number, until, seen) {
  for (let round = 0; Date.now() < until; round += 1) {
    const account = accounts[(number + round) % accounts.length];
    const kind = (number + round) % 3;
    if (kind === 0) await job(server, account, `job-${number}-${round}`, seen);
    if (kind === 1) await click(server, account, seen);
    if (kind === 2) await usage(server, account, `usage-${number}-${round}`, seen);
  }
}

async function job(server, account, key, seen) {
  const token = BACKEND;
  const post = (path, body) => persist(seen, () =>
    server.api("POST", `/v1/jobs${path}?account=${account.id}`, body, { token }));
  const admitted = await post("", { key, feature: "tokens", hold: 40, lease_seconds: 30 });
  if (admitted.status === 402) return void (seen.refused += 1);
  if (admitted.status !== 200 && admitted.status !== 201) {
    if (admitted.body?.code !== "job_over") seen.broken.push(`admit: ${admitted.status} ${admitted.text}`);
    return;
  }
  seen.jobs += 1;
  const { id } = admitted.body;
  const book = { charged: 0, settled: null };
  account.jobs.set(id, book);
  for (let step = 0; step < 3; step += 1) {
    const charge = await post(`/${id}/charges`, { units: 7, step: `step-${step}` });
    if (charge.status !== 200) return;
    book.charged += charge.body.charged;
    seen.charges += 1;
  }
  // A fifth of the workers die without a word; the sweeper settles for them.
  if (seen.jobs % 5 === 0) return;
  const settled = await post(`/${id}/settle`, { used: 30 });
  if (settled.status === 200) book.settled = settled.body.charged.tokens;
}

async function click(server, account, seen) {
  const heard = await server.request("GET", `/${account.code}`, { headers: { "user-agent": BROWSER } })
    .catch(() => null);
  if (heard?.status === 302) {
    account.answered += 1;
    seen.clicks += 1;
  } else {
    account.unheard += 1;
  }
}

async function usage(server, account, key, seen) {
  const body = { key, feature: "clicks", units: 3 };
  const answer = await persist(seen, () => server.api("POST", `/v1/usage?account=${account.id}`, body));
  if (answer.status !== 201 && answer.status !== 200) {
    seen.broken.push(`usage: ${answer.status} ${answer.text}`);
    return;
  }
  account.usage += 3;
  seen.usage += 1;
}

async function killer(server, until, everySeconds, seen) {
  while (Date.now() + everySeconds * 1000 < until) {
    await new Promise((resolve) => setTimeout(resolve, everySeconds * 1000));
    await server.kill();
    seen.kills += 1;
    await server.start();
  }
}

/** Leases run out, shards flush, crons run. */
async function rest(server) {
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  await server.api("PUT", "/standin/clock", { offset_ms: 120_000 });
  for (let round = 0; round < 6; round += 1) {
    await server.run("sweeper");
    await new Promise((resolve) => setTimeout(resolve, 1_500));
  }
  await server.run("reporter");
  for (let done = false; !done; ) ({ done } = await server.run("reconciler"));
}

async function audit(server, account, seen) {
  const read = async (path) => (await server.api("GET", `${path}${path.includes("?") ? "&" : "?"}account=${account.id}`)).body;
  const budget = await read("/v1/budget?feature=tokens");
  const expect = (what, fits) => fits || seen.broken.push(`${account.id}: ${what}`);
  expect(`used ${budget.used} and held ${budget.held} of ${LIMIT}`, budget.used <= LIMIT && budget.held === 0);
  const tokens = await read("/v1/usage?feature=tokens");
  expect(`the ledger has ${tokens.total} tokens, the budget ${budget.used}`, tokens.total === budget.used);
  let settled = 0;
  for (const book of account.jobs.values()) settled += book.settled ?? book.charged;
  // What a job that was never settled was charged may be more than was heard, never less.
  expect(`${budget.used} tokens used, at least ${settled} were heard`, budget.used >= settled);
  const clicks = await read("/v1/usage?feature=clicks");
  const recorded = clicks.gross - account.usage;
  expect(`${recorded} clicks of ${account.answered} redirects`, recorded <= account.answered + account.unheard);
  expect(`the usage is ${clicks.gross}, at least ${account.usage} was acknowledged`, recorded >= 0);
  const meters = await server.api("GET", `/v1/meters?account=${account.id}`);
  for (const meter of meters.body.items) {
    expect(`${meter.feature}: ledger ${meter.ledger}, provider ${meter.provider}`,
      meter.ledger === meter.provider + (meter.base ?? 0));
  }
}
