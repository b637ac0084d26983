// What holds for every page: no complaint of the browser, nothing that scrolls sideways on a phone,
// names for whatever is read out, colours that can be read, a focus that can be seen.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { DESKTOP, PHONE, link, unique, visit } from "./visit.mjs";
import { shared } from "../e2e/harness.mjs";

let made = null;
/** An account that has something of everything. */
function full() {
  made ??= (async () => {
    const server = await shared();
    const customer_id = unique("customer");
    const account = await server.account({ customer_id, name: "A name of some length, Ltd" });
    const query = "utm_source=poster&utm_medium=print&utm_campaign=".padEnd(200, "x");
    await link(account, { destination: `https://example.com/a-long-address?${query}` });
    await account.api("POST", "/v1/jobs", { key: "k".repeat(200), feature: "tokens", hold: 9000 });
    await account.api("POST", "/v1/jobs", { key: "refused", feature: "tokens", hold: 9000 });
    await server.api("POST", "/standin/events", { type: "customer.payment_failed", customer_id });
    return account;
  })();
  return made;
}

const PAGES = {
  overview: () => "/app",
  "links of nobody yet": () => "/app/links",
  links: (id) => `/app/links?account=${id}`,
  "jobs of all": () => "/app/jobs",
  jobs: (id) => `/app/jobs?account=${id}`,
  reconcile: () => "/app/reconcile",
  "reconcile of one": (id) => `/app/reconcile?account=${id}`,
  lab: () => "/app/lab",
  "engine room": () => "/app/engine-room",
  account: (id) => `/app/accounts/${id}`,
  events: () => "/app/events",
  docs: () => "/docs",
};

/** The Lab and the Engine Room show something only after a run. */
async function runs(page) {
  const start = page.getByRole("button", { name: /^(Start them|Run the nine deliveries)$/ });
  if (await start.count() === 0) return;
  await start.click();
  await page.locator("table").waitFor();
}

/** Everything about the open page that a person who cannot see it, or not well, would miss. */
function faults() {
  const found = [];
  const seen = (node) => node.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  const all = (selector) => [...document.querySelectorAll(selector)];
  if (document.documentElement.lang !== "en") found.push("no language");
  if (all("h1").length !== 1) found.push(`${all("h1").length} main headings`);
  if (!document.title.endsWith("Counterfoil")) found.push(`the title ${document.title}`);
  for (const field of all("input:not([type=hidden]):not([hidden]), select, textarea")) {
    const named = field.labels.length > 0 || field.getAttribute("aria-label");
    if (!named) found.push(`a field without a label: ${field.outerHTML}`);
  }
  for (const one of all("button, a, summary")) {
    if (one.textContent.trim() === "" && !one.querySelector("img[alt]")) {
      found.push(`nothing to read on ${one.outerHTML}`);
    }
  }
  for (const image of all("img")) if (!image.alt) found.push(`no words for ${image.src}`);
  for (const table of all("table")) {
    if (!table.getAttribute("aria-label")) found.push("a table without a name");
    const heads = table.querySelectorAll("thead th[scope=col]");
    const cells = table.querySelectorAll("tbody tr:first-child td");
    if (heads.length !== cells.length) found.push(`${heads.length} heads over ${cells.length} cells`);
    for (const head of heads) if (head.textContent.trim() === "") found.push("a head without a word");
  }
  const ids = all("[id]").map((one) => one.id);
  for (const id of new Set(ids)) {
    if (ids.filter((other) => other === id).length > 1) found.push(`two of #${id}`);
  }
  const channel = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * channel(r / 255) + 0.7152 * channel(g / 255) + 0.0722 * channel(b / 255);
  const colour = (text) => text.match(/[\d.]+/g).map(Number);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const [r, g, b, alpha = 1] = colour(getComputedStyle(at).backgroundColor);
      if (alpha === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const worded = (node) => [...node.childNodes]
    .some((child) => child.nodeType === Node.TEXT_NODE && child.textContent.trim() !== "");
  for (const node of all("body *").filter((one) => worded(one) && seen(one) && !one.closest("svg"))) {
    const [a, b] = [light(colour(getComputedStyle(node).color)), light(ground(node))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.push(`${contrast.toFixed(1)}: ${node.textContent.trim().slice(0, 40)}`);
  }
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 0) found.push(`it scrolls sideways by ${wide}`);
  return found;
}

/** The policy lets nothing but our own style, script and pictures in. */
function onlyOurs(answer, name) {
  const policy = answer.headers()["content-security-policy"];
  assert.match(policy, /default-src 'none'; style-src 'self'; script-src 'self'/, name);
  assert.doesNotMatch(policy, /unsafe/, name);
}

/** Looks at the open page on a desktop, in dark mode and on a phone. */
async function look(page, name) {
  for (const [colorScheme, size] of [["light", DESKTOP], ["dark", DESKTOP], ["dark", PHONE], ["light", PHONE]]) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize(size);
    const found = await page.evaluate(faults);
    assert.deepEqual(found, [], `${name}, ${colorScheme}, ${size.width} pixels wide`);
  }
}

