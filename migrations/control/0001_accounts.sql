-- Accounts, their API keys, anchors, cycles and agreements; the audit; sums for /metrics.

-- One customer of the operator. A customer at the provider belongs to one account.
create table account (
  account_id text primary key,
  name text,
  customer_id text unique,
  ledger text not null default 'LEDGER_0',
  jobs_per_minute integer,
  plan text not null,
  plan_since_ms integer,
  payment text not null default 'ok',
  agreement_id text,
  demo integer not null default 0,
  created_with text not null, -- the creating body, normalised: the same again is answered alike
  created_at_ms integer not null
) strict, without rowid;

-- A key works until it is revoked; only the hash of its secret is here.
create table api_key (
  key_id text primary key,
  account_id text not null references account (account_id),
  name text,
  secret_hash text not null,
  created_at_ms integer not null,
  last_used_at_ms integer,
  revoked_at_ms integer
) strict, without rowid;
create index api_key_by_account on api_key (account_id, key_id);

-- Number 1 is the account's anchor, free to change until it is fixed; further ones each moved the
-- end of the cycle that starts at opens_ms.
create table anchor (
  account_id text not null references account (account_id),
  number integer not null,
  at_ms integer not null,
  day integer not null check (day between 1 and 31),
  opens_ms integer,
  source text not null,
  fixed_at_ms integer,
  primary key (account_id, number)
) strict, without rowid;

-- A cycle that something refers to.
create table cycle (
  account_id text not null references account (account_id),
  name text not null,
  starts_at_ms integer not null,
  ends_at_ms integer not null,
  primary key (account_id, name)
) strict, without rowid;
create index cycle_by_end on cycle (ends_at_ms, account_id);

-- What the provider last said of an agreement; one of an account is the current one, the account
-- row says which.
create table agreement (
  account_id text not null references account (account_id),
  agreement_id text not null,
  plan text not null,
  feature_keys text not null, -- JSON list of the provider's keys
  period_start_ms integer,
  period_end_ms integer,
  expires_at_ms integer,
  read_at_ms integer not null,
  first_seen_ms integer not null,
  primary key (account_id, agreement_id)
) strict, without rowid;

-- Who did what by hand, and why.
create table audit (
  audit_id text primary key,
  at_ms integer not null,
  actor text not null,
  action text not null,
  target text not null,
  account_id text,
  reason text
) strict, without rowid;
create index audit_by_account on audit (account_id, audit_id);

-- Sums for /metrics; the name carries its labels as Prometheus writes them.
create table tally (
  name text primary key,
  total integer not null
) strict, without rowid;
