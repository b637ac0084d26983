-- How far each cron job has come.

-- One cron job: when it last ran, the number of its last run, and where an unfinished pass goes on.
create table cron (
  name text primary key,
  number integer not null default 0,
  finished_at_ms integer,
  pass_day integer, -- the day (since 1970) whose nightly pass is under way or done
  pass_done integer not null default 0,
  after text, -- the last account that the pass has done
  found text -- JSON: what the pass has found so far
) strict, without rowid;

-- Agreements that changed since the reporter last looked.
create index agreement_by_read on agreement (read_at_ms, account_id, agreement_id);
