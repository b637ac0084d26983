// Refreshes src/links/crawlers.tsv from the npm package `crawler-user-agents`:
//
//   node scripts/crawlers.mjs [VERSION]
//
// The package's patterns are regular expressions; the redirect's hot path wants none. Each is
// spelled out into the plain texts it stands for. A pattern that this cannot spell out ends the
// script with its name, so that a new version never changes a verdict unseen.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const PACKAGE = "crawler-user-agents";
const TARGET = join(dirname(fileURLToPath(import.meta.url)), "../src/links/crawlers.tsv");

/** Patterns with more than texts in them, and the texts that stand for them here: `then` must
 * follow somewhere behind `text`. */
const SPELLED = {
  "AdsBot-Google([^-]|$)": [{ text: "AdsBot-Google" }],
  "BlogTraffic\\/\\d\\.\\d+ Feed-Fetcher": [{ text: "BlogTraffic/", then: " Feed-Fetcher" }],
  "ContextualBot[\\s\\S]*outcomes\\.net": [{ text: "ContextualBot", then: "outcomes.net" }],
  "Current[\\s\\S]*RSS Reader": [{ text: "Current", then: "RSS Reader" }],
  "Spider[\\s\\S]*spider\\.com": [{ text: "Spider", then: "spider.com" }],
};

/** Names that the browser inside an app carries too, where a person clicks: they count as a
 * machine only without a browser's engine in the user agent. */
const APPS = [
  "Asana\\/", "Blackboard", "Bluesky\\/", "CapitalOneShopping", "Chirp|gotosocial", "Code\\/1\\.",
  "Daum\\/", "ExodusMovement", "Fluid", "GoPay", "Goodreads", "Grammarly\\/", "Grover\\/",
  "HubSpot", "Instapaper\\/", "Lemmy", "Make\\/", "MetaIAB Facebook", "NewsBlur", "Notion\\/",
  "Overcast\\/", "PayPal\\/", "PocketCasts\\/", "RED\\/", "Readable\\/", "Sogou", "Stripe\\/",
  "Trae\\/", "Trove", "Tumblr\\/", "Uptime\\/", "Viber", "WhatsApp", "^Silk\\/", "inoreader",
  "mail\\.ru", "upday\\/",
];

/** All texts that a pattern without repetition stands for: [{ start, text, end }]. */
function spell(pattern) {
  let at = 0;
  const cross = (some, others) =>
    some.flatMap((a) => others.map((b) => {
      if (b.start && a.text !== "") throw new Error(`a start inside: ${pattern}`);
      return { start: a.start || b.start, text: a.text + b.text, end: a.end || b.end };
    }));
  const word = (text) => [{ start: false, text, end: false }];
  function choice() {
    let all = [];
    for (;;) {
      all = all.concat(sequence());
      if (pattern[at] !== "|") return all;
      at += 1;
    }
  }
  function sequence() {
    let made = word("");
    while (at < pattern.length && pattern[at] !== "|" && pattern[at] !== ")") {
      made = cross(made, one());
    }
    return made;
  }
  function one() {
    const c = pattern[at++];
    if ("*+?{.".includes(c)) throw new Error(`not only text: ${pattern}`);
    if (c === "^") return [{ start: true, text: "", end: false }];
    if (c === "$") return [{ start: false, text: "", end: true }];
    if (c === "(") {
      const inner = choice();
      at += 1;
      return inner;
    }
    if (c === "[") {
      const close = pattern.indexOf("]", at);
      const letters = [...pattern.slice(at, close)];
      if (letters.some((l) => "^-\\".includes(l))) throw new Error(`not only text: ${pattern}`);
      at = close + 1;
      return letters.flatMap(word);
    }
    if (c !== "\\") return word(c);
    const escaped = pattern[at++];
    if (/[a-z0-9]/i.test(escaped)) throw new Error(`not only text: ${pattern}`);
    return word(escaped);
  }
  const made = choice();
  if (at !== pattern.length) throw new Error(`does not read: ${pattern}`);
  return made;
}

function lines(entries) {
  const seen = new Map();
  for (const entry of entries) {
    const kind = entry.tags?.includes("social-preview") ? "preview_crawler" : "bot";
    const app = APPS.includes(entry.pattern) ? "app" : "";
    for (const one of SPELLED[entry.pattern] ?? spell(entry.pattern)) {
      const { text, then = "", start = false, end = false } = one;
      if (Buffer.byteLength(text) < 3 || /[\t\n]/.test(text + then)) {
        throw new Error(`too short or with a tab: ${entry.pattern}`);
      }
      const where = [start && "start", end && "end", app].filter(Boolean).join("+") || "-";
      const row = [text, kind, where, then].join("\t").trimEnd();
      const before = seen.get(`${text}\t${where}\t${then}`);
      if (before === undefined || kind === "preview_crawler") {
        seen.set(`${text}\t${where}\t${then}`, row);
      }
    }
  }
  return [...seen.values()].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

const folder = mkdtempSync(join(tmpdir(), "crawlers-"));
try {
  const wanted = process.argv[2] ? `${PACKAGE}@${process.argv[2]}` : PACKAGE;
  const packed = execFileSync("npm", ["pack", "--silent", wanted], { cwd: folder }).toString();
  execFileSync("tar", ["xzf", packed.trim()], { cwd: folder });
  const read = (name) => JSON.parse(readFileSync(join(folder, "package", name), "utf8"));
  const entries = read("crawler-user-agents.json");
  const unknown = APPS.filter((app) => !entries.some((entry) => entry.pattern === app));
  if (unknown.length > 0) console.error(`no longer listed: ${unknown.join(" ")}`);
  const head = `${PACKAGE} ${read("package.json").version}`;
  const rows = lines(entries);
  writeFileSync(TARGET, `${[head, ...rows].join("\n")}\n`);
  console.log(`${head}: ${entries.length} patterns, ${rows.length} texts`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
