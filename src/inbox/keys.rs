//! The provider's signing keys: by exact name, from the configured tenant only, remembered in the
//! isolate and in DB.
//!
//! A set is used for ten minutes, and for up to a day while no newer one can be had. A delivery
//! that does not verify under the set at hand forces a fetch, at most once in 30 seconds by
//! everybody together, whatever strangers send. A name that a set of that age does not have is
//! nobody's (401); where the fetch failed, nothing is known (503). Either way the sender tries
//! again.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::json;

use crate::fault::Fault;
use crate::params;
use crate::ports::Statement;
use crate::provider::SigningKey;
use crate::units::Millis;
use crate::world::World;

/// A set is used so long without a look at the provider.
const FRESH_MS: i64 = 10 * 60_000;
/// A set is used so long while the provider cannot be read.
const STALE_MS_MAX: i64 = 24 * 3_600_000;
/// At most one forced fetch, and at most one try after a failed one, in this time: a sender that
/// met no keys is told to come again after it.
pub const COOL_DOWN_MS: i64 = 30_000;
/// A fetch that somebody else began is waited for: so many pauses of so many milliseconds.
const PAUSES_MAX: u32 = 10;
/// See [`PAUSES_MAX`].
const PAUSE_MS: u32 = 200;
/// Keys of one set; a tenant has a few.
const KEYS_MAX: usize = 50;

/// What one isolate remembers of the keys.
#[derive(Default)]
pub struct Remembered(RefCell<Set>);

#[derive(Clone, Default)]
struct Set {
    keys: BTreeMap<String, SigningKey>,
    fetched_at: Option<Millis>,
    tried_at: Option<Millis>,
}

impl Set {
    /// The key, where the set is no older than that.
    fn key(&self, kid: &str, now: Millis, age_ms_max: i64) -> Option<SigningKey> {
        let fetched = self.fetched_at?;
        let fits = (0..=age_ms_max).contains(&now.since(fetched));
        self.keys.get(kid).filter(|_| fits).cloned()
    }

    /// Whether it needs no look at the provider yet.
    fn is_fresh(&self, now: Millis) -> bool {
        let age = self.fetched_at.map(|at| now.since(at));
        age.is_some_and(|age| (0..=FRESH_MS).contains(&age))
    }

    /// Whether the last try, not long ago, brought this set.
    fn is_just_fetched(&self, now: Millis) -> bool {
        let age = self.fetched_at.map(|at| now.since(at));
        self.fetched_at >= self.tried_at && age.is_some_and(|age| (0..=COOL_DOWN_MS).contains(&age))
    }
}

/// What is known of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The key, and whether it was fetched for this very question.
    Key(SigningKey, bool),
    /// The provider has no key of that name.
    Unknown,
    /// It cannot be found out now.
    OutOfReach,
}

/// The key of that name.
pub async fn find(world: &World, kid: &str) -> Found {
    let now = world.now();
    if let Some(key) = remembered(world).key(kid, now, FRESH_MS) {
        return Found::Key(key, false);
    }
    // Without DB the set of this isolate must do.
    let loaded = load(world).await;
    if let Some(key) = remembered(world).key(kid, now, FRESH_MS) {
        return Found::Key(key, false);
    }
    let mut is_new = false;
    if loaded.is_ok() {
        let why = if remembered(world).is_fresh(now) {
            Why::NotVerified
        } else {
            Why::Old
        };
        is_new = fetch_once(world, why, kid).await;
    }
    let set = remembered(world);
    let now = world.now();
    match set.key(kid, now, STALE_MS_MAX) {
        Some(key) => Found::Key(key, is_new),
        None if set.is_just_fetched(now) => Found::Unknown,
        None => Found::OutOfReach,
    }
}

/// The key of that name from a newer set than the one that `than` came from, if one may be
/// fetched now and has other material.
pub async fn newer(world: &World, than: &SigningKey) -> Option<SigningKey> {
    fetch_once(world, Why::NotVerified, &than.kid).await;
    let key = remembered(world).key(&than.kid, world.now(), FRESH_MS)?;
    (key != *than).then_some(key)
}

/// A delivery did not verify under a set that was fetched for it: that fetch was a forced one, and
/// there is no newer set to look for.
pub async fn count_as_forced(world: &World) -> Result<(), Fault> {
    let forced = "update signing_fetch set forced_at_ms = fetched_at_ms where number = 1";
    let forced = Statement::new(forced, params![]);
    world.db.query(forced).await.map(|_| ())
}

fn remembered(world: &World) -> Set {
    world.isolate.signing_keys.0.borrow().clone()
}

