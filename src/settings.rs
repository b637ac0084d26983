//! Settings and secrets, read once and checked: api.md, "Settings".
//!
//! A setting that does not read is a fault that names it, never a silent default. A secret that is
//! missing is looked at only where it is needed.

use std::collections::BTreeMap;

use crate::fault::Fault;
use crate::units::{FeatureName, PlanCode, Units};

/// How a feature is metered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureKind {
    /// Recorded after the fact; never refused.
    Counted,
    /// Held before the work starts; closed while the limit is unknown.
    Gated,
    /// Held before the work starts; admits while the limit is unknown (for cheap work).
    GatedOpen,
}

impl FeatureKind {
    /// Whether the gate, and not plain usage, records it.
    pub const fn is_gated(self) -> bool {
        matches!(self, Self::Gated | Self::GatedOpen)
    }
}

/// One metered feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// The provider's key of it.
    pub provider_key: String,
    /// How it is metered.
    pub kind: FeatureKind,
}

/// Which provider is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderChoice {
    /// Kinde, at `KINDE_DOMAIN`.
    Kinde,
    /// The built-in stand-in.
    StandIn,
}

/// What happens with the entries of a closed cycle that came after its last confirmed report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarryTail {
    /// A person decides.
    Review,
    /// They are carried forward at once.
    Auto,
}

/// What a day 29 to 31, given by a person as the anchor, does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateAnchor {
    /// It is refused.
    Refuse,
    /// It means the last day of a shorter month.
    Clamp,
}

/// A token with the name that goes into the audit.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedToken {
    /// The name, for the audit.
    pub name: String,
    /// The secret.
    pub token: String,
}

/// Kinde's address and credentials.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct KindeSettings {
    /// `https://<subdomain>.kinde.com`, without a slash at the end.
    pub domain: Option<String>,
    /// Where the signing keys are; from the domain by default.
    pub jwks_url: Option<String>,
    /// Of the machine-to-machine application.
    pub client_id: Option<String>,
    /// Of the machine-to-machine application.
    pub client_secret: Option<String>,
}

/// All settings, with their defaults filled in. Names as in api.md.
#[derive(Clone)]
#[allow(missing_docs)] // Each field is the setting of its name; api.md says what it does.
pub struct Settings {
    pub provider: ProviderChoice,
    pub dev: bool,
    pub lease_seconds: i64,
    pub limit_fresh_seconds: i64,
    pub limit_stale_seconds: i64,
    pub jobs_per_minute: i64,
    pub key_days: i64,
    pub inbox_lease_seconds: i64,
    pub retry_seconds: Vec<i64>,
    pub resync_seconds: Vec<i64>,
    pub event_max_age_hours: i64,
    pub shards: u32,
    pub flush_ms: i64,
    pub batch_keep_hours: i64,
    pub meter_concurrency: usize,
    pub calls_per_run: u32,
    /// Minutes after midnight UTC.
    pub nightly_at_minutes: i64,
    pub carry_tail: CarryTail,
    pub late_anchor: LateAnchor,
    pub link_cache_seconds: i64,
    pub key_cache_seconds: i64,
    pub double_click_ms: i64,
    pub public_url: Option<String>,
    pub app_url: Option<String>,
    pub alert_url: Option<String>,
    pub alert_token: Option<String>,
    pub quiet_hours: Option<i64>,
    pub features: BTreeMap<FeatureName, Feature>,
    /// What each plan grants per cycle: plan → what → how much.
    pub plans: BTreeMap<PlanCode, BTreeMap<String, Units>>,
    pub free_plan: PlanCode,
    pub operator_tokens: Vec<NamedToken>,
    pub backend_tokens: Vec<NamedToken>,
    /// The first signs, all are accepted.
    pub session_keys: Vec<String>,
    pub kinde: KindeSettings,
}

const FEATURES: &str = "clicks=clicks:counted tokens=tokens:gated";
const PLANS: &str = r#"{"free":{"credits":10},"pro":{"credits":500}}"#;

