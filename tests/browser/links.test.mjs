// The page of links: making one, its QR code as a camera reads it, its clicks by day, its switch.

import assert from "node:assert/strict";
import { test } from "node:test";
import jsqr from "jsqr";
import { eventually, link, row, rows, said, unique, visit } from "./visit.mjs";
import { shared } from "../e2e/harness.mjs";

/** What a camera in front of the picture reads. */
async function scanned(picture) {
  await picture.scrollIntoViewIfNeeded();
  const side = 240;
  const pixels = await picture.evaluate(async (image, size) => {
    image.loading = "eager";
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = size;
    canvas.height = size;
    const pen = canvas.getContext("2d");
    pen.fillStyle = "white";
    pen.fillRect(0, 0, size, size);
    pen.drawImage(image, 0, 0, size, size);
    return [...pen.getImageData(0, 0, size, size).data];
  }, side);
  return (jsqr.default ?? jsqr)(Uint8ClampedArray.from(pixels), side, side)?.data;
}

async function withAccount(work, options) {
  const account = await (await shared()).account();
  const path = `/app/links?account=${account.id}`;
  await visit(path, (page, server) => work({ page, server, account, path }), options);
}

test("a link is made, listed with its QR code, and its clicks are counted by day", () =>
  withAccount(async ({ page, server, account, path }) => {
    await page.getByText("No link is here yet.").waitFor();
    const code = unique("spring");
    await page.getByLabel("Leads to").fill("https://example.com/offer?a=1&b=2");
    await page.getByLabel("Code").first().fill(code);
    await page.getByLabel("Expires").fill("2037-01-31T00:00");
    await page.getByRole("button", { name: "Make it" }).click();
    await said(page, "The link is there.");
    const [made] = await rows(page, "Links");
    assert.equal(made["Short link"], `${server.url}/${code}`);
    assert.equal(made["Leads to"], "https://example.com/offer?a=1&b=2");
    assert.match(made.State, /^on until\s+2037-01-31 00:00 UTC$/);
    assert.equal(await scanned(page.getByRole("img", { name: /QR code/ })), `${server.url}/${code}`);

    for (let click = 0; click < 3; click += 1) await server.click(code);
    await server.click(code, { "user-agent": "Googlebot/2.1" });
    await eventually(async () => {
      const { body } = await account.api("GET", "/v1/usage?feature=clicks");
      return body.gross === 4;
    }, { what: "four clicks in the ledger" });
    await page.goto(path);
    const [counted] = await rows(page, "Links");
    assert.equal(counted.Clicks, "3");
    const [day] = await rows(page, "Clicks by day");
    assert.match(day["Day (UTC)"], /^20\d\d-\d\d-\d\d$/);
    assert.deepEqual([day.Clicks, day["Taken back"], day.Count], ["4", "1", "3"]);

    const { code: other } = await link(account, { destination: "https://example.com/other" });
    await page.goto(`${path}&code=${other}`);
    await page.getByText("Nothing was recorded in this cycle.").waitFor();
    await page.getByRole("link", { name: "All links together" }).click();
    assert.equal((await rows(page, "Clicks by day")).length, 1);
  }));

test("a destination that may not be is refused beside its field, and nothing is stored", () =>
  withAccount(async ({ page, account }) => {
    const field = page.getByLabel("Leads to");
    for (const bad of ["javascript:alert(1)", "https://user:pw@example.com/"]) {
      await field.fill(bad);
      await page.getByRole("button", { name: "Make it" }).click();
      const wrong = page.locator("label", { has: field }).getByRole("alert");
      await wrong.waitFor();
      assert.equal(await wrong.count(), 1);
      assert.equal(await field.getAttribute("aria-invalid"), "true");
      assert.ok(await field.evaluate((one) => one === document.activeElement));
    }
    const { code } = await link(account, { destination: "https://example.com/" });
    await field.fill("https://example.com/another");
    await page.getByLabel("Code").first().fill(code);
    await page.getByRole("button", { name: "Make it" }).click();
    const taken = page.locator("label", { has: page.getByLabel("Code").first() }).getByRole("alert");
    await taken.waitFor();
    assert.equal(await field.getAttribute("aria-invalid"), null);
    const listed = await account.api("GET", "/v1/links");
    assert.equal(listed.body.items.length, 1);
  }, { answers: [409, 422] }));

test("a link is switched off and on again, and the page says which it is", () =>
  withAccount(async ({ page, server, account, path }) => {
    const { code } = await link(account, { destination: "https://example.com/" });
    await page.goto(path);
    await page.getByRole("button", { name: `Switch off ${code}` }).click();
    await said(page, "The link is off.");
    assert.equal((await rows(page, "Links"))[0].State, "off");
    assert.equal((await server.click(code)).status, 410);
    await page.getByRole("button", { name: `Switch on ${code}` }).click();
    await said(page, "The link is on.");
    assert.equal((await rows(page, "Links"))[0].State, "on");
  }));

test("a destination with markup in it is shown as text and does nothing", () =>
  withAccount(async ({ page, account, path }) => {
    const hostile = "https://example.com/?q=<script>alert(1)</script>'><img/src=x/onerror=alert(1)>";
    await link(account, { destination: hostile });
    await page.goto(`${path}&q=${encodeURIComponent("<script>")}`);
    assert.equal((await rows(page, "Links"))[0]["Leads to"], hostile);
    assert.equal(await page.getByRole("searchbox").inputValue(), "<script>");
    assert.equal(await row(page, "Links", "alert").locator("script, td[data-of='Leads to'] img").count(), 0);
  }));
