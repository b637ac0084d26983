//! How a click gets into the ledger, after its redirect was answered.
//!
//! A click has one id, made before anything is written, and the same on every try: to a shard,
//! then to another, then straight to the ledger database by the same SQL. Clicks of one isolate
//! that arrive while a write is under way travel together in the next; because the request that
//! carries them may be gone, others watch by timers of their own and send what nobody has
//! confirmed for a while, in the same bundles.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::json;

use super::batch;
use super::cycles::{self, cycle_for};
use super::entry::{Entry, EntryKind};
use super::shard::tally_name;
use super::travelling::{Bundle, Fate, Window};
use super::wire::{ClickSent, ClickWire, Recorded, ShardAsk, VERSION, Visitor};
use crate::fault::{Fault, FaultKind};
use crate::params;
use crate::ports::{ObjectName, Statement};
use crate::tally;
use crate::units::{AccountId, CycleName, Delta, EntryId, FeatureName, LinkCode, Millis};
use crate::world::{World, mint};

/// The feature that a click is usage of.
pub const FEATURE: &str = "clicks";
/// Clicks that travel in one message at most.
const TOGETHER_MAX: usize = 1_000;
/// For so long a message gathers clicks before it goes: a shard commits to its disk once for all
/// of them, and redirects do not wait behind a commit for each few.
const GATHER_MS: u32 = 50;
/// Messages that one request carries for others before it is done.
const ROUNDS_MAX: u32 = 20;
/// A carrier that was not heard of for so long is gone.
const SILENT_MS: i64 = 2_000;
/// For so long one request watches; the platform ends what it does after its answer soon after.
const WATCH_MS_MAX: u32 = 20_000;
/// The first pause between two looks at the shared result, about what gathering and writing take;
/// doubled up to the longest.
const LOOK_MS: u32 = 80;
const LOOK_MS_MAX: u32 = 160;
/// For how long an isolate's clicks go to one shard.
const STEADY_MS: i64 = 10_000;
/// Pauses between tries to learn the click's cycle.
const CYCLE_PAUSES_MS: [u32; 3] = [100, 500, 2_000];

/// A click, as the redirect knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Click {
    /// Whose link.
    pub account_id: AccountId,
    /// Which link.
    pub code: LinkCode,
    /// When it was answered.
    pub at: Millis,
    /// Two letters, as the platform says.
    pub country: Option<String>,
    /// The host that referred the visitor.
    pub referrer_host: Option<String>,
    /// Who clicked.
    pub visitor: Visitor,
    /// Why it does not count, and by which rule, where the redirect knows.
    pub correction: Option<(&'static str, String)>,
}

/// How a click is told to a shard: its visitor's own, or another.
type Form = fn(&ClickWire) -> ClickSent<'_>;

/// What is known of a click that could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unwritten {
    /// No try can have taken effect.
    Lost,
    /// An answer was lost: it may be there.
    Doubtful,
}

/// Records a click; for the time after the answer. Never fails: what could not be written is
/// logged in full and counted.
pub async fn record(world: Rc<World>, click: Click) {
    let parcel = match parcel_of(&world, &click).await {
        Ok(parcel) => Box::new(parcel),
        Err(fault) => {
            let said = json!({"account": click.account_id.as_str(), "code": click.code.as_str(),
                "at": click.at.get(), "country": click.country,
                "referrer": click.referrer_host, "correction": click.correction});
            tell_unwritten(&world, Unwritten::Lost, &[said], &fault).await;
            return;
        }
    };
    match enter(&world, parcel, world.now()) {
        Ok(SetOut {
            watch: Some(window),
        }) => watch(world, window, 0).await,
        Ok(SetOut { watch: None }) => {}
        Err(parcel) => {
            let shard = shard_of(&world)(&parcel);
            send(&world, shard, &[Rc::new(Bundle::alone(*parcel, shard))]).await;
        }
    }
}

/// A click that is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetOut {
    /// What its request has to [`watch`], where others do not.
    pub watch: Option<Window>,
}

