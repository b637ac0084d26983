//! The reconciler: nightly and on demand, the ledger against its counters and the provider.
//!
//! Per account, feature and cycle it sums every entry in one statement, rebuilds a counter that
//! differs, reads the meter, and decides with a pure function. In an open cycle the repair is
//! always the ledger's total, written by the same function as every report and read back under the
//! same lease. Nothing is concluded while the ledger lacks what an object had confirmed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde_json::{Value as Json, json};

use crate::fault::Fault;
use crate::inbox::alerts;
use crate::ledger::base;
use crate::ledger::billed::{self, Billed};
use crate::ledger::compare::{Comparer, Count, Found, Seen, store_found};
use crate::ledger::evidence::Evidence;
use crate::ledger::meter::Pass;
use crate::ledger::meter_rules::Verdict;
use crate::ledger::meter_store::Pair;
use crate::ledger::runs::{self, Standing};
use crate::ledger::totals::{self, Sum};
use crate::ledger::{feeds, restored};
use crate::moment;
use crate::parallel;
use crate::params;
use crate::ports::{Later, Statement};
use crate::units::{AccountId, Millis};
use crate::world::{Calls, World};

/// Accounts in one page, and how many are worked on at once.
const PAGE_ROWS: i64 = 50;
/// See [`PAGE_ROWS`].
const AT_ONCE: u32 = 5;
/// What a page may cost beside its accounts, and a feature that is repaired.
const CALLS_PER_PAGE: u32 = 16;
/// See [`CALLS_PER_PAGE`]; its agreement may have been replaced.
const CALLS_PER_FEATURE: u32 = 15 + base::CALLS;
/// What reading an account's agreement again may cost.
const CALLS_PER_REFRESH: u32 = 20;

/// Which pass it is: each goes on where its last run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassName {
    /// Every night.
    Nightly,
    /// By the route or the button.
    Asked,
    /// The same, writing nothing.
    DryRun,
}

impl PassName {
    /// Its row in `cron`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nightly => "reconciler_nightly",
            Self::Asked => "reconciler",
            Self::DryRun => "reconciler_dry_run",
        }
    }
}

/// What one run found: counts of (account, feature, cycle).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// All that were looked at; each is one of `matched`, `repaired`, `unreadable`,
    /// `incomplete`, `failed` and `left`.
    pub checked: i64,
    /// Whose meter holds what the ledger says.
    pub matched: i64,
    /// Written and read back.
    pub repaired: i64,
    /// Differed though nothing was marked, whatever then became of it.
    pub drifted: i64,
    /// Whose meter could not be read.
    pub unreadable: i64,
    /// Of which the ledger lacks something.
    pub incomplete: i64,
    /// Whose repair was refused, or not read back as what was written.
    pub failed: i64,
    /// Which differ and were left so: a dry run, an open item, a closed cycle.
    pub left: i64,
    /// What a dry run found that does not match, the first of it; other runs store it.
    pub differs: Option<Vec<Evidence>>,
    /// Whether every account was looked at; otherwise the next run goes on.
    pub done: bool,
}

impl Summary {
    /// As the route answers it.
    pub fn json(&self) -> Json {
        let mut summary = json!({"checked": self.checked, "matched": self.matched,
            "repaired": self.repaired, "drifted": self.drifted, "unreadable": self.unreadable,
            "incomplete": self.incomplete, "failed": self.failed, "left": self.left,
            "done": self.done});
        if let (Some(differs), Some(members)) = (&self.differs, summary.as_object_mut()) {
            let differs = differs.iter().map(Evidence::json).collect();
            members.insert("differs".to_owned(), Json::Array(differs));
        }
        summary
    }

    fn add(&mut self, seen: Seen) {
        self.checked += 1;
        self.drifted += i64::from(seen.is_drift());
        let count = match seen.count() {
            Count::Matched => &mut self.matched,
            Count::Repaired => &mut self.repaired,
            Count::Unreadable => &mut self.unreadable,
            Count::Incomplete => &mut self.incomplete,
            Count::Failed => &mut self.failed,
            Count::Left => &mut self.left,
        };
        *count += 1;
    }
}

/// What one account may cost, with all that stands around it.
pub fn calls_least(world: &World) -> u32 {
    CALLS_PER_PAGE + world.settings.shards + calls_per_account(world)
}

fn calls_per_account(world: &World) -> u32 {
    2 + CALLS_PER_REFRESH + features(world) * CALLS_PER_FEATURE
}

fn features(world: &World) -> u32 {
    u32::try_from(world.settings.features.len()).unwrap_or(1)
}

