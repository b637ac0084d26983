// One server of a test or of the soak: `wrangler dev` with everything under it, its databases, and
// the ways to ask it, kill it and start it again. Knows no test runner; `harness.mjs` does.

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { cpSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PREBUILT, RELEASE, buildWorker } from "../../scripts/build.mjs";
import { migrate } from "../../scripts/migrate.mjs";
import { setUp } from "../../scripts/setup.mjs";
import { ENV, NODE, ROOT, wranglerCommand } from "../../scripts/toolchain.mjs";

export const OPERATOR = "dev-operator";
export const BACKEND = "dev-backend";
/** A user agent that no rule takes for a machine. */
export const BROWSER = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 "
  + "(KHTML, like Gecko) Chrome/149.0 Safari/537.36";

const READY_WITHIN_MS = 90_000;
const END_WITHIN_MS = 15_000;
const CRON_PATH = "/cdn-cgi/local/scheduled?cron=*+*+*+*+*";

const running = new Set();
const folders = new Set();
process.on("exit", () => {
  running.forEach((server) => server.signal("SIGKILL"));
  folders.forEach((folder) => rmSync(folder, { recursive: true, force: true }));
});
// Without a listener a signal would end the process past its `exit` listeners.
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(name, () => process.exit(1));

function newFolder() {
  const folder = mkdtempSync(join(tmpdir(), "counterfoil-e2e-"));
  folders.add(folder);
  return folder;
}

let prepared = null;
/** Builds the bundle and migrates databases once for the whole run; every new server begins with a
 * copy of that folder. */
function prepareOnce() {
  prepared ??= (async () => {
    await setUp();
    await buildWorker(RELEASE);
    const folder = newFolder();
    await migrate(folder);
    return folder;
  })();
  return prepared;
}

/** A server of the test's own, with its own databases. `vars` are settings (`{ SHARDS: 4 }`),
 * `args` are handed to `wrangler dev`; `shipped: true` starts the deployed configuration as it
 * is, without `DEV` and the stand-in; `persist` goes on with another server's folder. */
export async function own({ vars = {}, args = [], shipped = false, persist } = {}) {
  const template = await prepareOnce();
  const server = new Server({ vars, args, shipped, persist: persist ?? newFolder() });
  if (persist === undefined) cpSync(template, server.persist, { recursive: true });
  await server.start();
  return server;
}

/** A name that no other test uses. */
export function unique(prefix) {
  return `${prefix}-${randomBytes(5).toString("hex")}`;
}

/** Asks again until `look` returns something true, and returns it; for what happens after an
 * answer, such as the writing of a click. */
