// The Chromium that the browser tests drive. One that is installed is taken as it is; on a machine
// without one it is brought by apt-get, which needs root. The tests are never left out instead.

import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { Failed, isMain, main, output, run, say } from "./toolchain.mjs";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/** The path of a Chromium that starts, brought first where there is none. */
export async function chromium() {
  const named = process.env.CHROMIUM;
  if (named !== undefined) {
    if (await starts(named)) return named;
    throw new Failed(`CHROMIUM names ${named}, which does not start`);
  }
  const found = await installed();
  if (found !== null) return found;
  await install();
  const brought = await installed();
  if (brought !== null) return brought;
  throw new Failed("apt-get brought a chromium that does not start: name another in CHROMIUM");
}

async function installed() {
  const folders = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  for (const path of NAMES.flatMap((name) => folders.map((folder) => join(folder, name)))) {
    if (isExecutable(path) && await starts(path)) return path;
  }
  return null;
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** A package may be there whose program only says what else to install. */
async function starts(path) {
  return (await output(path, ["--version"])) !== null;
}

async function install() {
  const hasApt = (await output("apt-get", ["--version"])) !== null;
  if (!hasApt || process.getuid?.() !== 0) {
    const how = hasApt ? "run `apt-get install chromium` as root" : "install Chromium";
    throw new Failed(`the browser tests need Chromium: ${how}, or name one in CHROMIUM`);
  }
  say("installing Chromium for the browser tests (once; about a minute) …");
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  await run("apt-get", ["update"], { env, quiet: true });
  const only = ["--yes", "--no-install-recommends"];
  await run("apt-get", ["install", ...only, "chromium"], { env, quiet: true });
}

if (isMain(import.meta)) await main(async () => say(`Chromium: ${await chromium()}`));
