-- What the plain check of the Concurrency Lab believes to have spent; of demo runs only.

-- One job of a run that was let through by a check that is not one step with the spending.
create table lab_spend (
  run_id text not null,
  job integer not null,
  amount integer not null check (amount > 0),
  at_ms integer not null,
  primary key (run_id, job)
) strict, without rowid;
create index lab_spend_by_time on lab_spend (at_ms);
