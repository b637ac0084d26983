// Random runs of the gate over HTTP: in each, 32 clients use one fresh account as they like, repeat
// what they sent, hang up before the answer, and ask the same again; the clock jumps over leases,
// and in some runs every process is killed in the middle and started again on the same data.
//
// At every look `used + held` is at most the limit. At the end nothing is held, the jobs, the
// budget, the ledger and the meter name the same number, and whatever a client was told is in it.

import { BACKEND, BROWSER, own, unique } from "../e2e/server.mjs";

const CLIENTS = 32;
const OPERATIONS = 8;
const LEASE_SECONDS = 20;
/** One run in so many is interrupted by a SIGKILL. */
const KILL_EVERY = 5;

/** Small and seedable; which numbers it gives is all that matters. */
function chance(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  return {
    below: (limit) => Math.floor(next() * limit),
    from: (list) => list[Math.floor(next() * list.length)],
    happens: (probability) => next() < probability,
  };
}

/** So many runs, from that seed on; gives counts, with `broken` empty where all is well. */
export async function runs(count, from = 1, progress = () => {}) {
  const server = await own({ vars: { JOBS_PER_MINUTE: 1_000_000, SHARDS: 4 } });
  const seen = { runs: 0, admitted: 0, refused: 0, charges: 0, settled: 0, over: 0, clicks: 0,
    hungUp: 0, looks: 0, kills: 0, jumps: 0, broken: [] };
  try {
    const clock = { offset: 0 };
    for (let seed = from; seed < from + count; seed += 1) {
      await run(server, seed, clock, seen);
      seen.runs += 1;
      progress(seen);
    }
    for (let done = false; !done; ) {
      const summary = await server.run("reconciler");
      ({ done } = summary);
      if (summary.drifted > 0) seen.broken.push(`the reconciler: ${JSON.stringify(summary)}`);
    }
  } finally {
    await server.stop();
  }
  return seen;
}

async function run(server, seed, clock, seen) {
  const dice = chance(seed);
  const customer = unique("customer");
  const limit = 200 + dice.below(2_000);
  await server.api("PUT", `/standin/customers/${customer}`, { limits: { tokens: limit } });
  const { id } = await server.account({ customer_id: customer });
  const code = unique("run");
  await server.api("POST", `/v1/links?account=${id}`, { code, destination: "https://example.com/" });
  const world = { server, id, code, limit, seed, seen, jobs: [], redirects: 0, unheard: 0, isOver: false };
  const clients = Array.from({ length: CLIENTS }, (_, number) =>
    client(world, chance(seed * 1_000 + number), number));
  const troubles = trouble(world, dice, clock);
  await Promise.all(clients);
  world.isOver = true;
  await troubles;
  await rest(world, clock);
  await audit(world);
}

