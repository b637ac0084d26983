//! Every bound that is not a setting, each with its reason.

/// The largest body of a request: 256 KiB (api.md, "Rules for every route").
pub const BODY_BYTES_MAX: usize = 256 * 1024;
/// Of a larger body so much more is read and thrown away, so that its sender hears the 413 and not
/// a broken connection: 8 MiB, far more than any honest client sends by mistake.
pub const BODY_BYTES_DROPPED_MAX: usize = 8 * 1024 * 1024;

/// Items of one `POST /v1/usage` (api.md).
pub const USAGE_ITEMS_MAX: usize = 100;

/// A person's reason: a sentence or two.
pub const REASON_CHARS_MAX: usize = 500;

/// The longest payload of an event that a list shows, so that a list of 500 fits into an isolate:
/// real ones have about 1 KiB. A longer one is shown with its event alone.
pub const PAYLOAD_LISTED_BYTES_MAX: i64 = 16 * 1024;

/// Rows of a list where `?limit=` is left out, and the most it may ask for (api.md).
pub const LIST_ROWS_DEFAULT: i64 = 50;
/// See [`LIST_ROWS_DEFAULT`].
pub const LIST_ROWS_MAX: i64 = 500;

/// API keys and accounts that an isolate remembers; more empty the memory (some 5 MB).
pub const REMEMBERED_MAX: usize = 10_000;
/// An account is remembered for a minute at most, whatever `KEY_CACHE_SECONDS` says: a moved end
/// of its cycle lies ten minutes ahead when it is stored.
pub const ACCOUNT_MEMORY_MS_MAX: i64 = 60_000;
/// A key's last use is noted to about ten minutes, so that using it costs no write.
pub const KEY_USE_NOTED_MS: i64 = 600_000;

/// A session of the pages lasts 12 hours (api.md, "Pages").
pub const SESSION_MS: i64 = 12 * 3_600_000;
/// An account's or a key's name, for people, in characters.
pub const NAME_CHARS_MAX: usize = 200;
/// New jobs a minute of one account: as the setting `JOBS_PER_MINUTE`.
pub const JOBS_PER_MINUTE_MAX: i64 = 10_000_000;
/// The stand-in's clock moves a hundred years at most: an offset cannot be taken back, and past the
/// year 9999 no time can be written.
pub const CLOCK_OFFSET_MS_MAX: i64 = 100 * 366 * 86_400_000;
/// The longest destination of a link: browsers open it, and with it the whole head of an answer
/// stays under the 16 KiB that strict HTTP clients accept.
pub const DESTINATION_BYTES_MAX: usize = 8192;
/// Links that an isolate remembers in each of its two generations (some 10 MB together).
pub const LINKS_REMEMBERED_MAX: usize = 20_000;

/// Sides of a QR picture in pixels (api.md, "Links and clicks").
pub const QR_PIXELS_MIN: u32 = 64;
/// See [`QR_PIXELS_MIN`].
pub const QR_PIXELS_MAX: u32 = 2048;
/// See [`QR_PIXELS_MIN`].
pub const QR_PIXELS_DEFAULT: u32 = 512;

/// After a failed read of the limits the next comes no sooner: a provider that is down is not
/// asked by every admission (design.md, "The gate").
pub const LIMIT_PAUSE_MS: i64 = 5_000;
/// The longest that a provider's 429 keeps the limits of one account from being read again.
pub const LIMIT_PAUSE_MS_MAX: i64 = 60_000;
/// `Retry-After` where an account has no customer: somebody has to give it one first.
pub const NO_CUSTOMER_RETRY_SECONDS: i64 = 30;
/// Reads of the limits that one call waits for: one, and one more for each ring that throws an
/// answer away; a call that meets more rings than that is told to come again.
pub const LIMIT_READS_MAX: u32 = 4;
/// New jobs that travel to an account's object in one call: each is decided on its own, and one
/// call must stay short.
pub const ADMIT_TOGETHER_MAX: usize = 64;
/// Old jobs that one visit forgets: what is left is forgotten a minute later.
pub const PRUNE_JOBS_MAX: i64 = 500;
/// What the Concurrency Lab may race: it is for looking at, and each job is three requests.
pub const LAB_JOBS_MAX: i64 = 50;
/// Amounts and limits of the Concurrency Lab: sums of all its jobs stay far within what is exact.
pub const LAB_AMOUNT_MAX: i64 = 1_000_000_000;
