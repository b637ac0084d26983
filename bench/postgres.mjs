// PostgreSQL as a contender of the gate: a server of its own, only where one is installed.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ENV, Failed, output } from "../scripts/toolchain.mjs";

const CAP = 9_000_000_000_000;
const TABLE = "create table budget (id int primary key, used bigint, held bigint, cap bigint); "
  + `insert into budget values (1, 0, 0, ${CAP})`;
const ADMIT = "update budget set held = held + 1 where id = 1 and used + held + 1 <= cap;\n";
const SECONDS = "3";

/** A server that measures admissions by a conditional update of one row at 50 clients, over its
 * own socket, as durable as it is delivered; null where PostgreSQL is not installed. */
export async function startPostgres() {
  const bin = (await output("sh", ["-c", "ls -d /usr/lib/postgresql/*/bin | tail -n 1"]))?.trim();
  if (!bin) return null;
  const folder = mkdtempSync(join(tmpdir(), "counterfoil-pg-"));
  const [socket, data, script] = ["s", "data", "admit.sql"].map((name) => join(folder, name));
  writeFileSync(script, ADMIT);
  await output("sh", ["-c", `mkdir -p ${socket} && chmod -R 777 ${folder}`]);
  const psql = ["-h", socket, "-p", "54329", "-U", "postgres", "postgres"];
  const options = `-k ${socket} -p 54329 -c listen_addresses=''`;
  const contender = {
    async rate() {
      const args = ["-n", "-c", "50", "-j", "2", "-T", SECONDS, "-f", script, ...psql];
      const text = await asPostgres(`${bin}/pgbench`, ...args);
      const rate = Number(text.match(/tps = ([0-9.]+)/)?.[1]);
      if (!(rate > 0) || !/failed transactions: 0 /.test(text)) throw new Failed(`pgbench said:\n${text}`);
      return rate;
    },
    async close() {
      await asPostgres(`${bin}/pg_ctl`, "-D", data, "-m", "immediate", "stop");
      rmSync(folder, { recursive: true, force: true });
    },
  };
  await asPostgres(`${bin}/initdb`, "-U", "postgres", "-A", "trust", "-D", data);
  await asPostgres(`${bin}/pg_ctl`, "-D", data, "-w", "-l", join(folder, "log"), "-o", options, "start");
  await asPostgres(`${bin}/psql`, ...psql, "-c", TABLE);
  return contender;
}

/** PostgreSQL refuses to run as root. */
async function asPostgres(...words) {
  const isRoot = process.getuid?.() === 0;
  const [command, ...args] = isRoot ? ["runuser", "-u", "postgres", "--", ...words] : words;
  return await new Promise((resolve, reject) => {
    const child = spawn(command, args, { env: ENV, cwd: "/", stdio: ["ignore", "pipe", "pipe"] });
    let text = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (text += chunk));
    child.once("error", reject);
    child.once("close", (code) => {
      if (code === 0) resolve(text);
      else reject(new Failed(`${words.join(" ")} ended with ${code}:\n${text}`));
    });
  });
}
