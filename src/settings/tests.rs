//! The settings against the contract (api.md, "Settings").

use super::*;

fn read(pairs: &[(&str, &str)]) -> Result<Settings, Fault> {
    let pairs: BTreeMap<String, String> = pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    Settings::read(&|name| pairs.get(name).cloned())
}

/// The whole table of api.md, "Settings".
#[test]
fn with_nothing_set_every_setting_has_the_contracts_default() {
    let settings = read(&[]).expect("the defaults read");
    assert_eq!(settings.provider, ProviderChoice::Kinde);
    assert_eq!(settings.lease_seconds, 120);
    assert_eq!(settings.limit_fresh_seconds, 60);
    assert_eq!(settings.limit_stale_seconds, 600);
    assert_eq!(settings.jobs_per_minute, 120);
    assert_eq!(settings.key_days, 7);
    assert_eq!(settings.inbox_lease_seconds, 30);
    assert_eq!(settings.retry_seconds, [5, 30, 120, 600, 3600]);
    assert_eq!(settings.resync_seconds, [30, 300]);
    assert_eq!(settings.event_max_age_hours, 96);
    assert_eq!(settings.shards, 64);
    assert_eq!(settings.flush_ms, 1000);
    assert_eq!(settings.batch_keep_hours, 24);
    assert_eq!(settings.meter_concurrency, 10);
    assert_eq!(settings.calls_per_run, 900);
    assert_eq!(settings.nightly_at_minutes, 120);
    assert_eq!(settings.carry_tail, CarryTail::Review);
    assert_eq!(settings.late_anchor, LateAnchor::Refuse);
    assert_eq!(settings.link_cache_seconds, 30);
    assert_eq!(settings.key_cache_seconds, 30);
    assert_eq!(settings.double_click_ms, 0);
    assert_eq!(settings.quiet_hours, Some(48));
    let urls = [
        &settings.public_url,
        &settings.app_url,
        &settings.alert_url,
        &settings.alert_token,
    ];
    assert!(urls.into_iter().all(Option::is_none));
    let feature = |name: &str| {
        let name = FeatureName::new(name).expect("a name");
        let found = settings.feature(&name).expect("it is listed");
        (found.provider_key.clone(), found.kind)
    };
    assert_eq!(
        feature("clicks"),
        ("clicks".to_owned(), FeatureKind::Counted)
    );
    assert_eq!(feature("tokens"), ("tokens".to_owned(), FeatureKind::Gated));
    assert_eq!(settings.features.len(), 2);
    let grant = |plan: &str| {
        let plan = PlanCode::new(plan).expect("a plan");
        settings.plans[&plan]["credits"].get()
    };
    assert_eq!((grant("free"), grant("pro")), (10, 500));
    assert_eq!(settings.free_plan.as_str(), "free");
    assert!(!settings.dev);
    assert!(settings.operator_tokens.is_empty() && settings.backend_tokens.is_empty());
    assert!(settings.session_keys.is_empty());
    assert!(settings.kinde == KindeSettings::default());
}

