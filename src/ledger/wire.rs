//! Messages to a shard and its answers, version 2; version 1 is still read.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::{Deserialize, Serialize};

use super::entry::EntryWire;
use super::stream::FeedRow;
use crate::fault::Fault;

/// The version of these messages.
pub const VERSION: u8 = 2;

/// What a shard is asked. Each message tells it its number, which the platform does not. Whoever
/// writes one may only borrow the clicks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum ShardAsk<Click = ClickWire> {
    /// Take these clicks in. Answered with [`Recorded`]. Safe to repeat.
    Record {
        /// See [`VERSION`].
        v: u8,
        /// This shard's number.
        shard: u32,
        /// The clicks in their bundles. A click stays in one bundle for its life, whose clicks
        /// never change: so a bundle is known by its first click.
        bundles: Vec<Vec<Click>>,
        /// Sums that the sender could not write elsewhere.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        tallies: BTreeMap<String, i64>,
    },
    /// Compare your stream with these rows of the ledger and send what it lacks. Answered with
    /// [`super::feed::FeedState`].
    TakeFeed {
        /// See [`VERSION`].
        v: u8,
        /// This shard's number.
        shard: u32,
        /// Every row of this shard.
        rows: Vec<FeedRow>,
    },
    /// The stand-in's clock was moved.
    Clock {
        /// See [`VERSION`].
        v: u8,
        /// Added to every reading of the time.
        offset_ms: i64,
    },
}

/// A message as it is read, in one pass: by its tag alone `serde` would read everything twice.
#[derive(Deserialize)]
struct Any {
    ask: String,
    v: u8,
    shard: Option<u32>,
    bundles: Option<Vec<Vec<ClickWire>>>,
    /// Of version 1, which put the same click together with others on another try.
    clicks: Option<Vec<ClickWire>>,
    #[serde(default)]
    tallies: BTreeMap<String, i64>,
    rows: Option<Vec<FeedRow>>,
    offset_ms: Option<i64>,
}

impl ShardAsk {
    /// From the text of a message.
    pub fn of_json(text: &str) -> Result<Self, Fault> {
        let wrong = |cause: &dyn Display| Fault::unreadable("read a message to a shard", cause);
        let any: Any = serde_json::from_str(text).map_err(|e| wrong(&e))?;
        let v = any.v;
        let alone = |clicks: Vec<ClickWire>| clicks.into_iter().map(|click| vec![click]).collect();
        let bundles = any.bundles.or(any.clicks.map(alone));
        match (
            any.ask.as_str(),
            any.shard,
            bundles,
            any.rows,
            any.offset_ms,
        ) {
            ("record", Some(shard), Some(bundles), ..) => Ok(Self::Record {
                v,
                shard,
                bundles,
                tallies: any.tallies,
            }),
            ("take_feed", Some(shard), _, Some(rows), _) => Ok(Self::TakeFeed { v, shard, rows }),
            ("clock", .., Some(offset_ms)) => Ok(Self::Clock { v, offset_ms }),
            (ask, ..) => Err(wrong(&format!("{ask} is not whole, or not known"))),
        }
    }
}

impl<Click> ShardAsk<Click> {
    /// The version that the sender speaks.
    pub const fn version(&self) -> u8 {
        match self {
            Self::Record { v, .. } | Self::TakeFeed { v, .. } | Self::Clock { v, .. } => *v,
        }
    }
}

/// A click on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClickWire {
    /// Its entry.
    pub entry: EntryWire,
    /// The correction that the redirect already knows of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correction: Option<EntryWire>,
    /// Who clicked; sent only where the double-click rule is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visitor: Option<Visitor>,
}

/// A click as it is sent: borrowed from whoever keeps it until it is written.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ClickSent<'a> {
    entry: &'a EntryWire,
    #[serde(skip_serializing_if = "Option::is_none")]
    correction: Option<&'a EntryWire>,
    #[serde(skip_serializing_if = "Option::is_none")]
    visitor: Option<&'a Visitor>,
}

impl ClickWire {
    /// For its visitor's own shard, or any where the double-click rule is off.
    pub const fn sent(&self) -> ClickSent<'_> {
        ClickSent {
            entry: &self.entry,
            correction: self.correction.as_ref(),
            visitor: self.visitor.as_ref(),
        }
    }

    /// For a shard that is not its visitor's own: two shards that each know one of two quick
    /// clicks would take both of them back.
    pub const fn sent_unjudged(&self) -> ClickSent<'_> {
        ClickSent {
            visitor: None,
            ..self.sent()
        }
    }

    /// The entries that it brings.
    pub fn entries(&self) -> impl Iterator<Item = &EntryWire> {
        [Some(&self.entry), self.correction.as_ref()]
            .into_iter()
            .flatten()
    }
}

/// What tells one visitor from another; never stored as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visitor {
    /// The connecting address as the platform gives it.
    pub address: String,
    /// The user agent.
    pub user_agent: String,
}

/// The clicks are in the shard's storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// How many of them were new.
    pub taken: usize,
}
