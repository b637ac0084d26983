// A person in front of the pages: real Chromium, the shared server, and nothing in the browser's
// console that was not expected.
//
//   test("a link is made", () => visit("/app/links?account=a", async (page, server) => {
//     await page.getByLabel("Leads to").fill("https://example.com/");
//     await page.getByRole("button", { name: "Make it" }).click();
//     await said(page, "The link is there.");
//   }));

import assert from "node:assert/strict";
import { after } from "node:test";
import { chromium as playwright } from "playwright-core";
import { chromium } from "../../scripts/chromium.mjs";
import { shared } from "../e2e/harness.mjs";

export { eventually, unique } from "../e2e/harness.mjs";

export const DESKTOP = { width: 1280, height: 900 };
export const PHONE = { width: 390, height: 844 };
const WITHIN_MS = 15_000;

let launched = null;
/** One browser for all visits; each has its own cookies. */
function browser() {
  launched ??= chromium().then((executablePath) => playwright.launch({ executablePath }));
  return launched;
}
after(async () => {
  if (launched !== null) await (await launched).close();
});

/** The cookies of an operator's session, by server. */
const sessions = new Map();
function session(server) {
  if (!sessions.has(server.url)) sessions.set(server.url, signIn(server));
  return sessions.get(server.url);
}

async function signIn(server) {
  const context = await (await browser()).newContext({ baseURL: server.url });
  const page = await context.newPage();
  await page.goto("/signin");
  await page.getByRole("button", { name: "Sign in as the operator" }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  const state = await context.storageState();
  await context.close();
  return state;
}

/** Opens `path` as the signed-in operator (`signedIn: false`: as nobody) and hands the page over.
 * `answers` are the statuses of 4xx that the visit means to get; `how` goes to the browser. */
export async function visit(path, work, {
  signedIn = true, answers = [], viewport = DESKTOP, server: given, ...how
} = {}) {
  const server = given ?? await shared();
  const storageState = signedIn ? await session(server) : undefined;
  const context = await (await browser()).newContext({
    baseURL: server.url, viewport, storageState, ...how,
  });
  try {
    const page = await context.newPage();
    page.setDefaultTimeout(WITHIN_MS);
    const complaints = listen(page, answers);
    await page.goto(path);
    await work(page, server);
    assert.deepEqual(complaints, [], "the browser complained");
  } finally {
    await context.close();
  }
}

/** What the console says: a script that failed, a policy that was broken, an answer not meant. */
function listen(page, answers) {
  const complaints = [];
  const meant = answers.map((status) => `the server responded with a status of ${status}`);
  page.on("console", (message) => {
    const text = message.text();
    const loud = ["error", "warning"].includes(message.type());
    if (loud && !meant.some((part) => text.includes(part))) complaints.push(text);
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("dialog", async (dialog) => {
    if (dialog.type() !== "confirm") complaints.push(`a dialog: ${dialog.message()}`);
    await dialog.accept();
  });
  return complaints;
}

/** Waits for the line that a page says after something was done. */
export async function said(page, text) {
  await page.locator("#done").getByText(text, { exact: true }).waitFor();
}

/** The rows of the table of that name: `{ head: text }` for each. */
export async function rows(page, name) {
  const table = page.getByRole("table", { name, exact: true });
  await table.first().waitFor();
  return table.first().locator("tbody tr").evaluateAll((all) => all.map((row) =>
    Object.fromEntries([...row.cells].map((cell) => [cell.dataset.of, cell.innerText.trim()]))));
}

/** The row of a table that holds a text. */
export function row(page, name, hasText) {
  return page.getByRole("table", { name, exact: true }).locator("tbody tr").filter({ hasText });
}

/** The tile with that label: its number, as it is shown. */
export async function tile(page, label) {
  return page.locator(".tile").filter({ hasText: label }).locator("b").first().innerText();
}

/** A link of the account, made over the API. */
export async function link(account, fields) {
  const made = await account.api("POST", "/v1/links", fields);
  assert.equal(made.status, 201, made.text);
  return made.body;
}
