//! Every bound that is not a setting, each with its reason.

/// The largest body of a request: 256 KiB (api.md, "Rules for every route").
pub const BODY_BYTES_MAX: usize = 256 * 1024;

/// Rows of a list where `?limit=` is left out, and the most it may ask for (api.md).
pub const LIST_ROWS_DEFAULT: i64 = 50;
/// See [`LIST_ROWS_DEFAULT`].
pub const LIST_ROWS_MAX: i64 = 500;
