// Each condition of a statement that keeps two writers apart, taken out once: `*/store.rs` and
// what else is SQL.

const METERS = "src/ledger/meter_store.rs";
const LANES = "src/inbox/lane.rs";
const BATCH = "src/ledger/batch.rs";
const OUTBOX = "src/ledger/outbox.rs";
const PLANS = "src/plans/store.rs";
const INTAKE = "src/inbox/receive.rs";

const store = (name, file, from, to, ...tests) => ({ name, file, edits: [[from, to]], tests });

export default [
  store("two workers in one lane", LANES,
    "where lane = ?1 and (token is null or lease_ends_at_ms <= ?3) \\", "where lane = ?1 \\", "inbox_lanes"),
  store("the newest event first", LANES, "order by e.occurred_ms, e.occurred_nanos, e.id limit 1", "order by e.occurred_ms desc, e.id limit 1", "inbox"),
  store("a claim without a lease", LANES, "attempts = attempts + 1, next_at_ms = ?3", "attempts = attempts + 1, next_at_ms = null", "inbox_lanes"),
  store("the lane is kept after the end", LANES, "set token = null, lease_ends_at_ms = null, event = null where lane = ?1", "set event = null where lane = ?1", "inbox_lanes"),
  store("an end is counted for each copy", INTAKE, "where not exists (select 1 from event where provider = ?3 and event_id = new.value) \\", "where ?3 <> '' \\", "inbox"),
  store("a copy without effect takes the next try away", INTAKE, "min(next_at_ms, excluded.received_at_ms)", "min(next_at_ms, excluded.next_at_ms)", "inbox"),
  store("an older read writes over a newer", PLANS, "written = ?2 and written < ?3", "?2 >= 0 and ?3 >= 0", "plans"),
  store("a given anchor is moved", PLANS, "and number = 1 and fixed_at_ms is null and source <> ?5", "and number = 1 and fixed_at_ms is null and ?5 <> ''", "accounts", "plans"),
  store("a fixed anchor is moved", PLANS, "and number = 1 and fixed_at_ms is null and source <> ?5", "and number = 1 and source <> ?5", "accounts", "plans"),
  store("a grant for each payment", "src/plans/grants.rs",
    "on conflict (account_id, cycle, feature, plan) do nothing", "on conflict (account_id, cycle, feature, plan) do update set units = units + excluded.units", "engine_room"),
  store("the balance adds grants up", "src/plans/grants.rs", "select feature, max(units) as units from grant_row", "select feature, sum(units) as units from grant_row", "engine_room", "plans"),

  store("a feed takes any batch", BATCH, "case when cast(?3 as integer) = 1 + coalesce((select last from feed \\", "case when cast(?3 as integer) <> - 1 - coalesce((select last from feed \\", "feed"),
  store("a batch inserts what is there", BATCH, "is_new!()\n);", "\"true\"\n);", "feed"),
  store("a rule takes back more than is left", BATCH, "and (s.rule is null or 0 <= coalesce(", "and (s.rule is null or -9 <= coalesce(", "feed"),
  store("another fact under the same id is passed over", BATCH, "\"(e.account_id is not s.account_id or e.feature is not s.feature \\\n         or e.units is not s.units ", "\"(e.account_id is not s.account_id or e.feature is not s.feature \\\n         ", "usage", "feed"),
  store("a change of zero raises the version by nothing", BATCH, "sum(s.units), sum(s.units) <> 0, \\", "sum(s.units), 0, \\", "meters"),
  store("a booking is added to a frozen one", OUTBOX, "if seq > frozen_to && self.add_to(seq, booking.units)? {", "if self.add_to(seq, booking.units)? {", "outbox"),
  store("bookings of one job under one number", OUTBOX, "number = row.int(\"number\")? + 1;", "number = row.int(\"number\")?;", "outbox"),
  store("rows are frozen twice", OUTBOX, "set frozen = ?1, frozen_to_seq = ?2, told_due_at_ms = ?3", "set frozen = ?1, frozen_to_seq = min(frozen_to_seq, ?2), told_due_at_ms = ?3", "outbox"),

  store("a meter held for review is written", METERS, "and (token is null or lease_until_ms <= ?7) and review_id is null \\", "and (token is null or lease_until_ms <= ?7) \\", "meters"),
  store("an earlier agreement's meter is written", METERS,
    "and not exists (select 1 from meter l where l.account_id = ?1 and l.feature = ?2 \\\n           and l.cycle = ?3 and l.number > ?4) \\", "\\", "meters"),
  store("a 429 is not waited for", METERS, "from meter_run r where r.not_before_ms <= ?7)", "from meter_run r where ?7 > 0)", "fences", "meters"),
  store("a meter is claimed in a ledger that was put back", METERS, "from meter_token t where t.token = ?8)", "from meter_token t where ?8 <> '')", "fences"),
  store("a lease that lapsed leaves no doubt", METERS, "in_doubt = case when token is not null then 1 else in_doubt end", "in_doubt = in_doubt", "meters", "interleave"),
  store("a confirmation after the lease was lost", METERS,
    "and m.cycle = ?3 and m.number = ?4 and m.token = ?6)\",\n        pair.params(number, params![claim.version,", "and m.cycle = ?3 and m.number = ?4 and ?6 <> '')\",\n        pair.params(number, params![claim.version,", "interleave"),
  store("an unknown outcome gives the lease back", METERS, "set in_doubt = 1, last_outcome = 'unknown', last_detail = ?6, \\", "set token = null, last_outcome = 'unknown', last_detail = ?6, \\", "meters"),
  store("a rebuild of what was archived", "src/ledger/totals.rs", "where total <> excluded.total and archived = 0", "where total <> excluded.total", "reconciler"),
  store("a change of a link takes no number", "src/links/store.rs", "changed = 1 + (select coalesce(max(changed), 0)", "changed = 0 * (select coalesce(max(changed), 0)", "links"),
  store("a look keeps what was changed", "src/links/cache.rs", "codes.iter().for_each(|code| links.forget(code))", "drop(codes.first())", "links"),
  store("what was read before a look was answered is kept", "src/links/cache.rs", "if reading.heard != looks.heard {", "if reading.heard > looks.heard {", "links"),
  store("what no look tells of is kept", "src/links/cache.rs", "is_followed: looks.number.is_some(),", "is_followed: true,", "links"),
  store("another feature does not learn of a new period", "src/ledger/turn_guard.rs", "found.filter(|(agreement, _)| *agreement != subject.agreement)", "found.filter(|_| false)", "reconciler"),
  store("more is left as it is than differs", "src/ledger/closing.rs", "else max(0, min(cast(?4 as integer), c.lacks)) end as units", "else cast(?4 as integer) end as units", "reconciler"),
  store("a feed whose item is gone stands still", "src/ledger/feed.rs", "Ok(!matches!(self.find_standing().await?, Standing::Gap { .. }))", "Ok(false)", "feed"),
  store("a bundle that comes again counts again", "src/ledger/shard.rs", "if self.feed.is_known(&first.entry.entry_id)? {", "if self.feed.is_known(&first.entry.entry_id)? && bundle.is_empty() {", "feed"),
  store("a bundle goes on growing", "src/ledger/travelling.rs", "bundle.clicks.len() == BUNDLE_MAX", "bundle.clicks.len() == usize::MAX", "travelling"),
  store("nobody sends what is overdue", "src/ledger/travelling.rs", "Stage::Failed => true,", "Stage::Failed => false,", "clicks", "travelling"),
  store("a click that is sent is forgotten", "src/ledger/travelling.rs", "i64::from(PATIENCE_MS),", "i64::MAX,", "travelling"),
  store("another account's link is found", "src/links/store.rs", "select {COLUMNS} from link where code = ?1 and account_id = ?2", "select {COLUMNS} from link where code = ?1 and ?2 <> ''", "links"),
  store("another account's link code is taken over", "src/links/store.rs", "stored.account_id == link.account_id && stored.destination", "stored.destination", "links"),
  store("a job's running row is not counted", "src/gate/store.rs", "where b.cycle = ?1 and b.used + coalesce(r.charged, 0) <> b.booked", "where b.cycle = ?1 and b.used <> b.booked", "gate"),
];
