// `npm start`: sets up, builds, applies the D1 migrations to the local databases, serves with the
// stand-in provider and ticks the crons, which `wrangler dev` never does.
//
//   npm start -- [--port 8787] [--persist-to DIR] [--var NAME:VALUE]… [--no-cron]
//
// `--end-with-stdin` is for programs that start this one: it ends when their pipe closes.
// Anything else is handed to `wrangler dev` as it is. Every process stays in this one's process
// group, and the data stays in the persist folder: the next start goes on with it.

import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { resolve } from "node:path";
import { RELEASE, buildWorker } from "./build.mjs";
import { migrate } from "./migrate.mjs";
import { setUp } from "./setup.mjs";
import { ENV, Failed, ROOT, main, say, wranglerCommand } from "./toolchain.mjs";

const DEFAULT_PORT = 8787;
const DEFAULT_PERSIST = ".wrangler/state";
/** The path by which the pinned wrangler lets a cron be fired by hand. */
const CRON_PATH = "/cdn-cgi/local/scheduled?cron=*+*+*+*+*";
const MINUTE_MS = 60_000;
const READY_WITHIN_MS = 60_000;
/** A worker that is asked to end has this long before it is killed. */
const END_WITHIN_MS = 8_000;

await main(async () => {
  const options = readArguments(process.argv.slice(2));
  await requireFreePort(options.port);
  await setUp();
  await buildWorker(RELEASE);
  await migrate(options.persist);
  await serve(options);
});

function readArguments(args) {
  const options = { port: DEFAULT_PORT, persist: DEFAULT_PERSIST, vars: [], cron: true, rest: [] };
  const take = (name) => {
    const value = args.shift();
    if (value === undefined) throw new Failed(`${name} needs a value`, 2);
    return value;
  };
  while (args.length > 0) {
    const [name, ...inline] = args.shift().split(/(?<=^--[a-z-]+)=/);
    if (inline.length > 0) args.unshift(inline.join("="));
    if (name === "--port") options.port = Number(take(name));
    else if (name === "--persist-to") options.persist = take(name);
    else if (name === "--var") options.vars.push(take(name));
    else if (name === "--no-cron") options.cron = false;
    else if (name === "--end-with-stdin") options.endWithStdin = true;
    else options.rest.push(name, ...(inline.length > 0 ? [args.shift()] : []));
  }
  if (!Number.isInteger(options.port) || options.port < 1 || options.port > 65_535) {
    throw new Failed("--port needs a number from 1 to 65535", 2);
  }
  const badVar = options.vars.find((setting) => !/^[A-Za-z_]\w*:/.test(setting));
  if (badVar !== undefined) throw new Failed(`--var needs NAME:VALUE, not ${badVar}`, 2);
  options.persist = resolve(process.env.INIT_CWD ?? ROOT, options.persist);
  return options;
}

/** Says so at once, instead of after the build, when something else has the port. */
async function requireFreePort(port) {
  for (const host of ["127.0.0.1", "::1"]) {
    const code = await new Promise((done) => {
      const probe = createServer();
      probe.once("error", (error) => done(error.code));
      probe.listen({ port, host, exclusive: true }, () => probe.close(() => done(null)));
    });
    if (code === "EADDRINUSE") {
      throw new Failed(`port ${port} is in use: end what has it, or choose another: `
        + "npm start -- --port 9000");
    }
  }
}

/** Runs `wrangler dev` until it ends or this process is told to. */
async function serve({ port, persist, vars, cron, endWithStdin, rest }) {
  const address = `http://localhost:${port}`;
  const named = new Set(vars.map((setting) => setting.split(":", 1)[0]));
  const settings = ["PROVIDER:standin", "DEV:1", `PUBLIC_URL:${address}`]
    .filter((setting) => !named.has(setting.split(":", 1)[0]))
    .concat(vars)
    .flatMap((setting) => ["--var", setting]);
  const fixed = ["--port", `${port}`, "--inspector-port", "0", "--persist-to", persist];
  // The settings come last: wrangler's --var takes every word that follows it.
  const [command, args] = wranglerCommand(["dev", ...rest, ...fixed, ...settings]);
  say("starting the Worker …");
  // No standard input: wrangler would take it for a terminal with hot keys.
  const stdio = ["ignore", "inherit", "inherit"];
  const child = spawn(command, args, { cwd: ROOT, env: ENV, stdio });
  const ended = new Promise((done) => child.once("exit", (code, signal) => done({ code, signal })));

  let told = false;
  const end = () => {
    if (told) return;
    told = true;
    child.kill("SIGTERM");
    setTimeout(() => child.kill("SIGKILL"), END_WITHIN_MS).unref();
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, end);
  if (endWithStdin) process.stdin.on("end", end).resume();

  const ready = await Promise.race([answers(address), ended.then(() => "ended")]);
  if (ready === true && !told) {
    const crons = cron ? "the crons tick every minute" : "the crons are left to the caller";
    say(`ready at ${address} (${crons}; Ctrl-C ends it)`);
    if (cron) tickEveryMinute(address);
  } else if (!told && ready === false) {
    end();
    await ended;
    throw new Failed(`${address}/healthz did not answer within ${READY_WITHIN_MS / 1000} s`);
  }
  const { code, signal } = await ended;
  if (told) {
    say("ended");
    process.exit(0);
  }
  throw new Failed(`wrangler dev ended by itself (${signal ?? code})`, code || 1);
}

/** True once /healthz answers 200, false when it did not in time. */
async function answers(address) {
  const until = Date.now() + READY_WITHIN_MS;
  while (Date.now() < until) {
    const answer = await fetch(`${address}/healthz`, { signal: AbortSignal.timeout(2_000) })
      .catch(() => null);
    await answer?.arrayBuffer().catch(() => null);
    if (answer?.status === 200) return true;
    await new Promise((done) => setTimeout(done, 200));
  }
  return false;
}

/** Fires the cron at each full minute; a tick that still runs is not fired again over itself. */
function tickEveryMinute(address) {
  const next = () => setTimeout(tick, MINUTE_MS - (Date.now() % MINUTE_MS)).unref();
  const tick = async () => {
    const answer = await fetch(address + CRON_PATH).catch((error) => error);
    const text = answer instanceof Error ? answer.message : await answer.text().catch(() => "");
    if (answer.status !== 200) say(`the cron's tick failed: ${answer.status ?? ""} ${text}`);
    next();
  };
  next();
}