/// What the calls that are left suffice for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    /// Accounts of the next page, most of which cost a visit and a read of each feature.
    rows: i64,
    /// How many of them are worked on at once.
    at_once: u32,
    /// With fewer calls left none but the first is begun: those under way may need them.
    reserve: u32,
}

impl Share {
    fn of(world: &World, left: u32) -> Self {
        let left = left.saturating_sub(CALLS_PER_PAGE);
        let per_account = calls_per_account(world);
        let at_once = (left / (2 * per_account)).clamp(1, AT_ONCE);
        let reserve = at_once * per_account;
        let rows = left.saturating_sub(reserve) / (1 + features(world));
        Self {
            rows: i64::from(rows).min(PAGE_ROWS),
            at_once,
            reserve: CALLS_PER_PAGE + reserve,
        }
    }
}

/// Goes on with the pass; begins a new one where the last was done.
pub async fn run(world: &Rc<World>, calls: &Calls, pass_name: PassName) -> Result<Summary, Fault> {
    let mut place = Place::load(world, pass_name).await?;
    let is_dry = pass_name == PassName::DryRun;
    let standing = runs::standing(world).await?;
    let goes_on = !place.after.is_empty();
    if !goes_on {
        place.filling = None;
        if standing.restored && !is_dry {
            place.filling = Some(runs::begin_filling(world).await?);
        }
    }
    let mut run = Run::begin(world, calls, standing, is_dry).await?;
    run.skips_demo = true;
    if place.filling.is_some() && run.visits == Visits::WhoMayOwe {
        run.visits = Visits::Everybody;
    }
    place.behind += run.shards_behind;
    let mut summary = Summary::default();
    loop {
        let left = calls.left();
        let mut share = Share::of(world, left);
        if summary.checked == 0 && left > CALLS_PER_PAGE {
            // The first page has at least one account, so that every run gets on.
            share.rows = share.rows.max(1);
        }
        if share.rows == 0 {
            break;
        }
        let page = billed::page(&*world.db, &place.after, share.rows).await?;
        let is_last = i64::try_from(page.len()).unwrap_or(0) < share.rows;
        let turn = run.accounts(page, share, &mut summary).await?;
        place.behind += turn.behind;
        if is_last && turn.is_whole {
            summary.done = true;
            break;
        }
        if let Some(last) = turn.last {
            place.after = last.to_string();
        }
        if !is_dry {
            place.store(world, pass_name).await?;
        }
    }
    if summary.done {
        let is_whole = run.restored && place.behind == 0 && !is_dry;
        if let Some(filling) = place.filling.filter(|_| is_whole) {
            runs::caught_up(world, &filling).await?;
        }
        place = Place::default();
    }
    // A dry run that was done at once has nothing to write, not even where it stands.
    if goes_on || !summary.done || !is_dry {
        place.store(world, pass_name).await?;
    }
    summary.differs = run.differs();
    Ok(summary)
}

/// One account, now, whatever pass is under way.
pub async fn run_account(
    world: &Rc<World>,
    calls: &Calls,
    account_id: &AccountId,
    dry_run: bool,
) -> Result<Summary, Fault> {
    let run = Run::begin(world, calls, runs::standing(world).await?, dry_run).await?;
    let mut summary = Summary::default();
    let page = billed::load(&*world.db, std::slice::from_ref(account_id)).await?;
    let share = Share::of(world, calls.left());
    run.accounts(page, share, &mut summary).await?;
    summary.done = true;
    summary.differs = run.differs();
    Ok(summary)
}

/// Where a pass stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Place {
    after: String,
    /// Where the ledger was known to be restored when the pass began: a token of that ledger.
    filling: Option<String>,
    /// Objects that were behind.
    behind: i64,
}

impl Place {
    async fn load(world: &World, pass: PassName) -> Result<Self, Fault> {
        let sql = "select after, found from cron where name = ?1";
        let statement = Statement::new(sql, params![pass.name()]);
        let rows = world.db.query(statement).await?;
        let Some(row) = rows.first() else {
            return Ok(Self::default());
        };
        let found: Json = row
            .opt_text("found")?
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        Ok(Self {
            after: row.opt_text("after")?.unwrap_or_default().to_owned(),
            filling: found
                .get("filling")
                .and_then(Json::as_str)
                .map(str::to_owned),
            behind: found.get("behind").and_then(Json::as_i64).unwrap_or(0),
        })
    }

    async fn store(&self, world: &World, pass: PassName) -> Result<(), Fault> {
        let found = json!({"filling": self.filling, "behind": self.behind}).to_string();
        let sql = "insert into cron (name, after, found) values (?1, ?2, ?3) \
            on conflict (name) do update set after = excluded.after, found = excluded.found";
        let params = params![pass.name(), self.after.as_str(), found];
        world.db.query(Statement::new(sql, params)).await?;
        Ok(())
    }
}