/** Looks at the budget all the time, moves the clock, and kills. */
async function trouble(world, dice, clock) {
  const { server, seen, seed } = world;
  const killAt = seed % KILL_EVERY === 0 ? 2 + dice.below(4) : -1;
  for (let round = 0; !world.isOver; round += 1) {
    if (round === killAt) {
      await server.kill();
      seen.kills += 1;
      await server.start();
    } else if (dice.happens(0.2)) {
      await jump(server, clock, 1_000 + dice.below(LEASE_SECONDS * 1_500));
      seen.jumps += 1;
    }
    await look(world);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function jump(server, clock, ms) {
  clock.offset += ms;
  const { offset } = clock;
  await heard(() => server.api("PUT", "/standin/clock", { offset_ms: offset }));
}

async function look(world) {
  const target = `/v1/budget?feature=tokens&account=${world.id}`;
  const answer = await world.server.api("GET", target).catch(() => null);
  if (answer?.status !== 200) return null;
  const { used, held } = answer.body;
  world.seen.looks += 1;
  if (used + held > world.limit) broke(world, `used ${used} and held ${held} of ${world.limit}`);
  return answer.body;
}

function broke(world, what) {
  world.seen.broken.push(`seed ${world.seed}: ${what}`);
}

/** Asks until something other than silence or a 5xx is heard. */
async function heard(ask) {
  for (let round = 0; round < 600; round += 1) {
    const answer = await ask().catch(() => null);
    if (answer !== null && answer.status < 500) return answer;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("the server does not come back");
}

async function client(world, dice, number) {
  const mine = [];
  for (let turn = 0; turn < OPERATIONS; turn += 1) {
    const live = mine.filter((job) => !job.isOver);
    if (dice.happens(0.15)) await click(world);
    else if (live.length === 0 || dice.happens(0.2)) await admit(world, dice, mine, `${number}-${turn}`);
    else await use(world, dice, dice.from(live), `step-${turn}`);
  }
  // What is left is settled, or its worker dies.
  for (const job of mine.filter((one) => !one.isOver)) {
    if (dice.happens(0.7)) await settle(world, dice, job);
  }
}

/** Sends it; sometimes hangs up first, sometimes sends it twice at once. Then until it is heard. */
async function send(world, dice, path, body) {
  const target = `/v1/jobs${path}?account=${world.id}`;
  const once = () => world.server.api("POST", target, body, { token: BACKEND });
  if (dice.happens(0.2)) await hangUp(world, target, body, dice.below(30));
  if (dice.happens(0.1)) {
    const pair = await Promise.all([once().catch(() => null), once().catch(() => null)]);
    const told = pair.filter((answer) => answer !== null && answer.status < 300);
    if (told.length === 2 && told[0].body.id !== told[1].body.id) {
      broke(world, `one key, two jobs: ${told[0].text} ${told[1].text}`);
    }
  }
  return heard(once);
}

async function hangUp(world, target, body, afterMs) {
  world.seen.hungUp += 1;
  await fetch(world.server.url + target, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { authorization: `Bearer ${BACKEND}` },
    signal: AbortSignal.timeout(afterMs),
  }).then((answer) => answer.arrayBuffer()).catch(() => null);
}

async function admit(world, dice, mine, key) {
  const hold = 1 + dice.below(Math.floor(world.limit / 4));
  const answer = await send(world, dice, "",
    { key, feature: "tokens", hold, lease_seconds: LEASE_SECONDS });
  if (answer.status === 402) world.seen.refused += 1;
  else if (answer.status === 409 && answer.body.code === "job_over") world.seen.over += 1;
  else if (answer.status !== 200 && answer.status !== 201) broke(world, `admit: ${answer.text}`);
  else {
    world.seen.admitted += 1;
    const job = { id: answer.body.id, held: hold, charged: 0, isOver: false, final: null };
    mine.push(job);
    world.jobs.push(job);
  }
}

async function use(world, dice, job, step) {
  const kind = dice.below(10);
  const units = 1 + dice.below(40);
  if (kind === 0) return settle(world, dice, job);
  const [path, body] = kind < 3 ? ["renew", {}]
    : kind < 5 ? ["extend", { units, step }] : ["charges", { units, step }];
  const answer = await send(world, dice, `/${job.id}/${path}`, body);
  if (answer.status === 409 && answer.body.code === "job_over") job.isOver = true;
  else if (answer.status === 402) world.seen.refused += 1;
  else if (answer.status !== 200) broke(world, `${path}: ${answer.status} ${answer.text}`);
  else if (path === "charges") {
    world.seen.charges += 1;
    job.charged += answer.body.charged;
    if (answer.body.used > answer.body.held) broke(world, `charged past the hold: ${answer.text}`);
  }
  return undefined;
}

async function settle(world, dice, job) {
  const used = dice.below(job.held * 2);
  const answer = await send(world, dice, `/${job.id}/settle`, { used });
  job.isOver = true;
  if (answer.status === 200) {
    world.seen.settled += 1;
    job.final = answer.body.charged.tokens;
  } else if (answer.status !== 409) broke(world, `settle: ${answer.status} ${answer.text}`);
}

async function click(world) {
  const visit = world.server.request("GET", `/${world.code}`, { headers: { "user-agent": BROWSER } });
  const answer = await visit.catch(() => null);
  if (answer?.status === 302) {
    world.redirects += 1;
    world.seen.clicks += 1;
  } else world.unheard += 1;
}

/** Leases run out, feeds are sent, meters told. */
async function rest(world, clock) {
  const { server } = world;
  await jump(server, clock, LEASE_SECONDS * 2_000);
  for (let round = 0; round < 60; round += 1) {
    await server.run("sweeper");
    await server.run("reporter");
    const { body } = await server.api("GET", `/v1/meters?account=${world.id}`);
    const budget = await look(world);
    const tokens = body.items.find((meter) => meter.feature === "tokens");
    const isTold = body.items.every((meter) => !meter.marked);
    if (isTold && budget?.held === 0 && (tokens?.ledger ?? 0) === budget.used) return;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

async function audit(world) {
  const { server, id } = world;
  const read = async (path) => (await server.api("GET", `${path}account=${id}`)).body;
  const expect = (what, fits) => fits || broke(world, what);
  const { used, held } = await read("/v1/budget?feature=tokens&");
  expect(`${held} is still held`, held === 0);
  let [sum, after] = [0, ""];
  const stored = new Map();
  do {
    const page = await read(`/v1/jobs?limit=100${after}&`);
    for (const job of page.items) stored.set(job.id, job.holds.tokens.used);
    after = page.next === null ? "" : `&after=${page.next}`;
  } while (after !== "");
  for (const charged of stored.values()) sum += charged;
  expect(`the jobs were charged ${sum}, the budget says ${used}`, sum === used);
  for (const job of world.jobs) {
    const charged = stored.get(job.id);
    expect(`job ${job.id} is gone`, charged !== undefined);
    expect(`job ${job.id}: ${charged}, but its charges were ${job.charged}`, charged >= job.charged);
    expect(`job ${job.id}: ${charged}, but it was settled at ${job.final}`,
      job.final === null || charged === job.final);
  }
  const usage = await read("/v1/usage?feature=tokens&");
  expect(`the ledger has ${usage.total}, the budget ${used}`, usage.total === used);
  const clicks = await read("/v1/usage?feature=clicks&");
  expect(`${clicks.total} clicks of ${world.redirects} redirects`,
    clicks.total <= world.redirects + world.unheard);
  const { items } = await read("/v1/meters?");
  for (const meter of items) {
    // The last run's reconciler reads every meter back; here it is what was confirmed.
    expect(`${meter.feature}: ledger ${meter.ledger}, sent ${meter.sent}`,
      meter.ledger === meter.sent + meter.base);
  }
}
