-- By what a LEDGER_0 that was put back is recognised.

-- Of the reporter: the last token of LEDGER_0 (its meter_token) under which anything may have been
-- sent to a meter; null where none was given yet.
alter table cron add column token text;