/// Sets a click on its way without asking anybody. `None` where its cycle is not known here, or
/// where too many wait; then nothing has happened.
pub fn set_out(world: &World, click: &Click) -> Option<SetOut> {
    let cycle = cycles::known_at_once(world, &click.account_id, click.at)?;
    let parcel = entry_of(world, click, cycle).ok()?;
    enter(world, Box::new(parcel), click.at).ok()
}

fn enter(world: &World, parcel: Box<ClickWire>, now: Millis) -> Result<SetOut, Box<ClickWire>> {
    let place = world.isolate.clicks.enter(parcel, now)?;
    let watches = place.watches || lack_carrier(world, now);
    let watch = watches.then_some(place.window);
    Ok(SetOut { watch })
}

/// Whether clicks wait for somebody to carry them.
pub fn lack_carrier(world: &World, now: Millis) -> bool {
    world.isolate.clicks.lacks_carrier(now, SILENT_MS)
}

/// The click's entries, once its cycle is known.
async fn parcel_of(world: &Rc<World>, click: &Click) -> Result<ClickWire, Fault> {
    let mut cycle = cycle_for(world, &click.account_id, click.at).await;
    for pause in CYCLE_PAUSES_MS {
        if cycle.is_ok() {
            break;
        }
        world.timer.pause(pause).await;
        cycle = cycle_for(world, &click.account_id, click.at).await;
    }
    entry_of(world, click, cycle?.name)
}

/// The click's entries; its id is made here, once.
fn entry_of(world: &World, click: &Click, cycle: CycleName) -> Result<ClickWire, Fault> {
    let form = || Fault::unreadable("make a click's entry", "a part has not its form");
    let id = EntryId::new(mint("clk_", click.at, world.ids.random()?)).ok_or_else(form)?;
    let feature = FeatureName::new(FEATURE).ok_or_else(form)?;
    let owner = (click.account_id.clone(), feature, cycle);
    let one = Delta::new(1).ok_or_else(form)?;
    let mut entry = Entry::new(id, EntryKind::Click, owner, one, click.at);
    entry.code = Some(click.code.clone());
    entry.country.clone_from(&click.country);
    entry.referrer_host.clone_from(&click.referrer_host);
    let correction = click.correction.as_ref();
    let correction = correction.map(|(reason, rule)| entry.corrected_by_rule(reason, rule));
    let rule_is_on = world.settings.double_click_ms > 0;
    Ok(ClickWire {
        entry: entry.wire(),
        correction: correction.map(|correction| correction.wire()),
        visitor: rule_is_on.then(|| click.visitor.clone()),
    })
}

/// Watches the clicks of a window, and what is left of those before it, until they are written;
/// `waited` milliseconds after its own set out. Carries where nobody does. What nobody has
/// confirmed for a while, or what could not be carried, is sent from here.
pub async fn watch(world: Rc<World>, window: Window, mut waited: u32) {
    let clicks = &world.isolate.clicks;
    let mut look = LOOK_MS;
    while waited < WATCH_MS_MAX {
        match clicks.fate(window, waited, world.now()) {
            Fate::Written => break,
            Fate::Overdue => send_overdue(&world, window, waited).await,
            Fate::OnItsWay if lack_carrier(&world, world.now()) => {
                let number = clicks.take_the_lead(world.now());
                carry(&world).await;
                clicks.give_up_the_lead(number);
            }
            Fate::OnItsWay => {
                world.timer.pause(look).await;
                waited += look;
                look = (look * 2).min(LOOK_MS_MAX);
            }
        }
    }
    clicks.stop_watching(window);
}

async fn send_overdue(world: &Rc<World>, window: Window, waited: u32) {
    let clicks = &world.isolate.clicks;
    let overdue = clicks.take_overdue(window, waited, world.now(), shard_of(world));
    for (shard, together) in messages(overdue) {
        send(world, shard, &together).await;
        clicks.forget(&together);
    }
}

