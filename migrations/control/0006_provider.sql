-- The access token of the billing provider's management API.

-- One row for each address and client: the token that every isolate uses until renew_at_ms. Who
-- holds the claim renews it, so that not each isolate pays for a token of its own.
create table provider_token (
  source text primary key, -- address and client id
  access_token text,
  usable_until_ms integer not null default 0,
  renew_at_ms integer not null default 0,
  claimed_until_ms integer not null default 0
) strict, without rowid;