/// Takes the set from DB where it is newer than the isolate's.
async fn load(world: &World) -> Result<(), Fault> {
    let keys = Statement::new("select kid, n, e from signing_key", params![]);
    let fetch = Statement::new(
        "select fetched_at_ms, tried_at_ms from signing_fetch where number = 1",
        params![],
    );
    let results = world.db.batch(vec![keys, fetch]).await?;
    let [keys, fetch] = results.as_slice() else {
        return Err(Fault::unavailable("read the signing keys", "no answer"));
    };
    let Some(row) = fetch.first() else {
        return Ok(());
    };
    let mut set = Set {
        keys: BTreeMap::new(),
        fetched_at: row.opt_millis("fetched_at_ms")?,
        tried_at: Some(row.millis("tried_at_ms")?),
    };
    for row in keys {
        let key = SigningKey {
            kid: row.text("kid")?.to_owned(),
            n: row.text("n")?.to_owned(),
            e: row.text("e")?.to_owned(),
        };
        set.keys.insert(key.kid.clone(), key);
    }
    // While this was being read, another request may have fetched a newer set.
    let mut held = world.isolate.signing_keys.0.borrow_mut();
    if set.fetched_at < held.fetched_at {
        held.tried_at = held.tried_at.max(set.tried_at);
    } else {
        *held = set;
    }
    Ok(())
}

/// Why the set is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// There is none, or it has been used for ten minutes.
    Old,
    /// It lacks a name, or its key of that name did not verify.
    NotVerified,
}

/// Fetches the set, or waits a little for somebody who is fetching it. What comes of it is
/// remembered; a failure keeps the old keys. Whether this call has brought a set.
async fn fetch_once(world: &World, why: Why, kid: &str) -> bool {
    let now = world.now();
    match begin_fetch(world, now, why).await {
        Err(fault) => log(world, &fault.to_string()),
        Ok(true) => {
            world.isolate.signing_keys.0.borrow_mut().tried_at = Some(now);
            match world.provider.signing_keys().await {
                Ok(keys) if !keys.is_empty() => {
                    if let Err(fault) = store(world, keys, now, kid).await {
                        log(world, &fault.to_string());
                    }
                    return true;
                }
                Ok(_) => log(world, "the set is empty"),
                Err(fault) => log(world, &fault.to_string()),
            }
        }
        Ok(false) => {
            for _ in 0..PAUSES_MAX {
                let waits = load(world).await.is_ok() && {
                    let set = remembered(world);
                    let recent = set.tried_at.is_some_and(|at| {
                        (0..i64::from(PAUSES_MAX * PAUSE_MS)).contains(&world.now().since(at))
                    });
                    recent && set.fetched_at < set.tried_at
                };
                if !waits {
                    break;
                }
                world.timer.pause(PAUSE_MS).await;
            }
        }
    }
    false
}

fn log(world: &World, cause: &str) {
    let fields = json!({"cause": cause});
    world.log.line("warn", "inbox.keys_unavailable", fields);
}

/// Whether this caller is the one to fetch now. A try in the future was made before the clock was
/// put back.
async fn begin_fetch(world: &World, now: Millis, why: Why) -> Result<bool, Fault> {
    let begin = match why {
        Why::Old => {
            "insert into signing_fetch (number, tried_at_ms) values (1, ?1) \
             on conflict (number) do update set tried_at_ms = excluded.tried_at_ms \
             where tried_at_ms <= excluded.tried_at_ms - cast(?2 as integer) \
             or tried_at_ms > excluded.tried_at_ms returning tried_at_ms"
        }
        Why::NotVerified => {
            "update signing_fetch set tried_at_ms = ?1, forced_at_ms = ?1 where number = 1 \
             and (forced_at_ms is null or forced_at_ms > ?1 \
               or forced_at_ms <= cast(?1 as integer) - cast(?2 as integer)) \
             and (tried_at_ms = fetched_at_ms or tried_at_ms > ?1 \
               or tried_at_ms <= cast(?1 as integer) - cast(?2 as integer)) \
             returning tried_at_ms"
        }
    };
    let begin = Statement::new(begin, params![now, COOL_DOWN_MS]);
    Ok(!world.db.query(begin).await?.is_empty())
}

/// `kid` is the name that was asked for: a fetch that does not bring it was for a stranger.
async fn store(
    world: &World,
    keys: Vec<SigningKey>,
    began: Millis,
    kid: &str,
) -> Result<(), Fault> {
    let is_strangers = !keys.iter().any(|key| key.kid == kid);
    let list: Vec<[&str; 3]> = keys
        .iter()
        .take(KEYS_MAX)
        .map(|key| [key.kid.as_str(), key.n.as_str(), key.e.as_str()])
        .collect();
    let list = json!(list).to_string();
    let statements = vec![
        Statement::new("delete from signing_key", params![]),
        Statement::new(
            "insert into signing_key (kid, n, e) select json_extract(value, '$[0]'), \
             json_extract(value, '$[1]'), json_extract(value, '$[2]') from json_each(?1) \
             where true on conflict (kid) do nothing",
            params![list],
        ),
        Statement::new(
            "update signing_fetch set fetched_at_ms = ?1, \
             forced_at_ms = case when ?2 = 1 then ?1 else forced_at_ms end where number = 1",
            params![began, i64::from(is_strangers)],
        ),
    ];
    let set = Set {
        keys: (keys.into_iter().take(KEYS_MAX))
            .map(|key| (key.kid.clone(), key))
            .collect(),
        fetched_at: Some(began),
        tried_at: Some(began),
    };
    world.isolate.signing_keys.0.replace(set);
    world.db.batch(statements).await.map(|_| ())
}
