-- Short links.

-- A code leads to one destination of one account; it is never given again, so no row is deleted.
create table link (
  code text primary key, -- folded to lower case
  account_id text not null references account (account_id),
  destination text not null, -- byte for byte what the Location header says
  disabled integer not null default 0 check (disabled in (0, 1)),
  expires_at_ms integer,
  created_at_ms integer not null,
  updated_at_ms integer not null
) strict, without rowid;
create index link_by_account on link (account_id, code);
