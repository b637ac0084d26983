-- By what a LEDGER_0 that was put back is recognised.

-- The tokens of runs and of senders of meters, in the order in which they were given. DB knows the
-- last one under which anything may have been sent: a ledger without it was put back.
create table meter_token (
  number integer primary key,
  token text not null unique,
  until_ms integer not null -- whoever has it is at work until then
) strict;
insert into meter_token (number, token, until_ms) values (1, 'none', 0);
-- The token of the last run.
alter table meter_run add column token text;
alter table meter_run add column began_at_ms integer not null default 0;

-- A token is kept in the same step in which it is given.
create trigger meter_token_of_sender after update of token on meter
  when new.token is not null and new.token is not old.token
begin
  insert or ignore into meter_token (token, until_ms) values (new.token, new.lease_until_ms);
end;
create trigger meter_token_of_run after update of token on meter_run
  when new.token is not null and new.token is not old.token
begin
  insert or ignore into meter_token (token, until_ms) values (new.token, new.began_at_ms);
end;