/// Sends clicks; those that could not be written are named.
async fn send(world: &Rc<World>, shard: u32, bundles: &[Rc<Bundle>]) {
    if let Err((unwritten, fault)) = deliver(world, bundles, shard).await {
        let clicks = bundles.iter().flat_map(|bundle| &bundle.clicks);
        let said: Vec<_> = clicks.map(|click| json!(click.entry)).collect();
        tell_unwritten(world, unwritten, &said, &fault).await;
    }
}

/// Carries what waits, message by message, until nothing waits or its rounds are over.
async fn carry(world: &Rc<World>) {
    let clicks = &world.isolate.clicks;
    for _ in 0..ROUNDS_MAX {
        world.timer.pause(GATHER_MS).await;
        let bundles = clicks.take(TOGETHER_MAX, shard_of(world));
        if bundles.is_empty() {
            return;
        }
        for (shard, together) in messages(bundles) {
            if deliver(world, &together, shard).await.is_ok() {
                clicks.forget(&together);
            } else {
                clicks.give_back(&together);
            }
        }
    }
}

/// The messages in which bundles travel, each with its shard.
fn messages(bundles: Vec<Rc<Bundle>>) -> Vec<(u32, Vec<Rc<Bundle>>)> {
    let mut messages: Vec<(u32, Vec<Rc<Bundle>>)> = Vec::new();
    for bundle in bundles {
        let fits = |together: &[Rc<Bundle>]| {
            let clicks: usize = together.iter().map(|one| one.clicks.len()).sum();
            clicks + bundle.clicks.len() <= TOGETHER_MAX
        };
        let mut open = messages.iter_mut();
        match open.find(|(shard, together)| *shard == bundle.shard && fits(together)) {
            Some((_, together)) => together.push(bundle),
            None => messages.push((bundle.shard, vec![bundle])),
        }
    }
    messages
}

/// To this shard, else to another, else straight into the ledger database.
async fn deliver(
    world: &Rc<World>,
    bundles: &[Rc<Bundle>],
    first: u32,
) -> Result<(), (Unwritten, Fault)> {
    let mut unwritten = Unwritten::Lost;
    let other = (first + 1) % world.settings.shards;
    let mut ways: Vec<(u32, Form)> = vec![(first, ClickWire::sent)];
    if other != first {
        ways.push((other, ClickWire::sent_unjudged));
    }
    for (shard, form) in ways {
        match ask_shard(world, bundles, shard, form).await {
            Ok(()) => return Ok(()),
            Err(fault) if fault.kind == FaultKind::Unanswered => unwritten = Unwritten::Doubtful,
            Err(_) => {}
        }
    }
    let clicks: Vec<&ClickWire> = bundles.iter().flat_map(|bundle| &bundle.clicks).collect();
    match write_straight(world, &clicks).await {
        Ok(()) => Ok(()),
        Err(fault) => {
            // Where the ledger can still be read, it says whether the write took effect.
            match are_written(world, &clicks).await {
                Ok(true) => Ok(()),
                Ok(false) => Err((unwritten, fault)),
                Err(_) => Err((Unwritten::Doubtful, fault)),
            }
        }
    }
}

async fn ask_shard(
    world: &Rc<World>,
    bundles: &[Rc<Bundle>],
    shard: u32,
    form: Form,
) -> Result<(), Fault> {
    let clicks = &world.isolate.clicks;
    let forms = bundles
        .iter()
        .map(|bundle| bundle.clicks.iter().map(form).collect());
    let ask = ShardAsk::Record {
        v: VERSION,
        shard,
        bundles: forms.collect(),
        tallies: clicks.take_sums(),
    };
    let message = serde_json::to_string(&ask);
    let message = message.map_err(|e| Fault::unreadable("write a message to a shard", e))?;
    let outcome = world
        .objects
        .ask(ObjectName::LedgerShard(shard), message)
        .await
        .and_then(|answer| {
            serde_json::from_str::<Recorded>(&answer)
                .map_err(|e| Fault::unreadable("read a shard's answer", e))
        });
    if outcome.is_err() {
        if let ShardAsk::Record { tallies, .. } = ask {
            clicks.keep_sums(tallies);
        }
        clicks.set_shard(None);
    }
    outcome.map(|_| ())
}

