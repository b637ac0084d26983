// Each decision turned round once: `*/rules.rs` and what else decides purely.

const GATE = "src/gate/rules.rs";
const INBOX = "src/inbox/rules.rs";
const PLANS = "src/plans/rules.rs";
const LEDGER = "src/ledger/rules.rs";
const BASES = "src/ledger/base_rules.rs";
const METERS = "src/ledger/meter_rules.rs";
const LINKS = "src/links/rules.rs";
const ACCOUNTS = "src/accounts/rules.rs";

const rule = (name, file, from, to, ...tests) => ({ name, file, edits: [[from, to]], tests });

export default [
  rule("remaining forgets what is held", GATE, "top.less(self.used).less(self.held)", "top.less(self.used)", "gate"),
  rule("remaining forgets what is used", GATE, "top.less(self.used).less(self.held)", "top.less(self.held)", "gate"),
  rule("too big is told as held", GATE, "if self.units > top {", "if false {", "gate"),
  rule("used up is told as held", GATE, "} else if self.units > top.less(self.budget.used) {", "} else if false {", "gate"),
  rule("an ended job's key makes a new job", GATE,
    "return Err((Refused::JobOver(state), None));", "return Ok(Admission::New);", "gate"),
  rule("a key with another request repeats", GATE,
    "(Seen::Other, _) => return Err((Refused::KeyConflict, None)),",
    "(Seen::Other, _) => return Ok(Admission::Same),", "gate"),
  rule("one job too many in a minute", GATE, "if rate.taken >= rate.allowed {", "if rate.taken > rate.allowed {", "gate"),
  rule("only the first feature is looked at", GATE,
    "for (place, line) in asked.iter().enumerate() {", "for (place, line) in asked.iter().enumerate().take(1) {", "gate"),
  rule("a charge is not cut to the hold", GATE,
    "let charged = units.min(hold.held.less(hold.charged));", "let charged = units;", "gate"),
  rule("a charge is cut to the whole hold", GATE,
    "let charged = units.min(hold.held.less(hold.charged));", "let charged = units.min(hold.held);", "gate"),
  rule("a settle below what was charged", GATE,
    "let charged = used.max(hold.charged).min(hold.held);", "let charged = used.min(hold.held);", "gate"),
  rule("a settle past the hold", GATE,
    "let charged = used.max(hold.charged).min(hold.held);", "let charged = used.max(hold.charged);", "gate"),
  rule("late use counts all of it", GATE, "used.less(hold.charged))", "used)", "gate"),
  rule("the turn moves what was charged", GATE,
    "let rest = hold.held.less(hold.charged);\n    let old", "let rest = hold.held;\n    let old", "gate"),
  rule("an old limit is used as fresh", GATE,
    "age.is_some_and(|age| age <= times.fresh_ms || just_read)", "age.is_some()", "gate_limits"),
  rule("a stale limit is used for ever", GATE,
    "age.is_some_and(|age| age <= times.stale_ms)", "age.is_some()", "gate_limits"),
  rule("a stale limit is not used at all", GATE,
    "age.is_some_and(|age| age <= times.stale_ms)", "age.is_some_and(|_| false)", "gate_limits"),
  rule("a failed read is repeated at once", GATE,
    "match again_at.filter(|at| *at > now) {", "match again_at.filter(|at| *at > now && false) {", "gate_limits"),

  rule("an older event wins", INBOX, "at.zip(than).is_some_and(|(at, than)| at < than)", "at.zip(than).is_some_and(|_| false)", "inbox"),
  rule("any cancellation ends the plan", INBOX,
    "told.agreement_id.is_some() && told.agreement_id != standing.agreement_id", "false", "inbox"),
  rule("an event without a time is believed", INBOX,
    "(None, _) => return Unread::Wait,", "(None, _) => EventTime { at: Millis::ZERO, nanos: 0 },", "inbox"),
  rule("an event that a read has already covered is believed", INBOX,
    "if !behind_read && Some(at) != standing.known_at =>", "if Some(at) != standing.known_at =>", "inbox"),
  rule("a failed payment of the same moment wins", INBOX,
    "if same_moment && !standing.is_overdue {", "if false {", "inbox"),
  rule("one try too many", INBOX, "usize::try_from(attempts - 1)", "usize::try_from(attempts - 2)", "inbox"),
  rule("a payment is a plan change", INBOX,
    '"customer.payment_succeeded" => Self::Paid,', '"customer.payment_succeeded" => Self::Changed,', "inbox"),

  rule("an ended agreement is current", PLANS, "one.expires_at.is_none_or(|end| end > now)", "one.expires_at.is_none_or(|_| true)", "plans"),
  rule("an agreement ends a moment late", PLANS, "one.expires_at.is_none_or(|end| end > now)", "one.expires_at.is_none_or(|end| end >= now)", "plans"),
  rule("an empty answer takes the plan away", PLANS, "ended(stored.empty_since.map(|at| at.after(SECOND_READ_MS)))", "true", "plans"),
  rule("two empty answers prove nothing", PLANS, "ended(stored.empty_since.map(|at| at.after(SECOND_READ_MS)))", "false", "plans"),
  rule("a stored cancellation proves nothing", PLANS, "if stored.cancelled {", "if false {", "plans"),
  rule("a lagging read is believed at once", PLANS,
    "let other = stored.wanted.as_ref().is_some_and(|want| *want != plan);", "let other = false;", "plans"),
  rule("last month's payment grants the new plan", PLANS, "plan_since.is_none_or(|since| since < cycle_ends_at)", "plan_since.is_none_or(|_| true)", "inbox"),
  rule("an unreadable provider is given up", PLANS, "Unfinished::Unreadable => step.or(steps.last().copied()),", "Unfinished::Unreadable => step,", "plans"),

  rule("a feed from an earlier life goes on", LEDGER, "if same_id == Some(false) {", "if false {", "feed"),
  rule("a feed ahead of its object goes on", LEDGER, "if last > stream.frozen {", "if false {", "feed"),
  rule("a gap is passed over", LEDGER, "if last + 1 < stream.kept_from {", "if false {", "feed"),
  rule("a double click at the window's edge", LEDGER, "at.since(counted).abs() < window_ms", "at.since(counted).abs() <= window_ms", "double_click"),
  rule("usage into a closed cycle", LEDGER, "if cycle_ends_at <= now {", "if cycle_ends_at < now {", "usage"),
  rule("usage far ahead", LEDGER, "if at.since(now) > AHEAD_MS_MAX {", "if false {", "usage"),
  rule("a correction of more than is left", LEDGER, "if asked <= Delta::ZERO || asked > left {", "if asked <= Delta::ZERO {", "correction"),
  rule("a correction of a correction", LEDGER, "if !is_fact || units <= Delta::ZERO {", "if units == Delta::ZERO {", "correction"),

  rule("a meter is written in the last seconds", METERS, "} else if left(end) < CLOSING_MS {", "} else if false {", "meter"),
  rule("a period that has ended is open", METERS, "if end <= now {\n        Turn::Ended", "if false {\n        Turn::Ended", "meter"),
  rule("another period than the cycle is open", METERS, "end.since(cycle.ends_at).abs() > SAME_MS", "false", "meter"),
  rule("a closed cycle's meter is written", METERS, "if !cycle.holds(now) {", "if false {", "meter"),
  rule("a new period is the same meter", BASES, "meter.0 != agreement.0 || began_anew", "meter.0 != agreement.0", "base"),
  rule("a doubtful meter is a known base", BASES, "let is_known = !earlier.is_doubtful && earlier.held.is_some();", "let is_known = true;", "base"),
  rule("a doubt waits for ever", BASES, "if now.since(earlier.since) < DOUBT_MS =>", "if now.since(earlier.since) < i64::MAX =>", "base"),
  rule("a meter that is being written is a known base", BASES, "if earlier.is_leased {", "if false {", "base"),
  rule("an incomplete ledger is compared", METERS, "if !facts.complete {", "if false {", "reconciler"),
  rule("over and under are swapped", METERS, "let verdict = if provider > expected {", "let verdict = if provider < expected {", "meter"),
  rule("somebody else's total is overwritten", METERS, "read != Delta::ZERO && read != Delta::from(target)", "read != read && target != target", "meter"),
  rule("a tail is carried while a write is in doubt", METERS, "} else if moved || in_doubt {", "} else if moved {", "meter"),
  rule("what a person left is carried", METERS, "ledger.minus(known)?.minus(left)?", "ledger.minus(known)?.minus(left.minus(left)?)?", "carry"),

  rule("a disabled link redirects", LINKS, "if link.disabled {", "if false {", "links"),
  rule("a link lives a moment too long", LINKS, "is_some_and(|at| at <= visit.now)", "is_some_and(|at| at < visit.now)", "links"),
  rule("a prefetch is a click", LINKS, "if visit.prefetch {", "if false {", "links"),
  rule("a HEAD is a click", LINKS, "if visit.head {", "if false {", "links"),

  rule("an anchor on the 31st", ACCOUNTS, "LateAnchor::Refuse if anchor.day > 28 =>", "LateAnchor::Refuse if anchor.day > 31 =>", "accounts"),
  rule("the day of a short month is kept", ACCOUNTS, "if is_last_of_month(start) {", "if false {", "accounts"),
  rule("cycles drift to the short month's day", "src/cycle.rs", "of_civil_clamped(year, month, self.day, ms)", "of_civil_clamped(year, month, self.day.min(28), ms)", "cycle"),
];
