//! Every `code` that an answer of this API may carry. `type` leads to `/docs#code`.

/// One code.
#[derive(Clone, Copy, Debug)]
pub struct ProblemKind {
    /// The HTTP status it comes with.
    pub status: u16,
    /// Stable; for machines.
    pub code: &'static str,
    /// What it means, and what to do.
    pub about: &'static str,
}

const fn kind(status: u16, code: &'static str, about: &'static str) -> ProblemKind {
    ProblemKind {
        status,
        code,
        about,
    }
}

/// All of them, by status.
#[rustfmt::skip]
pub static PROBLEMS: &[ProblemKind] = &[
    kind(400, "invalid_json", "The body does not parse, or is not a JSON object."),
    kind(400, "not_a_jwt", "The body is not a JWT."),
    kind(400, "unreadable", "The request itself does not read."),
    kind(401, "unauthorized", "There is no valid token. Send Authorization: Bearer TOKEN."),
    kind(401, "wrong_algorithm", "The event is not signed with RS256."),
    kind(401, "unknown_key", "The event's signing key is none of the provider's."),
    kind(401, "bad_signature", "The event's signature is not that of its key."),
    kind(401, "wrong_token", "It is signed, but it is not an event."),
    kind(401, "stale", "The event was sent too long ago, or too far ahead."),
    kind(402, "over_limit", "The amount does not fit: `reason` says why, `remaining` what would."),
    kind(403, "not_allowed", "The token is known, but its role may not do this."),
    kind(403, "origin", "A request with a session must come from a page of this service."),
    kind(403, "feature_not_in_plan", "The provider's complete answer does not name the feature."),
    kind(404, "not_found", "There is nothing here, or it is another account's."),
    kind(405, "method_not_allowed", "The path is known; `Allow` names its methods."),
    kind(409, "account_exists", "An account of that id was made with another body."),
    kind(409, "customer_taken", "Another account has that customer."),
    kind(409, "customer_fixed", "The account has another customer already."),
    kind(409, "anchor_fixed", "Usage was counted already, so the cycles can no longer move."),
    kind(409, "no_customer", "The account has no customer at the provider."),
    kind(409, "key_conflict", "The key or step was used with other content."),
    kind(409, "job_over", "The job has ended; `state` says how."),
    kind(409, "code_taken", "The code leads elsewhere, or expires at another moment."),
    kind(409, "nothing_left", "The entry was corrected wholly; nothing is left of it."),
    kind(409, "not_carried", "Only the difference of a closed cycle can be carried."),
    kind(409, "nothing_to_carry", "Nothing differs any more."),
    kind(409, "too_much", "The open cycle's total would pass 9,007,199,254,740,991."),
    kind(409, "in_doubt", "Nobody knows what the cycle's meters hold until a write is confirmed."),
    kind(409, "review_closed", "The item has ended already."),
    kind(409, "too_soon", "The end of the running cycle cannot be moved to so soon a moment."),
    kind(409, "event_applied", "The event was applied, so it cannot be skipped."),
    kind(409, "event_in_work", "The event is being applied right now."),
    kind(410, "gone", "The link is disabled or has expired."),
    kind(413, "too_large", "The body is larger than 256 KiB."),
    kind(422, "invalid_field", "A field or query parameter is wrong; `field` names it."),
    kind(422, "anchor_day", "A cycle may not begin on day 29 to 31 (LATE_ANCHOR=refuse)."),
    kind(422, "not_correctable", "This kind of entry cannot be corrected."),
    kind(429, "rate_limited", "Too many new jobs this minute; wait for Retry-After."),
    kind(503, "limit_unknown", "The limit cannot be read, so nothing is admitted; try again."),
    kind(503, "keys_unavailable", "The provider's signing keys cannot be read now; send it again."),
    kind(503, "prefetch", "A browser's prefetch is no click; a person's visit is answered."),
    kind(503, "provider_unreadable", "The provider cannot be read now; nothing was changed."),
    kind(503, "unavailable", "Something behind this service did not answer; safe to try again."),
    kind(503, "newer_schema", "The stored data was written by a newer release."),
    kind(503, "not_configured", "A setting or secret that this needs is missing; it is named."),
];
