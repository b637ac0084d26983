//! The rules for every route (api.md): each asked of every route there is, so that a new one is
//! held to them too.

use std::collections::BTreeSet;

use counterfoil::http::reply::Response;
use counterfoil::http::request::{Body, Method};
use counterfoil::http::route::{Access, Endpoint, ROUTES, Spec};
use counterfoil::native::machine::{Machine, request};
use serde_json::{Value, json};

use crate::meters::{OPERATOR, account, items, run_sql};

const NONE: Value = Value::Null;
/// `OPTIONS` is answered everywhere.
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

/// A path that matches the pattern and leads to nothing that is there.
fn path_of(spec: &Spec) -> String {
    spec.pattern
        .replace("{job}", "sweeper")
        .replace(['{', '}'], "")
}

fn json_of(answer: &Response) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or(NONE)
}

/// Whether an error has the form that every error has.
fn is_problem(answer: &Response) -> bool {
    let body = json_of(answer);
    let text = |name: &str| body[name].as_str().is_some_and(|text| !text.is_empty());
    answer.header("content-type") == Some("application/problem+json")
        && ["type", "title", "code", "detail", "request_id"]
            .iter()
            .all(|name| text(name))
        && body["status"] == answer.status
        && body["request_id"].as_str() == answer.header("x-request-id")
}

#[test]
fn every_answer_has_an_id_and_every_error_is_a_problem_that_names_it() {
    let machine = Machine::new(&[]).expect("it starts");
    account(&machine, "a");
    let mut ids = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut look = |answer: &Response, what: &str| {
        let id = answer.header("x-request-id").unwrap_or_default();
        assert!(ids.insert(id.to_owned()) && !id.is_empty(), "{what}: {id}");
        seen.insert(answer.status);
        // The stand-in's own API speaks as the provider does.
        let kindes = ["/standin/api", "/standin/oauth2", "/standin/.well-known"];
        let is_kindes = kindes.iter().any(|path| what.contains(path));
        if answer.status >= 400 && !is_kindes {
            assert!(is_problem(answer), "{what}: {}", json_of(answer));
        }
        if answer.status == 503 {
            assert!(answer.header("retry-after").is_some(), "{what}");
        }
        if answer.status == 422 {
            assert!(json_of(answer)["field"].is_string(), "{what}");
        }
    };
    for spec in ROUTES {
        let path = path_of(spec);
        let method = spec.method.name();
        for (token, target, body) in [
            ("", path.clone(), NONE),
            (OPERATOR, path.clone(), NONE),
            (OPERATOR, format!("{path}?account=a"), NONE),
            (OPERATOR, format!("{path}?account=a"), json!({"zzz": 1})),
            (OPERATOR, format!("{path}?account=a"), json!([])),
            ("dev-backend", format!("{path}?account=nobody"), NONE),
        ] {
            let answer = machine.handle(request(method, &target, token, &body));
            look(&answer, &format!("{method} {target} {token} {body}"));
        }
        let mut large = request(method, &path, OPERATOR, &NONE);
        large.body = Body::TooLarge;
        look(
            &machine.handle(large),
            &format!("{method} {path} too large"),
        );
        look(
            &machine.handle(request("PROPFIND", &path, "", &NONE)),
            &format!("PROPFIND {path}"),
        );
    }
    look(&machine.handle(request("GET", "/v2", "", &NONE)), "/v2");
    for status in [200, 303, 400, 401, 403, 404, 405, 413, 422] {
        assert!(seen.contains(&status), "{status} was never met: {seen:?}");
    }
}

