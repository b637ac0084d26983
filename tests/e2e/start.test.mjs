// `npm start` as a person types it: its arguments, its port, its crons, its end.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { eventually, freePort, shared } from "./harness.mjs";
import { ENV, NODE, ROOT } from "../../scripts/toolchain.mjs";

/** `node scripts/start.mjs …`, in a process group of its own. */
function start(...args) {
  const child = spawn(NODE, ["scripts/start.mjs", ...args], {
    cwd: ROOT, env: ENV, detached: true, stdio: ["ignore", "pipe", "pipe"],
  });
  const started = { child, log: "" };
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => started.log += chunk);
  }
  started.ended = new Promise((done) => child.once("close", (code) => done(code)));
  return started;
}

/** Every process of the group that is still there. */
function alive(child) {
  try {
    process.kill(-child.pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe("npm start", () => {
  test("says what is wrong with its arguments and ends", async () => {
    for (const [args, said] of [
      [["--port", "0"], "--port needs a number from 1 to 65535"],
      [["--port", "eighty"], "--port needs a number from 1 to 65535"],
      [["--port=65536"], "--port needs a number from 1 to 65535"],
      [["--persist-to"], "--persist-to needs a value"],
      [["--var", "SHARDS"], "--var needs NAME:VALUE, not SHARDS"],
    ]) {
      const started = start(...args);
      assert.equal(await started.ended, 2, started.log);
      assert.ok(started.log.includes(said), started.log);
    }
  });

  test("says at once that its port is in use", async () => {
    const blocker = createServer();
    await new Promise((done) => blocker.listen(0, "127.0.0.1", done));
    try {
      const { port } = blocker.address();
      const started = start("--port", `${port}`);
      assert.equal(await started.ended, 1, started.log);
      assert.ok(started.log.includes(`port ${port} is in use`), started.log);
      assert.ok(!started.log.includes("building"), "before anything is built");
    } finally {
      blocker.close();
    }
  });

  test("prints its address, ticks the crons, ends with Ctrl-C and goes on with its data", async () => {
    // By then the bundle is built, so that what follows is the start alone.
    await shared();
    const persist = mkdtempSync(join(tmpdir(), "counterfoil-start-"));
    const port = await freePort();
    const url = `http://localhost:${port}`;
    const authorization = "Bearer dev-operator";
    const ask = async (path, method = "GET", body) => {
      const answer = await fetch(url + path, { method, headers: { authorization }, body });
      return { status: answer.status, text: await answer.text() };
    };
    const args = ["--port", `${port}`, "--persist-to", persist, "--var", "JOBS_PER_MINUTE:7"];
    const started = start(...args);
    let again = null;
    try {
      await eventually(() => started.log.includes(`ready at ${url}`), { within: 90_000, what: started.log });
      const health = JSON.parse((await ask("/healthz")).text);
      assert.deepEqual([health.ok, health.provider], [true, "standin"]);
      assert.equal((await fetch(`http://127.0.0.1:${port}/healthz`)).status, 200);
      assert.equal((await ask("/v1/accounts", "POST", '{"id":"kept"}')).status, 201);
      // Both ways by which wrangler lets a cron be fired by hand.
      for (const path of ["/cdn-cgi/handler/scheduled", "/cdn-cgi/local/scheduled"]) {
        assert.equal((await ask(`${path}?cron=*+*+*+*+*`)).status, 200, path);
      }
      const ticks = () => started.log.split('"job":"sweeper"').length - 1;
      const byHand = ticks();
      assert.ok(byHand >= 2, started.log);
      await eventually(() => ticks() > byHand, { within: 90_000, what: "the minute's tick" });

      process.kill(-started.child.pid, "SIGINT");
      assert.equal(await started.ended, 0, started.log);
      await eventually(() => !alive(started.child), { what: "the end of every process" });
      assert.ok(started.log.includes("[counterfoil] ended"), started.log);

      again = start(...args, "--no-cron");
      await eventually(() => again.log.includes(`ready at ${url}`), { within: 90_000, what: again.log });
      assert.ok(again.log.includes("the crons are left to the caller"), again.log);
      assert.ok(!again.log.includes("applying the D1 migrations"), "they were applied before");
      assert.equal((await ask("/v1/accounts/kept")).status, 200);
      process.kill(again.child.pid, "SIGTERM");
      assert.equal(await again.ended, 0, again.log);
      await eventually(() => !alive(again.child), { what: "the end of every process" });
    } finally {
      for (const { child } of [started, again].filter(Boolean)) {
        if (alive(child)) process.kill(-child.pid, "SIGKILL");
      }
      rmSync(persist, { recursive: true, force: true });
    }
  });
});
