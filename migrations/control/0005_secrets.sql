-- A secret that was made here, once, because none was set: the session key under DEV=1.
create table secret (
  name text primary key,
  value text not null,
  made_at_ms integer not null
) strict, without rowid;
