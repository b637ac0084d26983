//! The stand-in's tables.

/// Its schema, step by step; steps only add.
pub const STEPS: &[&[&str]] = &[&[
    // A customer as it now is; without an agreement it has no plan.
    "create table customer (customer_id text primary key, agreement_id text, \
     limits text not null, subscribed_on_ms integer not null, \
     anchor_at_ms integer not null, anchor_day integer not null, \
     period_start_ms integer not null, period_end_ms integer not null) strict, without rowid",
    // Every agreement there ever was; the period is set once it has ended.
    "create table agreement (agreement_id text primary key, number integer not null, \
     customer_id text not null, plan text not null, created_at_ms integer not null, \
     expires_at_ms integer, period_start_ms integer, period_end_ms integer) \
     strict, without rowid",
    "create index agreement_by_customer on agreement (customer_id, number)",
    // A meter's total in one period; no row is zero.
    "create table meter (agreement_id text not null, feature text not null, \
     period_start_ms integer not null, total integer not null, at_ms integer not null, \
     primary key (agreement_id, feature, period_start_ms)) strict, without rowid",
    // A write whose answer was given up and which takes effect at its time.
    "create table late_write (number integer primary key, apply_at_ms integer not null, \
     write text not null) strict",
    // How an operation fails, and how often still; null is until it is changed.
    "create table fault (operation text primary key, mode text not null, times integer) \
     strict, without rowid",
    // What was asked, the newest thousand.
    "create table call (number integer primary key, at_ms integer not null, \
     operation text not null, method text not null, path text not null, query text not null, \
     body text not null, status integer, fault text) strict",
    // A token that this stand-in gave.
    "create table access_token (access_token text primary key, scopes text not null, \
     expires_at_ms integer not null) strict, without rowid",
    // A signing key; the newest signs, all are in the JWKS.
    "create table signing_key (number integer primary key, kid text not null, jwk text not null, \
     n text not null, e text not null, serve_until_ms integer) strict",
    // A delivery that was not answered 200 yet.
    "create table delivery (number integer primary key, target text not null, \
     webhook_id text not null, jwt text not null, attempts integer not null, \
     made_at_ms integer not null, next_at_ms integer not null) strict",
]];