export async function eventually(look, { within = 10_000, what = "it" } = {}) {
  const until = Date.now() + within;
  for (;;) {
    const seen = await look();
    if (seen) return seen;
    if (Date.now() > until) throw new Error(`${what} did not come about within ${within} ms`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

/** One `wrangler dev` with everything under it, in a process group of its own. */
export class Server {
  constructor({ vars, args, shipped, persist }) {
    this.options = { vars, args, shipped };
    this.persist = persist;
    this.port = null;
    this.log = "";
  }

  get url() {
    return `http://localhost:${this.port}`;
  }

  /** Starts, or starts again on the same port and data, and waits until it answers. */
  async start() {
    this.port ??= await freePort();
    const [command, args] = this.command();
    const env = { ...ENV, [PREBUILT]: "1" };
    const stdio = ["pipe", "pipe", "pipe"];
    this.child = spawn(command, args, { cwd: ROOT, env, stdio, detached: true });
    running.add(this);
    const from = this.log.length;
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.on("data", (chunk) => {
        this.log += chunk;
        if (process.env.E2E_LOG) process.stderr.write(chunk);
      });
    }
    this.ended = new Promise((done) => this.child.once("exit", () => done("ended")));
    // wrangler's own line names our port only once it is this process that listens on it, so an
    // older server that is still there cannot be met.
    const answers = async () => this.log.slice(from).includes(`Ready on ${this.url}`)
      && (await fetch(`${this.url}/healthz`).catch(() => null))?.status === 200;
    const ready = eventually(answers, { within: READY_WITHIN_MS, what: "the server's start" });
    const first = await Promise.race([ready, this.ended]).catch((error) => error);
    if (first === true) return;
    await this.kill();
    throw new Error(`the server did not start: ${first}\n${this.log.slice(from)}`);
  }

  command() {
    const { vars, args, shipped } = this.options;
    const settings = Object.entries(vars).flatMap(([name, value]) => ["--var", `${name}:${value}`]);
    const common = [...args, "--port", `${this.port}`, "--persist-to", this.persist, ...settings];
    if (shipped) return wranglerCommand(["dev", "--inspector-port", "0", ...common]);
    return [NODE, ["scripts/start.mjs", "--no-cron", "--end-with-stdin", ...common]];
  }

  /** Sends a signal to every process of this server. */
  signal(name) {
    try {
      process.kill(-this.child.pid, name);
    } catch (error) {
      if (error.code !== "ESRCH") throw error;
    }
  }

  /** Kills everything at once, as a power cut would; `start()` goes on with what was stored. */
  async kill() {
    this.signal("SIGKILL");
    await this.ended;
    await eventually(() => !this.alive(), { within: END_WITHIN_MS, what: "the server's end" });
    running.delete(this);
  }

  /** Ends it as Ctrl-C does and removes its data; `kill()` keeps them. */
  async stop() {
    this.signal("SIGTERM");
    const late = setTimeout(() => this.signal("SIGKILL"), END_WITHIN_MS);
    await this.ended;
    clearTimeout(late);
    await this.kill();
    rmSync(this.persist, { recursive: true, force: true });
  }

  /** Whether any process of the group is still there. */
  alive() {
    try {
      process.kill(-this.child.pid, 0);
      return true;
    } catch {
      return false;
    }
  }

  /** A plain request. Redirects are not followed. The answer's body is read: `text`, and `body`
   * where that is JSON. */
  async request(method, path, { headers = {}, body } = {}) {
    const answer = await fetch(this.url + path, { method, headers, body, redirect: "manual" });
    const text = await answer.text();
    let parsed = null;
    try {
      parsed = JSON.parse(text);
    } catch {
      // Not JSON: `text` has it.
    }
    return { status: answer.status, headers: answer.headers, text, body: parsed };
  }

  /** An API request with a token; a body that is a string or bytes is sent as it is, anything
   * else as JSON. `token: null` sends none. */
  async api(method, path, body, { token = OPERATOR, headers = {} } = {}) {
    const raw = body === undefined || typeof body === "string" || body instanceof Uint8Array;
    const authorization = token === null ? {} : { authorization: `Bearer ${token}` };
    return this.request(method, path, {
      headers: { ...authorization, ...headers },
      body: raw ? body : JSON.stringify(body),
    });
  }

  /** A fresh account: `{ id, key, api(method, path, body) }` with its own API key. */
  async account(fields = {}) {
    const id = fields.id ?? unique("acct");
    const made = await this.api("POST", "/v1/accounts", { id, ...fields });
    if (made.status !== 201) throw new Error(`no account: ${made.status} ${made.text}`);
    const token = made.body.api_key;
    const api = (method, path, body, options = {}) =>
      this.api(method, path, body, { token, ...options });
    return { ...made.body, key: token, api };
  }

  /** One job of the crons, as `POST /v1/run/{name}` does it; its summary. */
  async run(name, body = {}) {
    const answer = await this.api("POST", `/v1/run/${name}`, body);
    if (answer.status !== 200) throw new Error(`run ${name}: ${answer.status} ${answer.text}`);
    return answer.body;
  }

  /** One tick of the cron, as the platform fires it. */
  async tick() {
    const answer = await this.request("GET", CRON_PATH);
    if (answer.status !== 200) throw new Error(`cron: ${answer.status} ${answer.text}`);
  }

  /** A visit of a short link by a browser. */
  async click(code, headers = {}) {
    return this.request("GET", `/${code}`, { headers: { "user-agent": BROWSER, ...headers } });
  }
}

/** The SQLite files of all objects of a class. */
export function storages(server, className) {
  const folder = join(server.persist, "v3", "do", `counterfoil-${className}`);
  return readdirSync(folder)
    .filter((name) => name.endsWith(".sqlite") && name !== "metadata.sqlite")
    .map((name) => join(folder, name));
}

/** A port of localhost that nobody uses. */
export function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}