describe("every page can be used", () => {
  test("on a desktop and a phone, by day and night: named, legible, no wider than the screen", async () => {
    const { id } = await full();
    await visit("/app", async (page) => {
      for (const [name, path] of Object.entries(PAGES)) {
        await page.setViewportSize(DESKTOP);
        const answer = await page.goto(path(id));
        onlyOurs(answer, name);
        await runs(page);
        await look(page, name);
        const foreign = await page.evaluate(() => performance.getEntriesByType("resource")
          .map((one) => one.name).filter((from) => !from.startsWith(window.location.origin)));
        assert.deepEqual(foreign, [], `${name} loads what is not ours`);
      }
    });
    await visit("/signin", (page) => look(page, "signing in"), { signedIn: false });
  });

  test("on a phone each cell of a row says what it is", async () => {
    const { id } = await full();
    await visit(`/app/jobs?account=${id}`, async (page) => {
      const cell = page.getByRole("table", { name: "Budgets" }).locator("td[data-of=Free]");
      const label = await cell.evaluate((one) => getComputedStyle(one, "::before").content);
      assert.equal(label, '"Free"');
    }, { viewport: PHONE });
  });

  test("from the keyboard, the focus is seen wherever it goes and the first stop skips to the content", async () => {
    const { id } = await full();
    await visit(`/app/links?account=${id}`, async (page) => {
      await page.keyboard.press("Tab");
      assert.equal(await page.locator(":focus").innerText(), "Skip to content");
      const box = await page.locator(":focus").boundingBox();
      assert.ok(box.x >= 0 && box.y >= 0, JSON.stringify(box));
      await page.keyboard.press("Enter");
      assert.equal(await page.evaluate(() => document.activeElement.id), "main");
      const stops = new Set();
      for (let stop = 0; stop < 40; stop += 1) {
        await page.keyboard.press("Tab");
        const { name, seen } = await page.evaluate(() => {
          const at = document.activeElement;
          const { outlineStyle, outlineWidth } = getComputedStyle(at);
          const name = at === document.body ? "" : `${at.tagName} ${at.name ?? ""} ${at.textContent}`;
          return { name, seen: outlineStyle !== "none" && parseFloat(outlineWidth) >= 2 };
        });
        if (name === "") break;
        assert.ok(seen, `the focus on ${name} is not seen`);
        stops.add(name);
      }
      const reached = [...stops].join("\n");
      for (const part of ["destination", "expires_at", "Make it", "Switch off"]) {
        assert.ok(reached.includes(part), `${part} is not among\n${reached}`);
      }
    });
  });

  test("without script everything is there to read, and the Lab runs", async () => {
    const { id } = await full();
    await visit(`/app/accounts/${id}`, async (page) => {
      await page.getByText("A name of some length, Ltd").first().waitFor();
      await page.goto("/app/lab");
      await runs(page);
      await page.getByText("within the plan").waitFor();
    }, { javaScriptEnabled: false });
  });

  test("a page that is not there says so and leads on", () =>
    visit("/app/accounts/nobody-at-all", async (page) => {
      await page.getByText("There is nothing here.").waitFor();
      await page.getByRole("link", { name: "Overview" }).last().click();
      await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    }, { answers: [404] }));
});
