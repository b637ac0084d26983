-- Meters, what each comparison found, the numbers of the runs, periods that stay different.

-- What the reporter and the reconciler know of a counter. told is the version that its current
-- meter has confirmed (the same as that meter's reported): version > told is the mark.
alter table counter add column told integer not null default 0;
alter table counter add column tried_run integer not null default 0;
alter table counter add column tried_at_ms integer not null default 0;
alter table counter add column wait_until_ms integer not null default 0;
-- The end of its cycle, once somebody asked the account's anchors.
alter table counter add column ends_at_ms integer;
-- The version at which its cycle was looked at after its end.
alter table counter add column looked integer not null default -1;
-- The part of a closed cycle's difference that a person left as it is.
alter table counter add column left_as_is integer not null default 0;
create index counter_marked on counter (tried_at_ms, ends_at_ms) where version > told;

-- One agreement's feature in one cycle, in the provider's one period; the greatest number of a
-- cycle is the current one, the others are never written again.
create table meter (
  account_id text not null,
  feature text not null,
  cycle text not null,
  number integer not null,
  agreement_id text not null,
  period_start_ms integer,
  base integer, -- what the cycle's earlier meters hold; null until it is fixed
  reported integer not null default -1, -- the counter's version that was last confirmed
  sent integer, -- the last total that the provider confirmed
  held integer, -- what it is known to hold: the later of what was confirmed and what was read
  provider integer, -- the last total read
  read_at_ms integer,
  in_doubt integer not null default 0, -- a write's outcome is unknown
  foreign_accepted integer not null default 0, -- a person let our total replace somebody else's
  review_id text, -- nothing is written until this item is closed
  token text, -- of the one who may write it now
  lease_until_ms integer not null default 0,
  claims integer not null default 0,
  last_at_ms integer,
  last_outcome text,
  last_detail text,
  primary key (account_id, feature, cycle, number)
) strict, without rowid;

-- What one comparison found; never changed. Numbers grow in the order in which rows were added.
create table evidence (
  number integer primary key,
  account_id text not null,
  feature text not null,
  cycle text not null,
  agreement_id text,
  ledger integer not null,
  counters integer not null,
  base integer not null,
  sent integer,
  provider integer,
  verdict text not null,
  cause text,
  repaired_to integer,
  read_back integer,
  at_ms integer not null
) strict;
create index evidence_by_pair on evidence (account_id, feature, cycle, number);

-- One row: the number of the last reporter run, written here before it is written to DB, and the
-- moment before which nothing is sent.
create table meter_run (
  only integer primary key check (only = 1),
  number integer not null,
  not_before_ms integer not null
) strict;
insert into meter_run (only, number, not_before_ms) values (1, 0, 0);

-- Since when the provider's period ends elsewhere than the account's cycle.
create table period_watch (
  account_id text primary key,
  cycle text not null,
  period_end_ms integer not null,
  since_ms integer not null
) strict, without rowid;
