-- Sessions that were signed out of. A session is a signed cookie; only its early end is stored.

-- A session that counts no more although its cookie says otherwise; forgotten once that ended too.
create table ended_session (
  session_id text primary key,
  until_ms integer not null
) strict, without rowid;
create index ended_session_by_end on ended_session (until_ms);