/// Which accounts' objects are handed their rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visits {
    /// A dry run lets nothing be written.
    Nobody,
    /// Those of accounts that may ever have had a job, and those that have a feed, whatever DB
    /// says of them: no other owes the ledger anything.
    WhoMayOwe,
    /// A ledger that was put back may have forgotten any of them.
    Everybody,
}

struct Run<'a> {
    world: &'a Rc<World>,
    calls: &'a Calls,
    pass: Pass,
    restored: bool,
    visits: Visits,
    shards_behind: i64,
    is_dry: bool,
    /// Demonstrations are compared only where one is named.
    skips_demo: bool,
    differs: RefCell<Vec<Evidence>>,
    matches: RefCell<Vec<Found>>,
}

/// How far a page came.
struct PageTurn {
    /// Whether every account was looked at.
    is_whole: bool,
    /// The last one that was.
    last: Option<AccountId>,
    /// Of those that were, how many have an object that is behind.
    behind: i64,
}

/// One account, as it is compared.
struct Work<'a> {
    billed: &'a Billed,
    sums: Vec<Sum>,
    is_complete: bool,
    /// Begun only where more calls than these are left.
    reserve: u32,
}

impl<'a> Run<'a> {
    async fn begin(
        world: &'a Rc<World>,
        calls: &'a Calls,
        standing: Standing,
        is_dry: bool,
    ) -> Result<Self, Fault> {
        let shards_behind = if is_dry {
            0
        } else {
            feeds::hand_to_shards(world).await?
        };
        Ok(Self {
            world,
            calls,
            visits: match (is_dry, standing.restored) {
                (true, _) => Visits::Nobody,
                (false, true) => Visits::Everybody,
                (false, false) => Visits::WhoMayOwe,
            },
            restored: standing.restored,
            pass: Pass::new(standing.number, standing.token),
            shards_behind,
            is_dry,
            skips_demo: false,
            differs: RefCell::default(),
            matches: RefCell::default(),
        })
    }

    /// What a dry run found, in the order of accounts, features and cycles.
    fn differs(&self) -> Option<Vec<Evidence>> {
        let mut found = self.differs.take();
        found.sort_by(|a, b| a.pair.cmp(&b.pair));
        self.is_dry.then_some(found)
    }

    /// Hands the accounts' objects their rows. Gives those that are behind.
    async fn visit(
        &self,
        page: &BTreeMap<AccountId, Billed>,
    ) -> Result<BTreeSet<AccountId>, Fault> {
        if self.visits == Visits::Nobody {
            return Ok(BTreeSet::new());
        }
        let mut accounts = feeds::rows_of_accounts(self.world, page.keys()).await?;
        let may_have_jobs =
            |id: &AccountId| page.get(id).is_none_or(|one| one.account.may_have_jobs);
        if self.visits == Visits::WhoMayOwe {
            accounts.retain(|(id, rows)| !rows.is_empty() || may_have_jobs(id));
        }
        Ok(feeds::hand_to_accounts(self.world, accounts).await)
    }

