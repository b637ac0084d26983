//! The tables of an account's object. Steps only add: a step that was released is never changed.

use crate::ledger::feed;

/// One list of statements for each step.
pub const STEPS: &[&[&str]] = &[
    feed::STEP,
    &[
        // One row: what the object knows of its account, its current cycle, and the rate counter.
        "create table account (
        one integer primary key check (one = 1),
        account_id text not null,
        customer_id text,
        anchors text not null,
        cycle text not null,
        cycle_starts_ms integer not null,
        cycle_ends_ms integer not null,
        cycle_stored text not null,
        last_now_ms integer not null,
        jobs_per_minute integer,
        demo integer not null,
        minute integer not null,
        minute_jobs integer not null,
        tallies text not null
    ) strict",
        // One row: the provider's last complete answer about limits; a ring empties it.
        "create table limits (
        one integer primary key check (one = 1),
        rings integer not null,
        read_at_ms integer,
        failed_at_ms integer,
        answer text
    ) strict",
        // used: by ended jobs, and by running jobs in a cycle that is over. held: by running jobs.
        // booked: what the entries of this feature and cycle add up to.
        "create table budget (
        feature text not null,
        cycle text not null,
        used integer not null check (used >= 0),
        held integer not null check (held >= 0),
        booked integer not null check (booked >= 0),
        primary key (feature, cycle)
    ) strict, without rowid",
        // A job ends once; its row stays until its key may be used again.
        "create table job (
        job_id text primary key,
        key text not null,
        ask text not null,
        state text not null,
        capped integer not null,
        cycle text not null,
        lease_seconds integer not null,
        lease_ends_ms integer not null,
        created_ms integer not null,
        ended_ms integer,
        outcome text
    ) strict, without rowid",
        "create unique index job_by_key on job (key)",
        "create index job_running on job (job_id) where state = 'running'",
        // What a job holds of a feature in a cycle; the row of a cycle that is over is final.
        "create table hold (
        job_id text not null,
        feature text not null,
        cycle text not null,
        held integer not null,
        charged integer not null check (charged <= held),
        uncovered integer not null,
        late integer not null,
        primary key (job_id, feature, cycle)
    ) strict, without rowid",
        // A charge or extension under its caller's name, with its answer: it counts once.
        "create table step (
        job_id text not null,
        step text not null,
        ask text not null,
        answer text not null,
        primary key (job_id, step)
    ) strict, without rowid",
        // Ended jobs by the tenth of their hold that was charged; counts stay when jobs are pruned.
        "create table estimate (
        feature text not null,
        cycle text not null,
        tenth integer not null check (tenth between 0 and 9),
        jobs integer not null,
        capped integer not null,
        expired integer not null,
        held integer not null,
        charged integer not null,
        primary key (feature, cycle, tenth)
    ) strict, without rowid",
        // The last fifty refusals, for people.
        "create table refusal (
        slot integer primary key,
        number integer not null,
        at_ms integer not null,
        operation text not null,
        subject text not null,
        code text not null,
        feature text,
        reason text,
        asked integer,
        remaining integer
    ) strict",
    ],
    // Who ended the job in its owner's place, and why: JSON, where somebody did.
    &["alter table job add column by_hand text"],
    feed::COUNTED,
];
