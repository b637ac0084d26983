// The page of the reconciler: a dry run that only says, a run that repairs and proves, and what
// waits for a person.

import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually, link, rows, said, tile, unique, visit } from "./visit.mjs";
import { shared } from "../e2e/harness.mjs";

/** An account of a stand-in customer with so many clicks in its ledger: `{ ...account, meter }`. */
async function clicked(server, clicks) {
  const account = await server.account({ customer_id: unique("customer") });
  const { code } = await link(account, { destination: "https://example.com/" });
  for (let click = 0; click < clicks; click += 1) await server.click(code);
  await eventually(async () => {
    const { body } = await account.api("GET", "/v1/usage?feature=clicks");
    return body.total === clicks;
  }, { what: "the clicks in the ledger" });
  return { ...account, meter: `/standin/meters/${account.agreement_id}/clicks` };
}

const total = async (server, account) => (await server.api("GET", account.meter)).body.total;
const oneLine = (text) => text.replace(/\s+/g, " ");
const clicksOf = (list) => list.find((one) => one.Meter.includes("clicks"));

test("a dry run says what differs and writes nothing, a run repairs it and keeps the evidence", async () => {
  const server = await shared();
  const account = await clicked(server, 5);
  await server.run("reporter");
  await server.api("PUT", account.meter, { total: 2 });
  await visit(`/app/reconcile?account=${account.id}`, async (page) => {
    const meter = clicksOf(await rows(page, "Meters"));
    assert.deepEqual([meter.Ledger, meter.Sent, meter.State], ["5", "5", "told"]);
    await page.getByText("No comparison was made yet").waitFor();

    await page.getByRole("button", { name: "Dry run" }).click();
    await page.getByRole("heading", { name: "What a run would find" }).waitFor();
    const dry = clicksOf(await rows(page, "What differs"));
    assert.equal(oneLine(dry.Verdict), "under billed meter moved by other");
    assert.deepEqual([dry.Ledger, dry.Sent, dry.Provider], ["5", "5", "2"]);
    assert.equal(await tile(page, "left as they differ"), "1");
    await page.getByText("Nothing was written.").waitFor();
    assert.equal(await total(server, account), 2);
    await page.getByText("No comparison was made yet").waitFor();

    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.getByRole("heading", { name: "What the run found" }).waitFor();
    assert.equal(await tile(page, "repaired and read back"), "1");
    const proof = clicksOf(await rows(page, "Evidence"));
    assert.equal(oneLine(proof.Verdict), "under billed meter moved by other");
    assert.deepEqual(
      [proof.Ledger, proof.Sent, proof.Provider, proof["Repaired to"], proof["Read back"]],
      ["5", "5", "2", "5", "5"],
    );
    assert.equal(await total(server, account), 5);

    await page.getByRole("button", { name: "Dry run" }).click();
    await page.getByText("Nothing differs.").waitFor();
    assert.equal(await tile(page, "compared"), await tile(page, "match"));
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.getByRole("heading", { name: "What the run found" }).waitFor();
    assert.equal(await tile(page, "repaired and read back"), "0");
    const evidence = await rows(page, "Evidence");
    assert.equal(evidence.filter((one) => one.Meter.includes("clicks")).length, 1);
  });
});

test("a total that somebody else wrote waits for a person, who closes it with a reason", async () => {
  const server = await shared();
  const account = await clicked(server, 3);
  await server.api("PUT", account.meter, { total: 1_234_567 });
  await server.run("reporter");
  await visit(`/app/reconcile?account=${account.id}`, async (page) => {
    const item = page.locator("section.review");
    await item.getByText("foreign total").waitFor();
    await item.getByText("Closing replaces it by the ledger's.").waitFor();
    assert.match(await item.innerText(), /provider 1,234,567/);
    // Without a reason the browser itself does not send it.
    await item.getByRole("button", { name: "Close" }).click();
    assert.equal(await item.count(), 1);
    const reason = "<script>alert(1)</script> agreed with the customer";
    await item.getByLabel("Reason").fill(reason);
    await item.getByRole("button", { name: "Close" }).click();
    await said(page, "The item is closed.");
    await page.getByText("Nothing waits for a person.").waitFor();
    const audit = await server.api("GET", `/v1/audit?account=${account.id}`);
    assert.ok(audit.body.items.some((one) => one.reason === reason), audit.text);
  });
  await server.run("reporter");
  assert.equal(await total(server, account), 3);
});

test("an account that is not there is said, and nothing ran", () =>
  visit("/app/reconcile", async (page) => {
    await page.getByLabel("Account").fill("nobody-of-that-name");
    await page.getByRole("button", { name: "Dry run" }).click();
    await page.getByText("There is no such account.").waitFor();
  }, { answers: [422] }));
