// The page of jobs and the Concurrency Lab.

import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually, row, rows, said, unique, visit } from "./visit.mjs";
import { shared } from "../e2e/harness.mjs";

const seconds = (text) => {
  const part = (unit) => Number(text.match(new RegExp(`(\\d+) ${unit}\\b`))?.[1] ?? 0);
  return part("h") * 3600 + part("min") * 60 + part("s");
};

test("a live hold's lease runs down beside the budget and the refusals, and an operator settles it", async () => {
  const server = await shared();
  const account = await server.account({ customer_id: unique("customer") });
  const ask = (key, hold) => account.api("POST", "/v1/jobs", { key, feature: "tokens", hold });
  const { body: job } = await ask("<i>summary</i>", 4000);
  await account.api("POST", `/v1/jobs/${job.id}/charges`, { units: 1500 });
  assert.equal((await ask("too-much", 40_000)).status, 402);
  assert.equal((await ask("not-now", 9000)).status, 402);
  await visit("/app/jobs", async (page) => {
    await page.getByRole("link", { name: account.id }).click();
    const [budget] = await rows(page, "Budgets");
    assert.deepEqual(
      [budget.Limit, budget.Used, budget.Held, budget.Free],
      ["10,000 known", "0", "4,000", "6,000"],
    );
    const [held] = await rows(page, "Live holds");
    assert.ok(held.Job.startsWith("<i>summary</i>"), held.Job);
    assert.ok(held.Job.endsWith(job.id), held.Job);
    assert.equal(held.Charged, "1,500 of 4,000 tokens");
    const lease = row(page, "Live holds", job.id).locator("[data-left-ms]");
    const first = seconds(await lease.innerText());
    assert.ok(first > 90 && first <= 120, `${first}`);
    await eventually(async () => seconds(await lease.innerText()) < first, { what: "a shorter lease" });
    const refusals = await rows(page, "Last refusals");
    const told = refusals.map((one) => [one["Key or job"], one.Why, one.Asked, one.Left]);
    assert.deepEqual(told, [
      ["not-now", "over_limit: held running jobs hold the rest", "9,000", "6,000"],
      ["too-much", "over_limit: too_big more than the whole limit", "40,000", "6,000"],
    ]);

    await page.getByText("Settle by hand").click();
    await page.getByRole("spinbutton", { name: "Used" }).fill("2000");
    await page.getByLabel("Reason").fill("its worker is gone");
    await page.getByRole("button", { name: "Settle", exact: true }).click();
    await said(page, "The job is settled.");
    await page.getByText("No job is running.").waitFor();
    const [after] = await rows(page, "Budgets");
    assert.deepEqual([after.Used, after.Held, after.Free], ["2,000", "0", "8,000"]);
    const audit = await server.api("GET", `/v1/audit?account=${account.id}`);
    assert.ok(audit.body.items.some((one) => one.reason === "its worker is gone"), audit.text);
  });
});

/** What one side of the Lab shows. */
const side = (page, name) =>
  page.locator("section.side").filter({ has: page.getByRole("heading", { name }) });

async function race(page) {
  await page.getByRole("button", { name: "Start them" }).click();
  await page.getByRole("heading", { name: "What each job was told" }).waitFor();
  return rows(page, "What each job was told");
}

test("the Lab: a plain check spends 200,000 of 100,000, the gate 80,000", () =>
  visit("/app/lab", async (page) => {
    const jobs = await race(page);
    const plain = await side(page, "Plain check").innerText();
    assert.match(plain, /200,000\s+spent of 100,000, 100,000 over the plan/);
    assert.match(plain, /5 started, 0 refused/);
    const gate = await side(page, "Through the gate").innerText();
    assert.match(gate, /80,000\s+spent of 100,000, within the plan/);
    assert.match(gate, /2 started, 3 refused/);
    const saw = jobs.map((job) => [job["Plain check"], job["It saw left"]]);
    assert.deepEqual(saw, Array(5).fill(["started", "100,000"]));
    const started = jobs.filter((job) => job.Gate === "started");
    assert.deepEqual(started.map((job) => job.Left).sort(), ["20,000", "60,000"]);
    const refused = jobs.filter((job) => job.Gate === "refused");
    const told = refused.map((job) => [job.Left, job["The gate's answer"]]);
    assert.deepEqual(told, Array(3).fill(["20,000", "402 over_limit held"]));
  }));

test("the Lab races the numbers that it is given", () =>
  visit("/app/lab", async (page) => {
    const give = async (label, value) => page.getByLabel(label).fill(`${value}`);
    await give("The plan allows", 1000);
    await give("Jobs", 8);
    await give("Each needs", 300);
    await give("At the same moment", 8);
    const jobs = await race(page);
    assert.equal(jobs.length, 8);
    assert.match(await side(page, "Plain check").innerText(), /2,400\s+spent of 1,000/);
    const gate = await side(page, "Through the gate").innerText();
    assert.match(gate, /900\s+spent of 1,000, within the plan/);
    assert.match(gate, /3 started, 5 refused/);
    assert.equal(await page.getByLabel("Each needs").inputValue(), "300");
  }));
