// The Engine Room, the page of events and an account's own page.

import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually, row, rows, said, tile, unique, visit } from "./visit.mjs";
import { shared } from "../e2e/harness.mjs";

const CHANGED = "customer.plan_changed";
const PAID = "customer.payment_succeeded";

async function run(page) {
  await page.getByRole("button", { name: "Run the nine deliveries" }).click();
  await page.getByRole("heading", { name: "Each delivery" }).waitFor();
  return rows(page, "Nine deliveries");
}

test("the Engine Room: nine deliveries, 2,950 on arrival and 500 through the pipeline", () =>
  visit("/app/engine-room", async (page) => {
    const steps = await run(page);
    assert.deepEqual(steps.map((step) => step["#"]), ["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    assert.deepEqual(steps.map((step) => step["Applied on arrival"]), [
      "Free · 10", "Pro · 10", "Pro · 500", "Pro · 990", "Pro · 1,480", "Pro · 1,970", "Free · 1,970",
      "Pro · 2,460", "Pro · 2,950",
    ]);
    const upgraded = Array(7).fill("Pro · 500");
    assert.deepEqual(steps.map((step) => step.Pipeline), ["Free · 10", "Free · 10", ...upgraded]);
    for (const [label, value] of [
      ["copies arrived", "9"], ["events stored", "3"], ["counted and dropped", "6"],
      ["finished by the next copy", "1"], ["a newer plan change is already stored", "1"],
      ["times granted", "1"],
    ]) {
      assert.equal(await tile(page, label), value, label);
    }
    assert.equal(await tile(page, "more than was bought"), "Pro · 2,950");
    assert.equal(await tile(page, "what was bought"), "Pro · 500");
    await page.getByRole("link", { name: /^acc_/ }).click();
    await page.getByText("500 credits").waitFor();
    const ignored = (await rows(page, "Events")).filter((event) => event.Status === "ignored");
    assert.deepEqual(ignored.map((event) => event.Result), ["a newer plan change is already stored"]);
  }));

test("the Engine Room with the doorbell ends the same", () =>
  visit("/app/engine-room", async (page) => {
    await page.getByLabel("With the doorbell").check();
    const steps = await run(page);
    assert.ok(await page.getByLabel("With the doorbell").isChecked());
    assert.deepEqual(
      [steps.at(-1)["Applied on arrival"], steps.at(-1).Pipeline],
      ["Pro · 2,950", "Pro · 500"],
    );
    assert.equal(await tile(page, "times granted"), "1");
  }));

/** An account on Pro whose upgrade came by two copies of an event, and a payment. */
async function upgraded(server) {
  const customer_id = unique("customer");
  const account = await server.account({ customer_id, name: "Upgraded" });
  await server.api("PUT", `/standin/customers/${customer_id}`, { plan: "pro" });
  const send = (type, deliver) => server.api("POST", "/standin/events", { type, customer_id, deliver });
  await send(CHANGED, 2);
  await send(PAID, 1);
  await atEnd(server, account, 2);
  return account;
}

function atEnd(server, account, count) {
  return eventually(async () => {
    const { body } = await server.api("GET", `/v1/events?account=${account.id}`);
    const ended = body.items.filter((event) => event.status === "applied");
    return ended.length === count && body.items;
  }, { what: "the end of every event" });
}

test("an account's page shows its plan, payment, balance and each event, and replays one", async () => {
  const server = await shared();
  const account = await upgraded(server);
  await visit(`/app/accounts/${account.id}`, async (page) => {
    const fact = (name) => page.locator("dl > div")
      .filter({ has: page.locator("dt").getByText(name, { exact: true }) }).locator("dd").innerText();
    assert.match(await fact("Plan"), /^pro since 20\d\d-\d\d-\d\d \d\d:\d\d(:\d\d)? UTC$/);
    assert.equal(await fact("Payment"), "ok");
    assert.equal(await fact("Balance"), "500 credits");
    const events = await rows(page, "Events");
    assert.deepEqual(events.map((one) => [one.Event.split(/\s/)[0], one.Status, one.Copies]), [
      [PAID, "applied", "1"], [CHANGED, "applied", "2"],
    ]);
    const change = row(page, "Events", CHANGED);
    await change.getByText("Deliveries").click();
    assert.equal(await change.getByRole("listitem").count(), 2);
    assert.match(await change.getByRole("listitem").first().innerText(), /UTC: stored, sent/);
    await change.getByRole("button", { name: "Replay" }).click();
    await said(page, "The event is in the queue again.");
    await eventually(async () => {
      await page.reload();
      const again = (await rows(page, "Events")).find((one) => one.Event.startsWith(CHANGED));
      return again.Status === "applied" && again;
    }, { what: "the replayed event's end" });
    assert.equal(await fact("Balance"), "500 credits");
    await page.getByRole("button", { name: "Read the plan from the provider" }).click();
    await said(page, "The plan is what the provider says.");

    await page.getByLabel("Name of the key").fill("second");
    await page.getByRole("button", { name: "Make a key" }).click();
    await page.locator("output").filter({ hasText: /cfk_/ }).waitFor();
    const second = row(page, "API keys", "second");
    await second.getByRole("button", { name: "Revoke" }).click();
    await said(page, "The key is revoked.");
    await row(page, "API keys", "second").getByText(/^revoked 20/).waitFor();
  });
});

test("events are filtered by account, status and type, and one that waits is skipped with a reason", async () => {
  const server = await shared();
  const account = await upgraded(server);
  const customer_id = unique("nobody");
  await server.api("POST", "/standin/events", { type: PAID, customer_id });
  await visit(`/app/events?account=${account.id}`, async (page) => {
    const types = async () => (await rows(page, "Events")).map((one) => one.Event.split(/\s/)[0]);
    assert.deepEqual(await types(), [PAID, CHANGED]);
    await page.getByLabel("Type").fill(CHANGED);
    await page.getByRole("button", { name: "Show" }).click();
    await page.waitForURL("**type=customer.plan_changed**");
    assert.deepEqual(await types(), [CHANGED]);
    await page.getByLabel("Status").selectOption("dead");
    await page.getByRole("button", { name: "Show" }).click();
    await page.getByText("No event is here.").waitFor();

    await page.goto("/app/events?status=waiting");
    const waiting = row(page, "Events", customer_id);
    await waiting.getByText("Skip", { exact: true }).click();
    const reason = "<img src=x onerror=alert(1)> a test of theirs";
    await waiting.getByLabel("Reason").fill(reason);
    await waiting.getByRole("button", { name: "Skip it" }).click();
    await said(page, "The event is skipped.");
    await page.goto("/app/events?status=skipped");
    const [skipped] = (await rows(page, "Events")).filter((one) => one.Account === customer_id);
    assert.ok(skipped.Result.includes(reason), skipped.Result);
  });
});
