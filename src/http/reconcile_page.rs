//! What `/app/reconcile` shows, loaded.

use super::app::Call;
use super::body::too_large;
use super::list::Page;
use super::pages::html;
use super::reply::{Answer, Failure, Problem};
use super::request::Body;
use crate::accounts::store;
use crate::cron::{self, Asked};
use crate::fault::Fault;
use crate::ledger::closing::{self, Item};
use crate::ledger::evidence::{self, Evidence, Filter};
use crate::ledger::meter_rules::Outcome;
use crate::ledger::meters;
use crate::ledger::review::ReviewKind;
use crate::pages::{self, EvidenceLine, MeterLine, ReconcileView, ReviewLine, RunView};
use crate::ports::Row;
use crate::reconciler::Summary;
use crate::units::{AccountId, Delta};

/// `GET /app/reconcile`
pub async fn reconcile_page(call: Call) -> Answer {
    let account = call.account.as_ref().map(|one| one.account_id.clone());
    shown(&call, account, None).await
}

/// `POST /app/reconcile/run`: runs it, and shows what it found.
pub async fn run_reconcile(call: Call) -> Answer {
    let asked = asked(&call).await?;
    let summary = cron::reconcile(&call.world, &asked).await?;
    shown(
        &call,
        asked.account.map(|one| one.account_id),
        Some(run_view(asked.dry_run, &summary)),
    )
    .await
}

/// `account` and `dry_run` of the page's form.
async fn asked(call: &Call) -> Result<Asked, Failure> {
    let Body::Whole(bytes) = &call.request.body else {
        return Err(too_large().into());
    };
    let mut asked = Asked::default();
    for (name, value) in url::form_urlencoded::parse(bytes) {
        match (&*name, value.trim()) {
            ("account", "") => {}
            ("account", id) => {
                let none = || Problem::field("account", "There is no such account.");
                let id = AccountId::new(id).ok_or_else(none)?;
                let found = store::load(&*call.world.db, &id).await?;
                asked.account = Some(found.ok_or_else(none)?);
            }
            ("dry_run", value) => asked.dry_run = value == "1",
            _ => return Err(Problem::field(&name, "There is no such field.").into()),
        }
    }
    Ok(asked)
}

async fn shown(call: &Call, account: Option<AccountId>, run: Option<RunView>) -> Answer {
    let page = Page::of(&call.request)?;
    let (ledger, id) = (&*call.world.ledger, account.as_ref());
    let hidden = store::demo_ids(&call.world).await?;
    let after = page.place(meters::read_place)?;
    let rows = meters::list(ledger, id, &hidden, after, page.rows(), call.now).await?;
    let (rows, next) = page.cut(rows, meters::Row::place);
    let filter = Filter {
        account: account.clone(),
        ..Filter::default()
    };
    let evidence = evidence::list(ledger, &filter, &hidden, None, page.limit).await?;
    let reviews = closing::list(ledger, id, &hidden, None, None, page.limit).await?;
    let account = account.map(|id| id.to_string());
    let mut more = Vec::new();
    if let Some(next) = next {
        let filter = account.as_deref().unwrap_or_default();
        more.push((
            "More meters",
            format!("/app/reconcile?account={filter}&after={next}"),
        ));
    }
    let view = ReconcileView {
        account,
        run,
        meters: rows.iter().map(meter_line).collect(),
        evidence: evidence
            .iter()
            .map(evidence_line)
            .collect::<Result<_, _>>()?,
        reviews: reviews.into_iter().map(review_line).collect(),
        more,
    };
    Ok(html(200, pages::reconcile(&call.viewer(), &view)))
}

fn run_view(is_dry: bool, summary: &Summary) -> RunView {
    let differs = summary.differs.iter().flatten();
    RunView {
        is_dry,
        counts: vec![
            ("compared", summary.checked, false),
            ("match", summary.matched, false),
            ("repaired and read back", summary.repaired, false),
            ("left as they differ", summary.left, true),
            ("not repaired", summary.failed, true),
            ("unreadable", summary.unreadable, true),
            ("incomplete", summary.incomplete, true),
        ],
        differs: differs.map(differing).collect(),
        is_done: summary.done,
    }
}

fn differing(found: &Evidence) -> EvidenceLine {
    EvidenceLine {
        of: [
            found.pair.account_id.to_string(),
            found.pair.feature.to_string(),
            found.pair.cycle.to_string(),
        ],
        at: found.at,
        numbers: [
            Some(found.facts.ledger.get()),
            Some(found.counters.get()),
            Some(found.facts.base.get()),
            found.facts.sent.map(Delta::get),
            found.facts.provider.map(Delta::get),
            None,
            None,
        ],
        verdict: found.verdict.name().to_owned(),
        cause: found.cause.map(|cause| cause.name().to_owned()),
    }
}

fn meter_line(row: &meters::Row) -> MeterLine {
    let meter = row.meter.as_ref();
    let last_report = meter.and_then(|m| Some((m.last_at?, m.last_outcome.map(Outcome::name)?)));
    MeterLine {
        of: [
            row.pair.account_id.to_string(),
            row.pair.feature.to_string(),
            row.pair.cycle.to_string(),
        ],
        agreement: meter.map(|m| m.agreement_id.clone()),
        ledger: row.ledger.get(),
        base: meter.and_then(|m| m.base).map_or(0, Delta::get),
        sent: meter.and_then(|m| m.sent).map(Delta::get),
        provider: meter.and_then(|m| m.provider).map(Delta::get),
        read_at: meter.and_then(|m| m.read_at),
        is_marked: row.is_marked,
        last_report,
    }
}

fn evidence_line(row: &Row) -> Result<EvidenceLine, Fault> {
    let text = |name: &str| row.text(name).map(str::to_owned);
    Ok(EvidenceLine {
        of: [text("account_id")?, text("feature")?, text("cycle")?],
        at: row.millis("at_ms")?,
        numbers: [
            row.opt_int("ledger")?,
            row.opt_int("counters")?,
            row.opt_int("base")?,
            row.opt_int("sent")?,
            row.opt_int("provider")?,
            row.opt_int("repaired_to")?,
            row.opt_int("read_back")?,
        ],
        verdict: text("verdict")?,
        cause: row.opt_text("cause")?.map(str::to_owned),
    })
}

fn review_line(item: Item) -> ReviewLine {
    let kind = ReviewKind::parse(&item.kind);
    ReviewLine {
        can_carry: matches!(kind, Some(ReviewKind::Tail | ReviewKind::ClosedCycle)),
        id: item.review_id,
        kind: item.kind,
        of: [item.account, item.feature, item.cycle],
        numbers: item.numbers,
        at: item.at,
    }
}
