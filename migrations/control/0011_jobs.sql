-- Whether an account's object may ever have admitted a job: one that never did owes the ledger
-- nothing, so the reconciler does not wake it.

-- Set before the first admission. Accounts of which nobody knows, because a release that did not
-- say so made them, are taken to have had jobs.
alter table account add column may_have_jobs integer not null default 1;