#[test]
fn every_setting_is_read_by_the_contracts_name() {
    let settings = read(&[
        ("PROVIDER", "standin"),
        ("LEASE_SECONDS", "1"),
        ("LIMIT_FRESH_SECONDS", "2"),
        ("LIMIT_STALE_SECONDS", "3"),
        ("JOBS_PER_MINUTE", "4"),
        ("KEY_DAYS", "5"),
        ("INBOX_LEASE_SECONDS", "6"),
        ("RETRY_SECONDS", "7, 8"),
        ("RESYNC_SECONDS", "9"),
        ("EVENT_MAX_AGE_HOURS", "10"),
        ("SHARDS", "11"),
        ("FLUSH_MS", "12"),
        ("BATCH_KEEP_HOURS", "13"),
        ("METER_CONCURRENCY", "14"),
        ("CALLS_PER_RUN", "45"),
        ("NIGHTLY_AT", "03:30"),
        ("CARRY_TAIL", "auto"),
        ("LATE_ANCHOR", "clamp"),
        ("LINK_CACHE_SECONDS", "15"),
        ("KEY_CACHE_SECONDS", "16"),
        ("DOUBLE_CLICK_MS", "17"),
        ("PUBLIC_URL", "https://go.example/"),
        ("APP_URL", "https://app.example"),
        ("ALERT_URL", "https://alerts.example"),
        ("ALERT_TOKEN", "a"),
        ("QUIET_HOURS", ""),
        ("FEATURES", "calls=api_calls:gated-open"),
        ("PLANS", "{}"),
        ("FREE_PLAN", "basic"),
        ("OPERATOR_TOKEN", "ann=one bob=two"),
        ("BACKEND_TOKEN", "shop=three"),
        ("SESSION_KEY", "new old"),
        ("KINDE_DOMAIN", "acme.kinde.com"),
        ("KINDE_JWKS_URL", "https://keys.example/jwks"),
        ("KINDE_CLIENT_ID", "id"),
        ("KINDE_CLIENT_SECRET", "secret"),
    ]);
    let settings = settings.expect("they read");
    assert!(settings.has_stand_in());
    let numbers = [
        settings.lease_seconds,
        settings.limit_fresh_seconds,
        settings.limit_stale_seconds,
        settings.jobs_per_minute,
        settings.key_days,
        settings.inbox_lease_seconds,
        settings.retry_seconds[0],
        settings.retry_seconds[1],
        settings.resync_seconds[0],
        settings.event_max_age_hours,
        i64::from(settings.shards),
        settings.flush_ms,
        settings.batch_keep_hours,
    ];
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
    assert_eq!(
        (settings.meter_concurrency, settings.calls_per_run),
        (14, 45)
    );
    assert_eq!(settings.nightly_at_minutes, 210);
    assert_eq!(settings.carry_tail, CarryTail::Auto);
    assert_eq!(settings.late_anchor, LateAnchor::Clamp);
    let caches = (settings.link_cache_seconds, settings.key_cache_seconds);
    assert_eq!((caches, settings.double_click_ms), ((15, 16), 17));
    assert_eq!(settings.public_url.as_deref(), Some("https://go.example"));
    assert_eq!(settings.app_url.as_deref(), Some("https://app.example"));
    assert_eq!(
        settings.alert_url.as_deref(),
        Some("https://alerts.example")
    );
    assert_eq!(settings.alert_token.as_deref(), Some("a"));
    assert_eq!(settings.quiet_hours, None, "empty: off");
    let calls = FeatureName::new("calls").expect("a name");
    let calls = settings.feature(&calls).expect("it is listed");
    assert_eq!(
        (calls.provider_key.as_str(), calls.kind),
        ("api_calls", FeatureKind::GatedOpen)
    );
    assert!(settings.plans.is_empty());
    assert_eq!(settings.free_plan.as_str(), "basic");
    let names = |tokens: &[NamedToken]| -> Vec<(String, String)> {
        let pair = |one: &NamedToken| (one.name.clone(), one.token.clone());
        tokens.iter().map(pair).collect()
    };
    let pair = |name: &str, token: &str| (name.to_owned(), token.to_owned());
    assert_eq!(
        names(&settings.operator_tokens),
        [pair("ann", "one"), pair("bob", "two")]
    );
    assert_eq!(names(&settings.backend_tokens), [pair("shop", "three")]);
    assert_eq!(settings.session_keys, ["new", "old"]);
    let kinde = &settings.kinde;
    assert_eq!(kinde.domain.as_deref(), Some("https://acme.kinde.com"));
    assert_eq!(kinde.jwks_url.as_deref(), Some("https://keys.example/jwks"));
    assert_eq!(kinde.client_id.as_deref(), Some("id"));
    assert_eq!(kinde.client_secret.as_deref(), Some("secret"));
}

/// What `npx wrangler deploy` ships.
#[test]
fn wrangler_toml_ships_kinde_and_the_defaults() {
    let text = include_str!("../../wrangler.toml");
    let vars = text.split("[vars]\n").nth(1).expect("a section");
    let vars = vars.split("\n\n").next().expect("its end");
    let mut pairs = Vec::new();
    for line in vars.lines() {
        let (name, value) = line.split_once(" = ").expect("NAME = VALUE");
        pairs.push((name, value.trim_matches(['"', '\''])));
    }
    assert!(pairs.contains(&("PROVIDER", "kinde")));
    assert!(pairs.iter().all(|(name, _)| *name != "DEV"));
    let shipped = read(&pairs).expect("it reads");
    let defaults = read(&[]).expect("the defaults read");
    assert_eq!(shipped.features, defaults.features);
    assert_eq!(shipped.plans, defaults.plans);
    let numbers = |of: &Settings| {
        let (calls, night) = (of.calls_per_run, of.nightly_at_minutes);
        (of.shards, calls, night, of.double_click_ms, of.quiet_hours)
    };
    assert_eq!(numbers(&shipped), numbers(&defaults));
    let choices = |of: &Settings| (of.carry_tail, of.late_anchor, of.free_plan.clone());
    assert_eq!(choices(&shipped), choices(&defaults));
    assert!(shipped.public_url.is_none() && shipped.operator_tokens.is_empty());
}

#[test]
fn dev_tokens_exist_only_with_dev_and_without_tokens_of_ones_own() {
    assert_eq!(
        read(&[("DEV", "1")]).expect("reads").operator_tokens.len(),
        1
    );
    let own = read(&[("DEV", "1"), ("BACKEND_TOKEN", "app=s3cret")]).expect("reads");
    assert!(own.operator_tokens.is_empty());
    assert_eq!(
        own.backend_tokens.first().map(|t| t.name.as_str()),
        Some("app")
    );
}

#[test]
fn a_setting_that_does_not_read_is_named() {
    for (name, text) in [
        ("SHARDS", "0"),
        ("SHARDS", "x"),
        ("PROVIDER", "stripe"),
        ("FEATURES", "clicks"),
        ("FEATURES", "a=b:gated a=c:gated"),
        ("PLANS", "{"),
        ("NIGHTLY_AT", "25:00"),
        ("CARRY_TAIL", "yes"),
        ("PUBLIC_URL", "javascript:1"),
        ("RETRY_SECONDS", "5,,1"),
    ] {
        let fault = read(&[(name, text)]).err().expect("it is refused");
        assert!(fault.cause.starts_with(name), "{name}: {fault}");
    }
}