#[test]
fn every_path_answers_options_and_tells_other_methods_what_is_allowed() {
    let machine = Machine::new(&[]).expect("it starts");
    for spec in ROUTES {
        let path = path_of(spec);
        let mut known: BTreeSet<&str> = ROUTES
            .iter()
            .filter(|one| one.pattern == spec.pattern)
            .map(|one| one.method.name())
            .collect();
        if known.contains("GET") {
            known.insert("HEAD");
        }
        known.insert("OPTIONS");
        let allowed = |answer: &Response| -> BTreeSet<String> {
            let allow = answer.header("allow").unwrap_or_default();
            allow.split(", ").map(str::to_owned).collect()
        };
        let known: BTreeSet<String> = known.into_iter().map(str::to_owned).collect();
        let options = machine.handle(request("OPTIONS", &path, "", &NONE));
        assert_eq!((options.status, options.body.len()), (204, 0), "{path}");
        assert_eq!(allowed(&options), known, "{path}");
        for method in METHODS.into_iter().filter(|name| !known.contains(*name)) {
            // Before any token is looked at.
            let answer = machine.handle(request(method, &path, "wrong", &NONE));
            assert_eq!(answer.status, 405, "{method} {path}");
            assert_eq!(allowed(&answer), known, "{method} {path}");
        }
    }
}

#[test]
fn a_head_is_its_get_without_a_body() {
    let machine = Machine::new(&[]).expect("it starts");
    account(&machine, "a");
    for spec in ROUTES.iter().filter(|spec| spec.method == Method::Get) {
        let target = format!("{}?account=a", path_of(spec));
        let get = machine.handle(request("GET", &target, OPERATOR, &NONE));
        let head = machine.handle(request("HEAD", &target, OPERATOR, &NONE));
        assert_eq!((head.status, head.body.len()), (get.status, 0), "{target}");
        assert_eq!(head.header("content-type"), get.header("content-type"));
    }
}

#[test]
fn no_answer_lets_another_origin_read_it() {
    let machine = Machine::new(&[]).expect("it starts");
    for spec in ROUTES {
        for method in ["OPTIONS", spec.method.name()] {
            let mut asked = request(method, &path_of(spec), OPERATOR, &NONE);
            for (name, value) in [
                ("origin", "https://elsewhere.example"),
                ("access-control-request-method", "POST"),
                ("access-control-request-headers", "authorization"),
            ] {
                asked.headers.push((name.to_owned(), value.to_owned()));
            }
            let answer = machine.handle(asked);
            let mut names = answer.headers.iter().map(|(name, _)| name);
            assert!(
                !names.any(|name| name.starts_with("access-control-")),
                "{method} {}",
                spec.pattern
            );
        }
    }
}

#[test]
fn what_is_no_id_is_no_path_before_any_token_is_looked_at() {
    let machine = Machine::new(&[]).expect("it starts");
    let long = "a".repeat(65);
    // A link's code is looked up as it is; a job of the cron is one of five.
    let with_id = |spec: &&Spec| {
        spec.pattern.contains('{')
            && !spec.pattern.contains("{code}")
            && !spec.pattern.contains("{job}")
    };
    for spec in ROUTES.iter().filter(with_id) {
        for bad in [
            ".a", "..", "a%20b", "a%2Fb", "%C3%BC", "a:b", "", "%00", &long,
        ] {
            let mut parts = spec
                .pattern
                .split('/')
                .map(|part| if part.starts_with('{') { bad } else { part });
            let path = parts.by_ref().collect::<Vec<_>>().join("/");
            let answer = machine.handle(request(spec.method.name(), &path, "", &NONE));
            // A segment that is missing makes a shorter path, which may be another's.
            let others = bad.is_empty() && matches!(answer.status, 401 | 405);
            assert!(answer.status == 404 || others, "{path}: {}", answer.status);
        }
        for good in ["a", "-a.b_C9", "_", &"a".repeat(64)] {
            let parts = spec
                .pattern
                .split('/')
                .map(|part| if part.starts_with('{') { good } else { part });
            let path = parts.collect::<Vec<_>>().join("/");
            let answer = machine.handle(request(spec.method.name(), &path, "", &NONE));
            assert!(
                matches!(answer.status, 401 | 303),
                "{path}: {}",
                answer.status
            );
        }
    }
    let unknown_job = request("POST", "/v1/run/nothing", "", &NONE);
    assert_eq!(machine.handle(unknown_job).status, 404);
}

