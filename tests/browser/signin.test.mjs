// Signing in and out, and the overview after real work.

import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually, link, row, rows, said, tile, unique, visit } from "./visit.mjs";
import { shared } from "../e2e/harness.mjs";

const number = (text) => Number(text.replaceAll(",", ""));

test("a wrong token is told beside its field, and one click signs a developer in and out", () =>
  visit("/app/links?x=1", async (page) => {
    await page.waitForURL("**/signin?next=**");
    const token = page.getByLabel("Operator token or an account's API key");
    await token.fill("not-a-token");
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    const wrong = page.getByRole("alert").filter({ hasText: "neither the operator's token" });
    await wrong.waitFor();
    assert.equal(await token.getAttribute("aria-invalid"), "true");
    await page.getByRole("button", { name: "Sign in as the operator" }).click();
    await page.waitForURL("**/app/links?x=1");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.waitForURL("**/signin");
    await page.goto("/app");
    await page.waitForURL("**/signin?next=%2Fapp");
  }, { signedIn: false, answers: [401] }));

test("an API key opens its own account and nothing else", async () => {
  const server = await shared();
  const account = await server.account({ name: "Mine" });
  const other = await server.account();
  await visit("/signin", async (page) => {
    await page.getByLabel("Operator token or an account's API key").fill(account.key);
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    await page.waitForURL(`**/app/accounts/${account.id}`);
    const heading = await page.getByRole("heading", { level: 1 }).innerText();
    assert.equal(heading, `Account ${account.id}`);
    const entries = await page.getByRole("navigation", { name: "Pages" }).getByRole("link")
      .allInnerTexts();
    assert.deepEqual(entries, ["Account", "Links", "Jobs", "Events", "API"]);
    assert.equal(await page.getByRole("button", { name: "Revoke" }).count(), 0);
    await page.goto(`/app/accounts/${other.id}`);
    await page.getByText("There is nothing here.").waitFor();
    await page.goto("/app/reconcile");
    await page.getByText("This token may not use this route.").waitFor();
  }, { signedIn: false, answers: [403, 404] });
});

test("an account is made on the overview, its key shown once, and the numbers follow", () =>
  visit("/app", async (page, server) => {
    const before = { accounts: number(await tile(page, "accounts")), links: number(await tile(page, "links")) };
    const id = unique("made");
    await page.getByLabel("Id (made up where empty)").fill(id);
    await page.getByLabel("Name (optional)").fill("<b>Made</b> & more");
    await page.getByRole("button", { name: "Make it" }).click();
    const shown = page.locator("output").filter({ hasText: "shown this once" });
    await shown.waitFor();
    const key = (await shown.innerText()).match(/cfk_\S+/)[0];
    const listed = row(page, "Accounts", id);
    await listed.getByText("<b>Made</b> & more", { exact: true }).waitFor();

    const api = (method, path, body) => server.api(method, path, body, { token: key });
    const { code } = await link({ api }, { destination: "https://example.com/" });
    for (let click = 0; click < 3; click += 1) assert.equal((await server.click(code)).status, 302);
    await eventually(async () => {
      const { body } = await api("GET", "/v1/usage?feature=clicks");
      return body.total === 3;
    }, { what: "three clicks in the ledger" });

    await page.reload();
    assert.equal(number(await tile(page, "accounts")), before.accounts + 1);
    assert.equal(number(await tile(page, "links")), before.links + 1);
    const ledger = await rows(page, "Ledger");
    const clicks = ledger.find((one) => one.Feature === "clicks");
    assert.ok(number(clicks["Sum of all entries"]) >= 3, JSON.stringify(ledger));
    await page.getByRole("link", { name: id }).click();
    const { cycle } = (await server.api("GET", `/v1/accounts/${id}`)).body;
    const usage = [{ Feature: "clicks", Cycle: cycle.name, Total: "3" }];
    assert.deepEqual(await rows(page, "Usage"), usage);

    await page.getByLabel("Name", { exact: true }).fill("Renamed");
    await page.getByRole("button", { name: "Change" }).click();
    await said(page, "Changed.");
    await page.getByText("Renamed", { exact: true }).waitFor();
  }));

test("an id that is taken is told beside its field", async () => {
  const account = await (await shared()).account();
  await visit("/app", async (page) => {
    const id = page.getByLabel("Id (made up where empty)");
    await id.fill(account.id);
    await page.getByLabel("Name (optional)").fill("Another");
    await page.getByRole("button", { name: "Make it" }).click();
    await page.locator("label", { has: id }).getByRole("alert").waitFor();
    assert.equal(await id.getAttribute("aria-invalid"), "true");
  }, { answers: [409] });
});
