-- When the signing keys were last fetched because a delivery did not verify under those at hand:
-- strangers can bring about one such fetch in 30 seconds. A set that is fetched because the one
-- before was old does not count.
alter table signing_fetch add column forced_at_ms integer;
