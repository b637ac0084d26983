-- The inbox (events, receipts, lanes, runs), what plan sync remembers, grants, alerts.

-- A verified event, once per signed event id. Ids, facts and result stay; the body goes after 30
-- days. What is still to be done has next_at_ms; what is not, has none.
create table event (
  id text primary key,
  provider text not null,
  event_id text not null,           -- signed; alone makes a copy
  type text not null,
  lane text not null,               -- the customer, or one of a few lanes of events without one
  customer_id text,
  agreement_id text,
  plan text,
  occurred_ms integer,              -- null: unreadable, order unknown
  occurred_nanos integer,
  received_at_ms integer not null,
  status text not null default 'received' check (status in
    ('received', 'processing', 'waiting', 'failed', 'applied', 'ignored', 'skipped', 'dead')),
  result text,
  seen integer not null default 1,
  attempts integer not null default 0,
  outages integer not null default 0, -- waits for an unreachable provider; they use up no attempt
  next_at_ms integer,
  conflict integer not null default 0,
  content text not null,            -- hash of type, event_timestamp and data, keys sorted
  body text,                        -- the signed payload, byte for byte
  unique (provider, event_id)
) strict;
create index event_due on event (next_at_ms) where next_at_ms is not null;
create index event_by_lane on event (lane, next_at_ms);
create index event_by_status on event (status, id);
create index event_by_customer on event (customer_id, id);
create index event_with_body on event (received_at_ms) where body is not null;

-- One delivery of an event; the first 19 and the latest one are kept.
create table receipt (
  id text not null,
  number integer not null,
  at_ms integer not null,
  sent_at_ms integer not null,
  webhook_id text,                  -- unsigned: kept, never believed
  kid text not null,
  outcome text not null,
  note text,
  primary key (id, number)
) strict, without rowid;
create index receipt_by_webhook on receipt (webhook_id) where webhook_id is not null;
create index receipt_by_time on receipt (at_ms);

-- One at a time: who holds a customer's lane, until when and for which event. ticket is the last
-- one given to a fetch, written the highest one whose result was stored.
create table lane (
  lane text primary key,
  token text,
  lease_ends_at_ms integer,
  event text,
  ticket integer not null default 0,
  written integer not null default 0
) strict, without rowid;

-- Every claim of an event, with its end: shows that two of one lane never overlap.
create table run (
  id text not null,
  number integer not null,
  lane text not null,
  token text not null,
  began_at_ms integer not null,
  ended_at_ms integer,
  outcome text,
  primary key (id, number)
) strict, without rowid;

-- What a plan sync remembers of an account beyond its row.
create table plan_state (
  account_id text primary key,
  read_at_ms integer,               -- when the last complete read began
  known_ms integer,                 -- the newest plan change that is stored
  known_nanos integer not null default 0,
  wanted_plan text,                 -- named by the newest event or the checkout, not yet read
  wanted_ms integer,
  wanted_nanos integer not null default 0,
  empty_since_ms integer,           -- complete reads since then named no current agreement
  dirty integer not null default 0, -- a payload was applied unread; a read is owed
  followups integer not null default 0,
  followup_at_ms integer,
  payment_ms integer,
  payment_nanos integer not null default 0
) strict, without rowid;
create index plan_state_due on plan_state (followup_at_ms) where followup_at_ms is not null;

-- The balance of a cycle is its largest grant, so order and repeats do not matter.
create table grant_row (
  account_id text not null,
  cycle text not null,
  feature text not null,
  plan text not null,
  units integer not null check (units >= 0),
  granted_by text not null,
  at_ms integer not null,
  primary key (account_id, cycle, feature, plan)
) strict, without rowid;

-- One nightly plan reconcile; the unfinished one goes on.
create table plan_run (
  number integer primary key,
  began_at_ms integer not null,
  ended_at_ms integer,
  cursor text not null default '',  -- the last account that was looked at
  checked integer not null default 0,
  changed integer not null default 0,
  unreadable integer not null default 0
) strict;

-- A plan that a nightly read found other than stored, and the event that never came.
create table missed_event (
  account_id text not null,
  at_ms integer not null,
  type text not null,
  was text not null,
  found text not null,
  detail text not null,
  primary key (account_id, at_ms)
) strict, without rowid;

-- Raised once per subject, sent by cron until it was taken.
create table alert (
  kind text not null,
  subject text not null,
  detail text not null,             -- JSON
  raised_at_ms integer not null,
  attempts integer not null default 0,
  next_at_ms integer,               -- null: sent, or given up
  sent_at_ms integer,
  primary key (kind, subject)
) strict, without rowid;
create index alert_due on alert (next_at_ms) where next_at_ms is not null;

-- The provider's signing keys as last fetched.
create table signing_key (
  kid text primary key,
  n text not null,
  e text not null
) strict, without rowid;

-- When the signing keys were fetched, and when that was last tried.
create table signing_fetch (
  number integer primary key check (number = 1),
  fetched_at_ms integer,
  tried_at_ms integer not null
) strict;
