// The faults that bill someone wrongly, as they have been made elsewhere, one by one.

const METER_STORE = "src/ledger/meter_store.rs";
const BOOKS = "src/gate/books.rs";

export default [
  {
    name: "a floor at zero in release",
    file: BOOKS,
    edits: [["if line.budget.held < held {", "if false {"]],
    tests: ["gate_books"],
  },
  {
    name: "a refund at the sweep",
    file: BOOKS,
    edits: [[
      "                self.finish(row, row.hold.held)?;\n            }\n        }\n        let sql",
      `                let mut row = row.clone();
                if state == State::Expired {
                    row.hold.charged = Units::ZERO;
                }
                let held = row.hold.held;
                self.finish(&row, held)?;
            }
        }
        let sql`,
    ]],
    tests: ["gate"],
  },
  {
    name: "a missing fence",
    file: "src/inbox/lane.rs",
    edits: [["vec![guard(claimed)]", "Vec::<Statement>::new()"]],
    tests: ["inbox_lanes"],
  },
  {
    name: "a fence per event instead of per lane",
    file: "src/inbox/lane.rs",
    edits: [[
      `(select 1 from lane where lane = ?1 and token = ?2)",
        params![claimed.lane.as_str(), claimed.token.as_str()],`,
      `(select 1 from event where lane = ?1 and id = ?2 and status = 'processing')",
        params![claimed.lane.as_str(), claimed.id.as_str()],`,
    ]],
    tests: ["inbox_lanes"],
  },
  {
    name: "a mark before its effect",
    file: "src/inbox/lane.rs",
    edits: [[
      `    statements.extend(effects);
    statements.extend(end_statements(claimed, end, now));`,
      `    statements.extend(end_statements(claimed, end, now));
    world.db.batch(statements).await?;
    let mut statements = effects;`,
    ]],
    tests: ["inbox_lanes", "simulation"],
  },
  {
    name: "a mark deleted and made anew",
    file: METER_STORE,
    edits: [["set told = max(told, ?5)", "set told = version"]],
    tests: ["interleave", "meters"],
  },
  {
    name: "a total read before its version",
    file: "src/ledger/meter.rs",
    edits: [
      [
        `    let token = world.mint("tok_")?;
    let now = world.now();`,
        `    let early = super::totals::ledger_total(&*world.ledger, &subject.pair).await?;
    let token = world.mint("tok_")?;
    let now = world.now();`,
      ],
      [
        "let Some(claim) = store::claimed(&rows, token, now)? else {",
        `let claimed = store::claimed(&rows, token, now)?;
    let Some(claim) = claimed.map(|claim| Claim { total: early, ..claim }) else {`,
      ],
    ],
    tests: ["interleave"],
  },
  {
    name: "a meter written without the send lease",
    file: METER_STORE,
    edits: [["and (token is null or lease_until_ms <= ?7) and review_id", "and review_id"]],
    tests: ["interleave", "meters"],
  },
  {
    name: "a meter written without the turn guard",
    file: "src/ledger/meter.rs",
    edits: [["turn(&self.cycle, self.agreement.period, now)", "{ let _ = turn; let _ = now; Turn::Open }"]],
    tests: ["meters"],
  },
  {
    name: "the whole total sent to a replaced agreement's meter",
    file: "src/ledger/meter_rules.rs",
    edits: [["total.minus(base).and_then(", "total.minus(base.minus(base)?).and_then("]],
    tests: ["meters"],
  },
  {
    name: "counters from the sender's sums",
    file: "src/ledger/batch.rs",
    edits: [['is_new!(),\n    " group by', '"true",\n    " group by']],
    tests: ["feed"],
  },
  {
    name: "a batch that is not frozen",
    file: "src/ledger/outbox.rs",
    edits: [["and seq between ?1 and ?2 order by seq)", "and seq >= ?1 and ?2 > 0 order by seq)"]],
    tests: ["outbox", "feed"],
  },
  {
    name: "a batch number reused after storage was lost",
    file: "src/ledger/feed.rs",
    edits: [
      ['outbox.begin(&self.mint("epoch_")?)?;', 'outbox.begin("epoch_1")?;'],
      ["ours.map(|ours| ours == row.last_id)", "ours.map(|_| true)"],
    ],
    tests: ["feed"],
  },
  {
    name: "a rebuild from a paged sum",
    file: "src/ledger/totals.rs",
    edits: [[
      `?3, coalesce(sum(units), 0), 1, cast(?4 as integer) from entry \\
         where`,
      `?3, coalesce(sum(units), 0), 1, cast(?4 as integer) from \\
         (select * from entry limit 100) where`,
    ]],
    tests: ["reconciler"],
  },
  {
    name: "an entry id without the feature",
    file: "src/ledger/entry.rs",
    edits: [[
      `            job,
            feature.as_str(),
            cycle.as_str(),`,
      `            job,
            cycle.as_str(),`,
    ]],
    tests: ["booking"],
  },
  {
    name: "< for <= where the limit is reached",
    file: "src/gate/rules.rs",
    edits: [["if self.units <= remaining {", "if self.units < remaining {"]],
    tests: ["gate"],
  },
  {
    name: "<= for < where a lease ends",
    file: "src/gate/rules.rs",
    edits: [["State::Running if lease_ends_at > now", "State::Running if lease_ends_at >= now"]],
    tests: ["gate"],
  },
  {
    name: "<= for < where a cycle ends",
    file: "src/cycle.rs",
    edits: [["if self.boundary(index) > at {", "if self.boundary(index) >= at {"]],
    tests: ["cycle"],
  },
  {
    name: "an unsplit job at the turn",
    file: BOOKS,
    edits: [["if next.name != old {", "if next.name != old && false {"]],
    tests: ["gate_limits"],
  },
  {
    name: "a lost re-arm after an alarm",
    file: "src/gate/object.rs",
    edits: [[
      `        let done = done.and(self.tend_due().await);
        let armed = self.object.arm().await;`,
      `        let done = done.and(self.tend_due().await);
        let armed = Ok(());`,
    ]],
    tests: ["openapi"],
  },
  {
    name: "a lost re-arm after an error",
    file: "src/gate/object.rs",
    edits: [[
      `        let armed = self.object.arm().await;
        let told = outcome?;`,
      `        let armed = if outcome.is_ok() { self.object.arm().await } else { Ok(()) };
        let told = outcome?;`,
    ]],
    tests: ["gate_books"],
  },
  {
    name: "a cached limit that survives a ring",
    file: "src/gate/limit.rs",
    edits: [[
      "rings = rings + 1, read_at_ms = null, failed_at_ms = null, answer = null",
      "rings = rings + 1",
    ]],
    tests: ["gate_limits"],
  },
  {
    name: "a read that a ring overtook and that is kept",
    file: "src/gate/object.rs",
    edits: [["_ if books.limits.rings != rings => Ok(()),", "_ if rings < 0 => Ok(()),"]],
    tests: ["gate_limits"],
  },
  {
    name: "a tie that wins",
    file: "src/inbox/rules.rs",
    edits: [["if !behind_read && Some(at) != standing.known_at =>", "if !behind_read =>"]],
    tests: ["inbox"],
  },
  {
    name: "the header as identity",
    file: "src/inbox/receive.rs",
    edits: [[
      `            id,
            PROVIDER,
            facts.event_id.as_str(),`,
      `            id,
            PROVIDER,
            delivery.webhook_id.unwrap_or(facts.event_id.as_str()),`,
    ]],
    tests: ["inbox"],
  },
  {
    name: "a lower total written after a restore",
    file: "src/ledger/meter_rules.rs",
    edits: [["in_ledger < in_control || !has_token", "in_ledger < in_control && false"]],
    tests: ["restored", "meters", "reconciler"],
  },
  {
    name: "a lower total written by a run that a restore overtook",
    file: "src/ledger/runs.rs",
    edits: [["where coalesce(token, ?4) in (select value from json_each(?3))", "where ?3 <> ?4"]],
    tests: ["restored"],
  },
  {
    name: "a ledger that was put back to a moment within a run is not recognised",
    file: "src/ledger/meter_rules.rs",
    edits: [["in_ledger < in_control || !has_token", "in_ledger < in_control"]],
    tests: ["moment_within_a_run"],
  },
  {
    name: "a meter is told before anybody could know of it",
    file: "src/ledger/meter.rs",
    edits: [["match lease.record().await {", "match Ok::<_, Fault>(Recorded::Yes) {"]],
    tests: ["moment_within_a_run"],
  },
  {
    name: "a ledger that is put back while it is filled counts as filled",
    file: "src/ledger/runs.rs",
    edits: [["where exists (select 1 from meter_token f where f.token = ?2) \\\n             on conflict", "where ?2 <> '' \\\n             on conflict"]],
    tests: ["restored"],
  },
];