impl Settings {
    /// Reads every setting through `get`, which gives the text of a variable or secret.
    pub fn read(get: &dyn Fn(&str) -> Option<String>) -> Result<Self, Fault> {
        let quiet = quiet_hours(get("QUIET_HOURS").as_deref())?;
        let get = |name: &str| get(name).filter(|text| !text.trim().is_empty());
        let number = |name: &'static str, default: i64, min: i64, max: i64| match get(name) {
            None => Ok(default),
            Some(text) => (text.trim().parse::<i64>().ok())
                .filter(|value| (min..=max).contains(value))
                .ok_or_else(|| wrong(name, &format!("a whole number from {min} to {max}"))),
        };
        let dev = matches!(get("DEV").as_deref(), Some("1" | "true"));
        let mut operator_tokens = tokens(get("OPERATOR_TOKEN"), "OPERATOR_TOKEN")?;
        let mut backend_tokens = tokens(get("BACKEND_TOKEN"), "BACKEND_TOKEN")?;
        if dev && operator_tokens.is_empty() && backend_tokens.is_empty() {
            let named = |token: &str| NamedToken {
                name: token.to_owned(),
                token: token.to_owned(),
            };
            operator_tokens.push(named("dev-operator"));
            backend_tokens.push(named("dev-backend"));
        }
        let size = |value: i64| u32::try_from(value).unwrap_or(u32::MAX);
        Ok(Self {
            provider: provider(get("PROVIDER").as_deref())?,
            dev,
            lease_seconds: number("LEASE_SECONDS", 120, 1, 3600)?,
            limit_fresh_seconds: number("LIMIT_FRESH_SECONDS", 60, 0, 86_400)?,
            limit_stale_seconds: number("LIMIT_STALE_SECONDS", 600, 0, 86_400)?,
            jobs_per_minute: number("JOBS_PER_MINUTE", 120, 1, 10_000_000)?,
            key_days: number("KEY_DAYS", 7, 1, 400)?,
            inbox_lease_seconds: number("INBOX_LEASE_SECONDS", 30, 3, 600)?,
            retry_seconds: seconds(get("RETRY_SECONDS"), "RETRY_SECONDS", "5,30,120,600,3600")?,
            resync_seconds: seconds(get("RESYNC_SECONDS"), "RESYNC_SECONDS", "30,300")?,
            event_max_age_hours: number("EVENT_MAX_AGE_HOURS", 96, 1, 8760)?,
            shards: size(number("SHARDS", 64, 1, 4096)?),
            flush_ms: number("FLUSH_MS", 1000, 1, 60_000)?,
            batch_keep_hours: number("BATCH_KEEP_HOURS", 24, 0, 720)?,
            meter_concurrency: usize::try_from(number("METER_CONCURRENCY", 10, 1, 100)?)
                .unwrap_or(1),
            calls_per_run: size(number("CALLS_PER_RUN", 900, 20, 100_000)?),
            nightly_at_minutes: time_of_day(get("NIGHTLY_AT"))?,
            carry_tail: match get("CARRY_TAIL").as_deref() {
                None | Some("review") => CarryTail::Review,
                Some("auto") => CarryTail::Auto,
                Some(_) => return Err(wrong("CARRY_TAIL", "review or auto")),
            },
            late_anchor: match get("LATE_ANCHOR").as_deref() {
                None | Some("refuse") => LateAnchor::Refuse,
                Some("clamp") => LateAnchor::Clamp,
                Some(_) => return Err(wrong("LATE_ANCHOR", "refuse or clamp")),
            },
            link_cache_seconds: number("LINK_CACHE_SECONDS", 30, 0, 3600)?,
            key_cache_seconds: number("KEY_CACHE_SECONDS", 30, 0, 3600)?,
            double_click_ms: number("DOUBLE_CLICK_MS", 0, 0, 86_400_000)?,
            public_url: base_url(get("PUBLIC_URL"), "PUBLIC_URL")?,
            app_url: base_url(get("APP_URL"), "APP_URL")?,
            alert_url: base_url(get("ALERT_URL"), "ALERT_URL")?,
            alert_token: get("ALERT_TOKEN"),
            quiet_hours: quiet,
            features: features(&get("FEATURES").unwrap_or_else(|| FEATURES.to_owned()))?,
            plans: plans(&get("PLANS").unwrap_or_else(|| PLANS.to_owned()))?,
            free_plan: PlanCode::new(get("FREE_PLAN").unwrap_or_else(|| "free".to_owned()))
                .ok_or_else(|| wrong("FREE_PLAN", "a plan's code"))?,
            operator_tokens,
            backend_tokens,
            session_keys: get("SESSION_KEY")
                .map(|text| text.split_whitespace().map(str::to_owned).collect())
                .unwrap_or_default(),
            kinde: KindeSettings {
                domain: base_url(get("KINDE_DOMAIN").map(with_scheme), "KINDE_DOMAIN")?,
                jwks_url: base_url(get("KINDE_JWKS_URL"), "KINDE_JWKS_URL")?,
                client_id: get("KINDE_CLIENT_ID"),
                client_secret: get("KINDE_CLIENT_SECRET"),
            },
        })
    }

    /// The feature of that name, if it is listed.
    pub fn feature(&self, name: &FeatureName) -> Option<&Feature> {
        self.features.get(name)
    }

    /// Whether the built-in provider is spoken to.
    pub fn has_stand_in(&self) -> bool {
        self.provider == ProviderChoice::StandIn
    }

    /// Our name of the feature that the provider knows by `key`.
    pub fn feature_of_provider_key(&self, key: &str) -> Option<&FeatureName> {
        self.features
            .iter()
            .find(|(_, f)| f.provider_key == key)
            .map(|(name, _)| name)
    }
}

fn wrong(name: &str, expected: &str) -> Fault {
    Fault::not_configured(&format!("{name} (it must be {expected}), so it"))
}

