//! What `/app/reconcile` shows, loaded.

use super::app::Call;
use super::list::Page;
use super::pages::html;
use super::reply::Answer;
use crate::accounts::store;
use crate::fault::Fault;
use crate::ledger::closing::{self, Item};
use crate::ledger::evidence::{self, Filter};
use crate::ledger::meter_rules::Outcome;
use crate::ledger::meters;
use crate::ledger::review::ReviewKind;
use crate::pages::{self, EvidenceLine, MeterLine, ReconcileView, ReviewLine};
use crate::ports::Row;
use crate::units::{AccountId, Delta};

/// `GET /app/reconcile`
pub async fn reconcile_page(call: Call) -> Answer {
    let page = Page::of(&call.request)?;
    let account = call.request.query_param("account").and_then(AccountId::new);
    let (ledger, id) = (&*call.world.ledger, account.as_ref());
    let hidden = store::demo_ids(&call.world).await?;
    let (after, rows) = (page.after_or_first(), page.rows());
    let rows = meters::list(ledger, id, &hidden, after, rows, call.now).await?;
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