/// What a list answers, page by page, with `limit` items each; `None` asks without a limit.
fn pages(machine: &Machine, target: &str, limit: Option<usize>) -> Vec<Vec<String>> {
    let and = if target.contains('?') { '&' } else { '?' };
    let mut pages = Vec::new();
    let mut after = String::new();
    loop {
        let limit = limit.map_or_else(String::new, |limit| format!("limit={limit}"));
        let (status, body) = machine.call(
            "GET",
            &format!("{target}{and}{limit}{after}"),
            OPERATOR,
            &NONE,
        );
        assert_eq!(status, 200, "{target}: {body}");
        let members = body.as_object().expect("an object");
        assert_eq!(
            members.keys().collect::<Vec<_>>(),
            ["items", "next"],
            "{target}"
        );
        pages.push(items(&body).iter().map(Value::to_string).collect());
        match body["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return pages,
        }
        assert!(pages.len() < 1000, "{target} never ends");
    }
}

/// A machine on which every list has more than fifty items.
fn crowded() -> Machine {
    let machine = Machine::new(&[("JOBS_PER_MINUTE", "1000"), ("CALLS_PER_RUN", "100000")]);
    let machine = machine.expect("it starts");
    let ok = |method: &str, target: &str, body: &Value| {
        let (status, answer) = machine.call(method, target, OPERATOR, body);
        assert!((200..300).contains(&status), "{method} {target}: {answer}");
        answer
    };
    for number in 0..60 {
        let id = format!("a{number:02}");
        account(&machine, &id);
        let usage = json!({"key": "k", "feature": "clicks", "units": 1 + number});
        ok("POST", &format!("/v1/usage?account={id}"), &usage);
        ok("POST", "/v1/accounts/a00/keys", &json!({"name": id}));
        let link = json!({"code": format!("c{number}"), "destination": "https://d.example/"});
        ok("POST", "/v1/links?account=a00", &link);
        let job = json!({"key": id, "feature": "tokens", "hold": 1});
        ok("POST", "/v1/jobs?account=a00", &job);
        let usage = json!({"key": id, "feature": "clicks", "units": 1});
        ok("POST", "/v1/usage?account=a00", &usage);
        let event = json!({"type": "customer.plan_changed", "customer_id": "customer_a00"});
        ok("POST", "/standin/events", &event);
        run_sql(
            &machine,
            &format!(
                "insert into review (review_id, kind, account_id, numbers, opened_at_ms) \
                 values ('rev_{number}', 'conflict', 'a00', '{{}}', 7)"
            ),
        );
    }
    ok("POST", "/v1/run/reporter", &NONE);
    ok("POST", "/v1/run/reconciler", &NONE);
    machine
}

#[test]
fn every_list_has_fifty_items_by_default_and_five_hundred_at_most() {
    let machine = crowded();
    for target in [
        "/v1/accounts",
        "/v1/accounts/a00/keys",
        "/v1/audit",
        "/v1/audit?account=a00",
        "/v1/jobs?account=a00",
        "/v1/links?account=a00",
        "/v1/entries?account=a00",
        "/v1/meters",
        "/v1/evidence",
        "/v1/review",
        "/v1/review?account=a00",
        "/v1/events",
        "/v1/events?account=a00",
    ] {
        let by_default = pages(&machine, target, None);
        assert_eq!(by_default[0].len(), 50, "{target}");
        assert!(by_default.len() > 1, "{target}");
        let all = by_default.concat();
        let unique: BTreeSet<&String> = all.iter().collect();
        assert_eq!(unique.len(), all.len(), "{target}: nothing comes twice");
        assert_eq!(pages(&machine, target, Some(500)).concat(), all, "{target}");
        assert_eq!(pages(&machine, target, Some(7)).concat(), all, "{target}");
        let and = if target.contains('?') { '&' } else { '?' };
        for (query, field) in [
            ("limit=0", "limit"),
            ("limit=501", "limit"),
            ("limit=", "limit"),
            ("limit=1.0", "limit"),
            ("after=a%20b", "after"),
        ] {
            let answer = machine.call("GET", &format!("{target}{and}{query}"), OPERATOR, &NONE);
            assert_eq!(
                (answer.0, &answer.1["field"]),
                (422, &json!(field)),
                "{target} {query}"
            );
        }
    }
    let lists = ROUTES.iter().filter(|spec| {
        let api = spec.pattern.starts_with("/v1/") && spec.method == Method::Get;
        let lists = [
            Endpoint::ListAccounts,
            Endpoint::ListKeys,
            Endpoint::ListAudit,
            Endpoint::ListJobs,
            Endpoint::ListLinks,
            Endpoint::ListEntries,
            Endpoint::ListMeters,
            Endpoint::ListEvidence,
            Endpoint::ListReview,
            Endpoint::ListEvents,
        ];
        api && format!("{:?}", spec.endpoint).starts_with("List") && !lists.contains(&spec.endpoint)
    });
    assert_eq!(lists.count(), 0, "a list that this test does not ask");
}

