-- Counters that have entries and whose cycle nobody has asked for yet.
create index counter_without_end on counter (account_id, feature, cycle)
  where ends_at_ms is null and changed_at_ms > 0;