    /// Looks at these accounts in their order, as far as the calls suffice.
    async fn accounts(
        &self,
        mut page: BTreeMap<AccountId, Billed>,
        share: Share,
        summary: &mut Summary,
    ) -> Result<PageTurn, Fault> {
        let behind = self.visit(&page).await?;
        let mut last = page.keys().next_back().cloned();
        page.retain(|_, one| !(self.skips_demo && one.account.demo));
        if self.restored && !self.is_dry {
            restored::doubt_meters(self.world, &page).await?;
        }
        let mut sums = self.sums(&page).await?;
        let mut reserve = 0;
        let works = page
            .iter()
            .map(|(id, billed)| -> Later<'_, _> {
                let lacks = behind.contains(id) || self.shards_behind > 0;
                let work = Work {
                    billed,
                    sums: sums.remove(id).unwrap_or_default(),
                    is_complete: !self.restored && !lacks,
                    reserve: std::mem::replace(&mut reserve, share.reserve),
                };
                Box::pin(self.account(work))
            })
            .collect();
        let at_once = usize::try_from(share.at_once).unwrap_or(1);
        let seen = parallel::all(works, at_once).await;
        let begun: Vec<_> = page
            .keys()
            .zip(seen.into_iter().map_while(|seen| seen))
            .collect();
        let is_whole = begun.len() == page.len();
        if !is_whole {
            last = begun.last().map(|(id, _)| (*id).clone());
        }
        for seen in begun.into_iter().flat_map(|(_, seen)| seen) {
            summary.add(seen);
        }
        self.store_matches().await;
        let behind = behind.iter().filter(|id| Some(*id) <= last.as_ref());
        Ok(PageTurn {
            behind: i64::try_from(behind.count()).unwrap_or(i64::MAX),
            is_whole,
            last,
        })
    }

    /// What is to be compared of each account.
    async fn sums(
        &self,
        page: &BTreeMap<AccountId, Billed>,
    ) -> Result<BTreeMap<AccountId, Vec<Sum>>, Fault> {
        let now = self.world.now();
        let ids: Vec<AccountId> = page.keys().cloned().collect();
        let current: Vec<Pair> = page
            .values()
            .flat_map(|billed| self.current_pairs(billed, now))
            .collect();
        let mut sums: BTreeMap<AccountId, Vec<Sum>> = BTreeMap::new();
        for sum in totals::sums(&*self.world.ledger, &current, &ids).await? {
            let id = sum.pair.account_id.clone();
            sums.entry(id).or_default().push(sum);
        }
        Ok(sums)
    }

    /// One account, a pair after the other. `None` where too few calls are left to begin it, as for
    /// all that come after it.
    async fn account(&self, work: Work<'_>) -> Option<Vec<Seen>> {
        if self.calls.left() < work.reserve {
            return None;
        }
        let mut seen = Vec::with_capacity(work.sums.len());
        for sum in &work.sums {
            seen.extend(self.isolated(sum, work.billed, work.is_complete).await);
        }
        Some(seen)
    }

    /// What pairs that matched leave behind, all of a page in one batch. Where that fails each is
    /// tried alone: a match that left no evidence is found again by the next run.
    async fn store_matches(&self) {
        let matches = self.matches.take();
        let ledger = &self.world.ledger;
        if matches.is_empty() || ledger.batch(store_found(&matches)).await.is_ok() {
            return;
        }
        for one in matches {
            if let Err(fault) = ledger.batch(store_found(&[one])).await {
                let fields = json!({"cause": fault.to_string()});
                self.world.log.line("error", "reconciler.fault", fields);
            }
        }
    }

    /// The current cycle of every metered feature of an account with an agreement.
    fn current_pairs(&self, billed: &Billed, now: Millis) -> Vec<Pair> {
        let Some(agreement) = &billed.agreement else {
            return Vec::new();
        };
        let cycle = billed.account.cycle_at(now).name;
        let features = self.world.settings.features.iter();
        features
            .filter(|(_, feature)| agreement.contains(&feature.provider_key))
            .map(|(name, _)| Pair {
                account_id: billed.account.account_id.clone(),
                feature: name.clone(),
                cycle: cycle.clone(),
            })
            .collect()
    }

    /// Drift is alerted once a day for each pair; an alert that cannot be raised stops nothing.
    async fn alert(&self, sum: &Sum, seen: Seen) {
        let (pair, now) = (&sum.pair, self.world.now());
        let day = now.get().div_euclid(moment::DAY_MS);
        let subject = format!("{}/{}/{}/{day}", pair.account_id, pair.feature, pair.cycle);
        let detail = json!({"account": pair.account_id.as_str(),
            "feature": pair.feature.as_str(), "cycle": pair.cycle.as_str(),
            "verdict": seen.verdict.name()});
        let alert = alerts::raise("drift", &subject, &detail, now);
        if let Err(fault) = self.world.db.query(alert).await {
            let fields = json!({"subject": subject, "cause": fault.to_string()});
            self.world.log.line("error", "reconciler.no_alert", fields);
        }
    }

    /// One account's failure stops nobody else's.
    async fn isolated(&self, sum: &Sum, billed: &Billed, is_complete: bool) -> Option<Seen> {
        let comparer = Comparer {
            world: self.world,
            pass: &self.pass,
            is_dry: self.is_dry,
            is_demo: billed.account.demo,
            differs: &self.differs,
            matches: &self.matches,
        };
        match comparer.pair(sum, billed, is_complete).await {
            Ok(seen) => {
                if let Some(seen) = seen.filter(|seen| !self.is_dry && seen.is_drift()) {
                    self.alert(sum, seen).await;
                }
                seen
            }
            Err(fault) => {
                let fields = json!({"account": sum.pair.account_id.as_str(),
                    "feature": sum.pair.feature.as_str(), "cause": fault.to_string()});
                self.world.log.line("error", "reconciler.fault", fields);
                Some(Seen {
                    is_failed: true,
                    ..Seen::only(Verdict::Unreadable, false)
                })
            }
        }
    }
}