#[test]
fn times_are_rfc_3339_in_and_utc_with_milliseconds_out() {
    let machine = Machine::new(&[]).expect("it starts");
    account(&machine, "a");
    let record = |key: &str, at: &str| {
        let body = json!({"key": key, "feature": "clicks", "units": 1, "occurred_at": at});
        machine.call("POST", "/v1/usage?account=a", OPERATOR, &body)
    };
    for (number, at) in [
        "2026-11-10T11:59:58.123Z",
        "2026-11-10T11:59:58.123456789Z",
        "2026-11-11T11:44:58.1230+23:45",
        "2026-11-10t00:29:58.123000-11:30",
    ]
    .iter()
    .enumerate()
    {
        let (status, answer) = record(&format!("k{number}"), at);
        assert_eq!(status, 201, "{at}: {answer}");
        assert_eq!(answer["occurred_at"], "2026-11-10T11:59:58.123Z", "{at}");
        assert_eq!(answer["recorded_at"], "2026-11-10T12:00:00.000Z");
    }
    for bad in [
        "2026-11-10",
        "2026-11-10T11:59:58",
        "2026-11-10 11:59:58Z",
        "2026-11-10T11:59:58+01",
        "2026-11-10T11:59:58+0100",
        "2026-11-10T11:59:58.1234567890Z",
        "2026-11-31T11:59:58Z",
        "1794312000000",
        "now",
    ] {
        let (status, answer) = record("bad", bad);
        assert_eq!(
            (status, &answer["field"]),
            (422, &json!("occurred_at")),
            "{bad}"
        );
        let query = bad.replace(' ', "%20").replace('+', "%2B");
        let target = format!("/v1/entries?account=a&from={query}");
        let (status, answer) = machine.call("GET", &target, OPERATOR, &NONE);
        assert_eq!((status, &answer["field"]), (422, &json!("from")), "{bad}");
    }
    for from in [
        "2026-11-10T12:59:58.124%2B01:00",
        "2026-11-10T12:59:58.124+01:00",
    ] {
        let target = format!("/v1/entries?account=a&from={from}");
        let (status, answer) = machine.call("GET", &target, OPERATOR, &NONE);
        assert_eq!((status, items(&answer).len()), (200, 0), "{from}");
    }
}

#[test]
fn the_content_type_of_a_request_is_not_looked_at() {
    let machine = Machine::new(&[]).expect("it starts");
    for kind in ["text/plain", "application/xml", "nonsense", ""] {
        let mut asked = request("POST", "/v1/accounts", OPERATOR, &json!({}));
        asked
            .headers
            .push(("content-type".to_owned(), kind.to_owned()));
        let answer = machine.handle(asked);
        assert_eq!(answer.status, 201, "{kind}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
}

#[test]
fn only_what_the_contract_names_is_open() {
    let open: BTreeSet<&str> = ROUTES
        .iter()
        .filter(|spec| spec.access == Access::Open)
        .map(|spec| spec.pattern)
        .collect();
    let of_the_contract = [
        "/{code}",
        "/v1/links/{code}/qr.svg",
        "/v1/links/{code}/qr.png",
        "/webhooks/kinde",
        "/healthz",
        "/openapi.json",
        "/docs",
        "/signin",
        // What a browser needs before it has signed in, and what checks its visitor itself.
        "/",
        "/app/style.css",
        "/app/script.js",
        "/signout",
        "/billing/return",
        // The provider's own paths take its own access token.
        "/standin/oauth2/token",
        "/standin/.well-known/jwks",
        "/standin/api/v1/billing/entitlements",
        "/standin/api/v1/billing/agreements",
        "/standin/api/v1/billing/meter_usage",
    ];
    assert_eq!(open, of_the_contract.into());
}