async fn write_straight(world: &Rc<World>, parcels: &[&ClickWire]) -> Result<(), Fault> {
    let mut rows = Vec::new();
    let mut tallies: BTreeMap<String, i64> = BTreeMap::new();
    tallies.insert("counterfoil_clicks_direct_total".to_owned(), 0);
    for parcel in parcels {
        for wire in parcel.entries() {
            *tallies
                .entry(tally_name(&wire.clone().entry()?))
                .or_default() += 1;
            rows.push(wire);
        }
        *tallies
            .entry("counterfoil_clicks_direct_total".to_owned())
            .or_default() += 1;
    }
    let tallies: Vec<(String, i64)> = tallies.into_iter().collect();
    let all = batch::statements(None, &json!(rows).to_string(), &tallies, world.now());
    world.ledger.batch(all).await.map(|_| ())
}

async fn are_written(world: &Rc<World>, parcels: &[&ClickWire]) -> Result<bool, Fault> {
    let ids: Vec<&str> = parcels
        .iter()
        .map(|parcel| parcel.entry.id.as_str())
        .collect();
    let count = Statement::new(
        "select count(*) as found from entry \
         where entry_id in (select value from json_each(?1))",
        params![json!(ids).to_string()],
    );
    let rows = world.ledger.query(count).await?;
    let found = rows.first().map_or(Ok(0), |row| row.int("found"))?;
    Ok(usize::try_from(found).is_ok_and(|found| found == ids.len()))
}

/// The shard to which a click goes first.
fn shard_of(world: &World) -> impl Fn(&ClickWire) -> u32 {
    let (any, shards) = (steady_shard(world), world.settings.shards);
    move |click| visitors_shard(click, shards).unwrap_or(any)
}

/// Where the double-click rule is on, clicks of one visitor on one link meet in one shard.
fn visitors_shard(click: &ClickWire, shards: u32) -> Option<u32> {
    let visitor = click.visitor.as_ref()?;
    let said = json!([click.entry.code, visitor.address, visitor.user_agent]).to_string();
    let hash = hmac_sha256::Hash::hash(said.as_bytes());
    let number = hash
        .iter()
        .take(4)
        .fold(0, |number, byte| number << 8 | u32::from(*byte));
    Some(number % shards)
}

fn random_shard(world: &World) -> u32 {
    // Without random bits the first shard does as well.
    let bits = world.ids.random().unwrap_or_default();
    let number = bits
        .iter()
        .take(4)
        .fold(0, |number, byte| number << 8 | u32::from(*byte));
    number % world.settings.shards
}

/// A shard chosen at random, and kept for a while: an isolate that spread its clicks over all
/// shards would make each of them send a batch a second for a handful of rows. Many isolates
/// spread by themselves.
fn steady_shard(world: &World) -> u32 {
    let now = world.now();
    let clicks = &world.isolate.clicks;
    let known = clicks.shard();
    if let Some((shard, since)) = known
        && now.since(since).abs() < STEADY_MS
    {
        return shard;
    }
    let shard = random_shard(world);
    clicks.set_shard(Some((shard, now)));
    shard
}

/// A line with each whole click, and as many more in their sum: now in DB, else with the next
/// clicks.
async fn tell_unwritten(
    world: &Rc<World>,
    unwritten: Unwritten,
    clicks: &[serde_json::Value],
    fault: &Fault,
) {
    let (event, sum) = match unwritten {
        Unwritten::Lost => ("click.lost", "counterfoil_clicks_lost_total"),
        Unwritten::Doubtful => ("click.doubtful", "counterfoil_clicks_doubtful_total"),
    };
    for click in clicks {
        let fields = json!({"click": click, "doing": fault.doing, "cause": fault.cause});
        world.log.line("error", event, fields);
    }
    let count = i64::try_from(clicks.len()).unwrap_or(i64::MAX);
    if world.db.query(tally::add(sum, count)).await.is_err() {
        let sums = BTreeMap::from([(sum.to_owned(), count)]);
        world.isolate.clicks.keep_sums(sums);
    }
}