fn provider(text: Option<&str>) -> Result<ProviderChoice, Fault> {
    match text {
        None | Some("kinde") => Ok(ProviderChoice::Kinde),
        Some("standin") => Ok(ProviderChoice::StandIn),
        Some(_) => Err(wrong("PROVIDER", "kinde or standin")),
    }
}

fn tokens(text: Option<String>, name: &str) -> Result<Vec<NamedToken>, Fault> {
    let text = text.unwrap_or_default();
    let mut tokens = Vec::new();
    for (index, part) in text.split_whitespace().enumerate() {
        let (label, token) = match part.split_once('=') {
            Some((label, token)) if !label.is_empty() => (label.to_owned(), token),
            _ => (format!("{}-{}", name.to_ascii_lowercase(), index + 1), part),
        };
        if token.is_empty() {
            return Err(wrong(name, "one or more name=token"));
        }
        tokens.push(NamedToken {
            name: label,
            token: token.to_owned(),
        });
    }
    Ok(tokens)
}

fn seconds(text: Option<String>, name: &str, default: &str) -> Result<Vec<i64>, Fault> {
    let text = text.unwrap_or_else(|| default.to_owned());
    let parsed: Option<Vec<i64>> = text
        .split(',')
        .map(|part| {
            part.trim()
                .parse()
                .ok()
                .filter(|s| (0..=604_800).contains(s))
        })
        .collect();
    parsed
        .filter(|list| list.len() <= 20)
        .ok_or_else(|| wrong(name, "seconds such as 5,30,120"))
}

fn time_of_day(text: Option<String>) -> Result<i64, Fault> {
    let text = text.unwrap_or_else(|| "02:00".to_owned());
    let parsed = text.trim().split_once(':').and_then(|(hour, minute)| {
        let (hour, minute) = (hour.parse::<i64>().ok()?, minute.parse::<i64>().ok()?);
        ((0..24).contains(&hour) && (0..60).contains(&minute)).then_some(hour * 60 + minute)
    });
    parsed.ok_or_else(|| wrong("NIGHTLY_AT", "a time such as 02:00"))
}

fn quiet_hours(text: Option<&str>) -> Result<Option<i64>, Fault> {
    match text.map(str::trim) {
        None => Ok(Some(48)),
        Some("" | "off") => Ok(None),
        Some(text) => (text.parse::<i64>().ok())
            .filter(|hours| (1..=8760).contains(hours))
            .map(Some)
            .ok_or_else(|| wrong("QUIET_HOURS", "hours, or off")),
    }
}

fn with_scheme(domain: String) -> String {
    if domain.contains("://") {
        domain
    } else {
        format!("https://{domain}")
    }
}

fn base_url(text: Option<String>, name: &str) -> Result<Option<String>, Fault> {
    let Some(text) = text else { return Ok(None) };
    let text = text.trim().trim_end_matches('/').to_owned();
    let web = url::Url::parse(&text)
        .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some());
    if web {
        Ok(Some(text))
    } else {
        Err(wrong(name, "an http or https address"))
    }
}

fn features(text: &str) -> Result<BTreeMap<FeatureName, Feature>, Fault> {
    let form = "name=key:counted, :gated or :gated-open";
    let mut features = BTreeMap::new();
    for part in text.split_whitespace() {
        let parsed = part.split_once('=').and_then(|(name, rest)| {
            let (key, kind) = rest.rsplit_once(':')?;
            let kind = match kind {
                "counted" => FeatureKind::Counted,
                "gated" => FeatureKind::Gated,
                "gated-open" => FeatureKind::GatedOpen,
                _ => return None,
            };
            let feature = Feature {
                provider_key: key.to_owned(),
                kind,
            };
            (!key.is_empty()).then_some((FeatureName::new(name)?, feature))
        });
        let (name, feature) = parsed.ok_or_else(|| wrong("FEATURES", form))?;
        if features.insert(name, feature).is_some() {
            return Err(wrong("FEATURES", "a list that names each feature once"));
        }
    }
    Ok(features)
}

fn plans(text: &str) -> Result<BTreeMap<PlanCode, BTreeMap<String, Units>>, Fault> {
    let form = r#"JSON such as {"free":{"credits":10}}"#;
    let raw: BTreeMap<String, BTreeMap<String, i64>> =
        serde_json::from_str(text).map_err(|_| wrong("PLANS", form))?;
    let mut plans = BTreeMap::new();
    for (code, grants) in raw {
        let code = PlanCode::new(code).ok_or_else(|| wrong("PLANS", form))?;
        let grants: Option<BTreeMap<String, Units>> = grants
            .into_iter()
            .map(|(what, n)| Some((what, Units::new(n)?)))
            .collect();
        plans.insert(code, grants.ok_or_else(|| wrong("PLANS", form))?);
    }
    Ok(plans)
}

#[cfg(test)]
mod tests;
