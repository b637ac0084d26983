-- Entries, their counters, the feeds that bring them, what a person must look at, sums.

-- One fact of usage, never changed and never deleted; whoever repeats it brings the same id.
create table entry (
  entry_id text primary key,
  account_id text not null,
  feature text not null,
  cycle text not null,
  units integer not null check (units <> 0),
  kind text not null check (kind in ('click', 'usage', 'job', 'correction', 'carry')),
  code text,
  job_id text,
  key text,
  corrects text,
  reason text,
  rule text, -- of a correction made by a rule: which, and its version; a person's has an actor
  actor text,
  country text,
  referrer_host text,
  occurred_at_ms integer not null,
  recorded_at_ms integer not null
) strict, without rowid;
-- Sums of a cycle, by code, day or reason, read nothing but this index.
create index entry_by_cycle on entry
  (account_id, feature, cycle, code, kind, units, reason, rule, occurred_at_ms);
create index entry_by_time on entry (account_id, occurred_at_ms, entry_id, code);
create index entry_by_corrects on entry (corrects, units) where corrects is not null;
create index entry_by_job on entry (account_id, job_id, occurred_at_ms)
  where job_id is not null;

-- Always the sum of the entries of its account, feature and cycle, changed in the same batch as
-- they are; version grows with every change of the sum.
create table counter (
  account_id text not null,
  feature text not null,
  cycle text not null,
  total integer not null,
  version integer not null,
  archived integer not null default 0, -- the part of total whose entries were exported and dropped
  changed_at_ms integer not null,
  primary key (account_id, feature, cycle)
) strict, without rowid;
create index counter_by_cycle on counter (cycle, account_id);

-- How far an object's stream of numbered batches has come, one row for each life of its storage.
create table feed (
  object text not null,
  epoch text not null,
  last integer not null,
  last_id text not null,
  due_at_ms integer, -- when the object next owes something; null when it owes nothing
  first_at_ms integer not null,
  last_at_ms integer not null,
  primary key (object, epoch)
) strict, without rowid;
create index feed_by_due on feed (due_at_ms, object) where due_at_ms is not null;

-- What a person must look at. Its id is made from what it is about, so that it opens once.
create table review (
  review_id text primary key,
  kind text not null,
  account_id text,
  feature text,
  cycle text,
  numbers text not null, -- JSON
  opened_at_ms integer not null,
  closed_at_ms integer,
  closed_by text,
  outcome text, -- closed or carried
  reason text
) strict, without rowid;
create index review_open on review (opened_at_ms, review_id) where closed_at_ms is null;
create index review_by_account on review (account_id, opened_at_ms);

-- Never holds a row: a guard that finds its condition broken inserts null and fails the batch.
create table guard (
  held integer not null
) strict;

-- Sums for /metrics; the name carries its labels as Prometheus writes them.
create table tally (
  name text primary key,
  total integer not null
) strict, without rowid;
