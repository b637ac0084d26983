// What every script needs to know of the toolchain: where things are, how a command is run, and
// the environment that keeps wrangler quiet. Plain Node with no package, because it runs before
// `npm ci` has brought any.

import { spawn } from "node:child_process";
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");
export const WASM_TARGET = "wasm32-unknown-unknown";
export const WORKER_BUILD_VERSION = "0.8.7";
export const CARGO_FUZZ_VERSION = "0.13.2";

const NODE_BIN = join(ROOT, "node_modules", ".bin");
const CARGO_BIN = join(process.env.CARGO_HOME ?? join(homedir(), ".cargo"), "bin");

/** The environment of every child: the project's Node and cargo's tools come first, and wrangler
 * neither asks questions nor waits for a network that may not be there. */
export const ENV = {
  ...process.env,
  PATH: [NODE_BIN, CARGO_BIN, process.env.PATH ?? ""].join(delimiter),
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  WRANGLER_SEND_METRICS: "false",
  CI: "1",
};

/** The Node 22 that npm brought; wrangler does not run on an older one. */
export const NODE = join(NODE_BIN, "node");

/** The file behind an npm package's command, for tools that are not looked up on PATH. */
export function npmBinary(name) {
  return join(NODE_BIN, name);
}

/** How wrangler is started: `node wrangler.js …`, with no launcher in between that would have to
 * hand on signals. */
export function wranglerCommand(args) {
  return [NODE, ["--no-warnings", join(ROOT, "node_modules/wrangler/bin/wrangler.js"), ...args]];
}

/** One line about what is being done, so that minutes of work are not silence. */
export function say(line) {
  console.log(`[counterfoil] ${line}`);
}

/** Ends the script with a message instead of a stack trace. */
export class Failed extends Error {
  constructor(message, status = 1) {
    super(message);
    this.status = status;
  }
}

/** Runs a command with its output shown and returns that output; fails when the command fails.
 * With `quiet` the output is shown only then. */
export async function run(command, args, { env = ENV, quiet = false } = {}) {
  const { status, text } = await capture(command, args, env, !quiet);
  if (status === 0) return text;
  if (quiet) process.stderr.write(text);
  throw new Failed(`${[command, ...args].join(" ")} ended with ${status}`, status);
}

/** A command's output, or null when the command is not there or fails. */
export async function output(command, args) {
  const { status, text } = await capture(command, args, ENV, false);
  return status === 0 ? text : null;
}

/** Runs a command in another folder, silently; gives its status and what it printed. */
export function captureIn(folder, command, args) {
  return capture(command, args, ENV, false, folder);
}

function capture(command, args, env, shown, cwd = ROOT) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
    let text = "";
    const take = (from, to) => from.on("data", (chunk) => {
      text += chunk;
      if (shown) to.write(chunk);
    });
    take(child.stdout, process.stdout);
    take(child.stderr, process.stderr);
    child.once("error", (error) => resolve({ status: 127, text: error.message }));
    child.once("close", (code) => resolve({ status: code ?? 1, text }));
  });
}

/** The version that Cargo.lock names for a crate. */
export function lockedVersion(crate) {
  const lock = readFileSync(join(ROOT, "Cargo.lock"), "utf8");
  const found = lock.match(new RegExp(`name = "${crate}"\nversion = "([^"]+)"`));
  if (!found) throw new Failed(`Cargo.lock does not name ${crate}`);
  return found[1];
}

/** The parsed JSON of a file, or null when it is not there or does not parse. */
export function readJson(path) {
  try {
    return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : null;
  } catch {
    return null;
  }
}

/** Runs a script's main function and turns a failure into its exit status. */
export async function main(work) {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof Failed)) throw error;
    console.error(`[counterfoil] ${error.message}`);
    process.exit(error.status);
  }
}

/** Whether this module is the one that node was started with. */
export function isMain(meta) {
  const started = process.argv[1];
  // What a test runner was started with may be a pattern and no file.
  const isFile = started !== undefined && existsSync(started);
  return isFile && fileURLToPath(meta.url) === realpathSync(started);
}
