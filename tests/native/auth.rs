//! Who may ask what, and in which order that is found out (api.md, "Rules for every route").

use counterfoil::http::reply::Response;
use counterfoil::http::request::{Body, Request};
use counterfoil::http::route::{Access, ROUTES};
use counterfoil::native::executor::block_on;
use counterfoil::native::faulty::{Faults, FaultyGear, Then, When};
use counterfoil::native::machine::{Machine, request};
use counterfoil::ports::{Db, Statement};
use serde_json::{Value, json};

const OPERATOR: &str = "dev-operator";
const BACKEND: &str = "dev-backend";
const NONE: Value = Value::Null;

fn machine() -> Machine {
    Machine::new(&[]).expect("it starts")
}

/// An account and its API key.
fn account(machine: &Machine, id: &str) -> String {
    let (status, body) = machine.call("POST", "/v1/accounts", BACKEND, &json!({"id": id}));
    assert_eq!(status, 201, "{body}");
    body["api_key"].as_str().expect("a key").to_owned()
}

fn code(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["code"].as_str().unwrap_or(""))
}

fn with_header(mut request: Request, name: &str, value: &str) -> Request {
    request.headers.push((name.to_owned(), value.to_owned()));
    request
}

/// A path that matches the pattern.
fn example(pattern: &str) -> String {
    pattern.replace("{job}", "sweeper").replace(['{', '}'], "")
}

fn cookie(response: &Response) -> String {
    let set = response.header("set-cookie").expect("a cookie");
    set.split(';').next().unwrap_or_default().to_owned()
}

/// Signs in as a page would and gives the answer.
fn sign_in(machine: &Machine, form: &str) -> Response {
    let mut asked = request("POST", "/signin", "", &NONE);
    asked.body = Body::Whole(form.as_bytes().to_vec());
    machine.handle(with_header(asked, "origin", "http://localhost:8787"))
}

#[test]
fn every_route_but_the_open_ones_needs_a_token() {
    let machine = machine();
    for spec in ROUTES.iter().filter(|spec| spec.access != Access::Open) {
        let path = example(spec.pattern);
        for token in ["", "wrong", "dev-operatorx", "cfk_", "cfk_a_b", "cfk_a"] {
            let answer = machine.handle(request(spec.method.name(), &path, token, &NONE));
            let page_for_a_browser =
                spec.access == Access::Page && token.is_empty() && spec.method.name() == "GET";
            if page_for_a_browser {
                assert_eq!(answer.status, 303, "{path}");
                continue;
            }
            assert_eq!(answer.status, 401, "{path} with {token:?}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{path}");
        }
    }
}

#[test]
fn a_token_is_looked_at_after_the_path_and_the_method() {
    let machine = machine();
    assert_eq!(
        code(&machine.call("GET", "/v1/nothing", "wrong", &NONE)),
        (404, "not_found")
    );
    let wrong_method = machine.call("DELETE", "/v1/accounts", "wrong", &NONE);
    assert_eq!(code(&wrong_method), (405, "method_not_allowed"));
    let options = machine.handle(request("OPTIONS", "/v1/accounts", "", &NONE));
    assert_eq!(options.status, 204);
    assert_eq!(options.header("allow"), Some("POST, GET, HEAD, OPTIONS"));
}

#[test]
fn role_size_json_account_and_body_are_looked_at_in_that_order() {
    let machine = machine();
    let key = account(&machine, "a");
    let huge = |token: &str, target: &str| {
        let mut asked = request("POST", target, token, &NONE);
        asked.body = Body::TooLarge;
        machine.handle(asked).status
    };
    let raw = |token: &str, target: &str, text: &str| {
        let mut asked = request("POST", target, token, &NONE);
        asked.body = Body::Whole(text.as_bytes().to_vec());
        let answer = machine.handle(asked);
        (
            answer.status,
            serde_json::from_slice(&answer.body).unwrap_or(NONE),
        )
    };
    // The role comes before the size.
    assert_eq!(huge(&key, "/v1/accounts"), 403);
    // The size comes before JSON and account.
    assert_eq!(huge(OPERATOR, "/v1/account/sync"), 413);
    assert_eq!(huge(OPERATOR, "/v1/accounts"), 413);
    // JSON comes before the account, also where the account is missing.
    assert_eq!(raw(OPERATOR, "/v1/account/sync", "{").0, 400);
    assert_eq!(
        raw(OPERATOR, "/v1/account/sync?account=nobody", "[1]").0,
        400
    );
    // The account comes before the body's fields.
    let unknown_field = "{\"x\":1}";
    let (status, body) = raw(OPERATOR, "/v1/account/sync", unknown_field);
    assert_eq!((status, &body["field"]), (422, &json!("account")));
    assert_eq!(
        raw(OPERATOR, "/v1/account/sync?account=nobody", unknown_field).0,
        404
    );
    assert_eq!(
        raw(OPERATOR, "/v1/accounts/nobody/keys", unknown_field).0,
        404
    );
    // The body comes before the thing itself.
    let (status, body) = raw(OPERATOR, "/v1/accounts", "{\"id\":\"a\",\"x\":1}");
    assert_eq!((status, &body["field"]), (422, &json!("x")));
}

#[test]
fn a_backend_may_not_do_what_is_the_operators() {
    let machine = machine();
    let key = account(&machine, "a");
    for spec in ROUTES {
        let operator_only = matches!(spec.access, Access::Operator | Access::AccountOperator);
        let path = example(spec.pattern);
        if operator_only {
            for token in [BACKEND, key.as_str()] {
                let answer = machine.call(spec.method.name(), &path, token, &NONE);
                assert_eq!(code(&answer), (403, "not_allowed"), "{path}");
            }
        }
        if spec.access == Access::Servers {
            let answer = machine.call(spec.method.name(), &path, &key, &NONE);
            assert_eq!(code(&answer), (403, "not_allowed"), "{path}");
        }
    }
}

#[test]
fn operator_and_backend_name_the_account_on_every_route_about_one() {
    let machine = machine();
    account(&machine, "a");
    for spec in ROUTES.iter().filter(|spec| spec.access == Access::Account) {
        let path = example(spec.pattern);
        for token in [OPERATOR, BACKEND] {
            for missing in [path.clone(), format!("{path}?account=")] {
                let (status, body) = machine.call(spec.method.name(), &missing, token, &NONE);
                assert_eq!(
                    (status, &body["field"]),
                    (422, &json!("account")),
                    "{missing}"
                );
            }
            for nobody in ["nobody", "%2e", "..", "a%20b"] {
                let target = format!("{path}?account={nobody}");
                assert_eq!(
                    machine.call(spec.method.name(), &target, token, &NONE).0,
                    404
                );
            }
        }
    }
    let own = machine.call("GET", "/v1/account?account=a", BACKEND, &NONE);
    assert_eq!((own.0, &own.1["id"]), (200, &json!("a")));
}

#[test]
fn an_api_key_may_name_only_its_own_account() {
    let machine = machine();
    let key = account(&machine, "a");
    account(&machine, "b");
    let one_account = |access| {
        matches!(
            access,
            Access::Account | Access::AccountOrAll | Access::Filter
        )
    };
    for spec in ROUTES.iter().filter(|spec| one_account(spec.access)) {
        let path = example(spec.pattern);
        let other = machine.call(
            spec.method.name(),
            &format!("{path}?account=b"),
            &key,
            &NONE,
        );
        assert_eq!(code(&other), (404, "not_found"), "{path}");
    }
    assert_eq!(
        machine.call("GET", "/v1/account?account=a", &key, &NONE).1["id"],
        "a"
    );
    assert_eq!(machine.call("GET", "/v1/account", &key, &NONE).1["id"], "a");
}

#[test]
fn without_any_token_set_every_token_that_is_no_api_key_is_503() {
    for provider in ["standin", "kinde"] {
        let machine = Machine::new(&[("DEV", ""), ("PROVIDER", provider)]).expect("it starts");
        for token in ["dev-operator", "dev-backend", "x"] {
            let answer = machine.call("GET", "/v1/accounts", token, &NONE);
            assert_eq!(code(&answer), (503, "not_configured"), "{provider} {token}");
        }
        assert_eq!(machine.call("GET", "/v1/accounts", "", &NONE).0, 401);
        assert_eq!(machine.call("GET", "/v1/accounts", "cfk_a_b", &NONE).0, 401);
        let logged = machine.log.0.borrow();
        assert!(
            logged.iter().any(|(level, _, fields)| {
                *level == "error" && fields["code"] == "not_configured"
            })
        );
    }
}

#[test]
fn tokens_of_ones_own_replace_those_of_dev() {
    let machine = Machine::new(&[
        ("OPERATOR_TOKEN", "ann=first bob=second"),
        ("BACKEND_TOKEN", "shop=third"),
    ]);
    let machine = machine.expect("it starts");
    for (token, status) in [
        ("first", 200),
        ("second", 200),
        ("third", 403),
        ("dev-operator", 401),
        ("dev-backend", 401),
        ("ann=first", 401),
        ("first second", 401),
    ] {
        assert_eq!(
            machine.call("GET", "/v1/audit", token, &NONE).0,
            status,
            "{token}"
        );
    }
}

#[test]
fn another_scheme_is_no_token() {
    let machine = machine();
    for header in [
        "dev-operator",
        "Basic dev-operator",
        "Bearer",
        "Token dev-operator",
    ] {
        let asked = with_header(
            request("GET", "/v1/audit", "", &NONE),
            "authorization",
            header,
        );
        assert_eq!(machine.handle(asked).status, 401, "{header}");
    }
    let asked = request("GET", "/v1/audit", "", &NONE);
    let asked = with_header(asked, "authorization", "bearer dev-operator");
    assert_eq!(machine.handle(asked).status, 200);
}

#[test]
fn a_revoked_key_ends_here_at_once_and_elsewhere_within_the_cache_time() {
    let machine = machine();
    let key = account(&machine, "a");
    let works = |machine: &Machine| machine.call("GET", "/v1/account", &key, &NONE).0 == 200;
    assert!(works(&machine));
    let keys = machine.call("GET", "/v1/accounts/a/keys", BACKEND, &NONE).1;
    let id = keys["items"][0]["id"].as_str().expect("an id").to_owned();
    // Revoked by another isolate: this one still remembers it.
    let elsewhere = "update api_key set revoked_at_ms = 1 where key_id = ?1";
    let revoke = Statement::new(elsewhere, vec![id.as_str().into()]);
    block_on(Db::query(&machine.control, revoke)).expect("it runs");
    machine.advance(29_999);
    assert!(works(&machine));
    machine.advance(1);
    assert!(!works(&machine));

    let more = machine
        .call(
            "POST",
            "/v1/accounts/a/keys",
            BACKEND,
            &json!({"name": "app"}),
        )
        .1;
    let second = more["api_key"].as_str().expect("a key").to_owned();
    assert_eq!(machine.call("GET", "/v1/account", &second, &NONE).0, 200);
    let path = format!(
        "/v1/accounts/a/keys/{}",
        more["id"].as_str().expect("an id")
    );
    assert_eq!(machine.call("DELETE", &path, BACKEND, &NONE), (204, NONE));
    assert_eq!(machine.call("GET", "/v1/account", &second, &NONE).0, 401);
    assert_eq!(machine.call("DELETE", &path, BACKEND, &NONE).0, 204);
}

#[test]
fn a_keys_secret_is_nowhere_but_in_the_one_answer() {
    let machine = machine();
    let key = account(&machine, "a");
    let secret = key.rsplit('_').next().expect("a secret").to_owned();
    let wrong = format!("{key}x");
    machine.call("GET", "/v1/account", &key, &NONE);
    machine.call("GET", "/v1/account", &wrong, &NONE);
    let answers = [
        machine
            .call("POST", "/v1/accounts", BACKEND, &json!({"id": "a"}))
            .1
            .to_string(),
        machine
            .call("GET", "/v1/accounts/a/keys", BACKEND, &NONE)
            .1
            .to_string(),
        machine
            .call("GET", "/v1/audit", OPERATOR, &NONE)
            .1
            .to_string(),
        format!("{:?}", machine.log.0.borrow()),
        everything_stored(&machine),
    ];
    for text in answers {
        assert!(!text.contains(&secret), "{text}");
        assert!(
            !text.contains(OPERATOR) || text.contains("\"actor\""),
            "{text}"
        );
    }
}

/// Every value of every table of the control database, as text.
fn everything_stored(machine: &Machine) -> String {
    let rows = |sql: String| {
        block_on(Db::query(&machine.control, Statement::new(sql, vec![]))).expect("it runs")
    };
    let tables = rows("select name from sqlite_master where type = 'table'".to_owned());
    let names = tables
        .iter()
        .map(|row| row.text("name").expect("a name").to_owned());
    let stored: Vec<_> = names
        .map(|name| rows(format!("select * from {name}")))
        .collect();
    format!("{stored:?}")
}

#[test]
fn last_use_is_noted_but_not_at_every_request() {
    let machine = machine();
    let key = account(&machine, "a");
    let noted = |machine: &Machine| {
        let keys = machine.call("GET", "/v1/accounts/a/keys", BACKEND, &NONE).1;
        keys["items"][0]["last_used_at"].as_str().map(str::to_owned)
    };
    assert_eq!(noted(&machine), None);
    machine.call("GET", "/v1/account", &key, &NONE);
    let first = noted(&machine);
    assert_eq!(first.as_deref(), Some("2026-11-10T12:00:00.000Z"));
    machine.advance(60_000);
    machine.call("GET", "/v1/account", &key, &NONE);
    assert_eq!(noted(&machine), first);
    machine.advance(600_000);
    machine.call("GET", "/v1/account", &key, &NONE);
    assert_eq!(noted(&machine).as_deref(), Some("2026-11-10T12:11:00.000Z"));
}

#[test]
fn a_session_stands_for_its_token_for_twelve_hours() {
    let machine = machine();
    let answer = sign_in(&machine, "token=dev-operator&next=%2Fapp%2Flinks");
    assert_eq!(
        (answer.status, answer.header("location")),
        (303, Some("/app/links"))
    );
    let set = answer.header("set-cookie").expect("a cookie");
    assert!(
        set.contains("HttpOnly; SameSite=Lax") && !set.contains("Secure"),
        "{set}"
    );
    assert!(!set.contains("dev-operator-token"), "{set}");
    let session = cookie(&answer);
    let get = |session: &str| {
        let asked = request("GET", "/v1/audit", "", &NONE);
        machine
            .handle(with_header(asked, "cookie", &format!("x=1; {session}")))
            .status
    };
    assert_eq!(get(&session), 200);
    for other in [
        session.replace('.', "x."),
        format!("{session}A"),
        "counterfoil_session=".into(),
    ] {
        assert_eq!(get(&other), 401, "{other}");
    }
    machine.advance(12 * 3_600_000 - 1);
    assert_eq!(get(&session), 200);
    machine.advance(1);
    assert_eq!(get(&session), 401);
}

#[test]
fn signing_out_ends_the_session_itself_and_no_other() {
    let machine = machine();
    let key = account(&machine, "a");
    let count = || {
        let sql = "select count(*) as n from ended_session";
        let rows = block_on(Db::query(&machine.control, Statement::new(sql, vec![])));
        rows.unwrap()[0].int("n").unwrap()
    };
    let sign_out = |session: &str| {
        let asked = request("POST", "/signout", "", &NONE);
        let asked = with_header(asked, "origin", "http://localhost:8787");
        machine.handle(with_header(asked, "cookie", session)).status
    };
    let get = |path: &str, session: &str| {
        let asked = request("GET", path, "", &NONE);
        machine.handle(with_header(asked, "cookie", session)).status
    };
    for (form, path) in [
        ("token=dev-operator".to_owned(), "/v1/audit"),
        (format!("token={key}"), "/v1/account"),
    ] {
        let (mine, other) = (sign_in(&machine, &form), sign_in(&machine, &form));
        let (mine, other) = (cookie(&mine), cookie(&other));
        assert_ne!(mine, other, "opened in the same millisecond");
        assert_eq!((get(path, &mine), get("/app/jobs", &mine)), (200, 200));
        assert_eq!(sign_out(&mine), 303);
        assert_eq!((get(path, &mine), get("/app/jobs", &mine)), (401, 303));
        assert_eq!(get(path, &other), 200);
        // Again, and with what is no session, nothing more is stored.
        let before = count();
        for said in [&mine, "counterfoil_session=x.y", ""] {
            assert_eq!(sign_out(said), 303);
        }
        assert_eq!(count(), before);
    }
    assert_eq!(count(), 2);
    machine.advance(12 * 3_600_000 - 1);
    let late = cookie(&sign_in(&machine, "token=dev-operator"));
    machine.advance(1);
    assert_eq!(sign_out(&late), 303);
    assert_eq!(count(), 1, "what would have ended by now is forgotten");
}

#[test]
fn while_the_database_is_out_of_reach_nobody_is_told_that_a_session_ended() {
    let faults = std::rc::Rc::new(Faults::default());
    let gear = std::rc::Rc::new(FaultyGear(std::rc::Rc::clone(&faults)));
    let machine = Machine::geared(&[], gear).expect("it starts");
    let session = cookie(&sign_in(&machine, "dev=1"));
    let asked = request("POST", "/signout", "", &NONE);
    let asked = with_header(asked, "origin", "http://localhost:8787");
    let asked = with_header(asked, "cookie", &session);
    faults.fail_at(1, When::Before, Then::Stands);
    let answer = machine.handle(asked);
    assert_eq!((answer.status, answer.header("set-cookie")), (503, None));
}

#[test]
fn a_session_changes_things_only_from_a_page_of_ours() {
    let machine = machine();
    let session = cookie(&sign_in(&machine, "dev=1"));
    let post = |origin: Option<&str>| {
        let asked = request("POST", "/v1/accounts", "", &json!({}));
        let asked = with_header(asked, "cookie", &session);
        let asked = match origin {
            Some(origin) => with_header(asked, "origin", origin),
            None => asked,
        };
        machine.handle(asked).status
    };
    assert_eq!(post(Some("http://localhost:8787")), 201);
    for foreign in [
        "http://localhost:9999",
        "https://localhost:8787",
        "null",
        "http://evil.test",
    ] {
        assert_eq!(post(Some(foreign)), 403, "{foreign}");
    }
    assert_eq!(post(None), 403);
    // A token in the header needs no origin and wins over the cookie.
    let asked = request("POST", "/v1/accounts", "wrong", &json!({}));
    assert_eq!(
        machine
            .handle(with_header(asked, "cookie", &session))
            .status,
        401
    );
}

#[test]
fn an_accounts_session_ends_with_its_key_and_sees_only_its_own() {
    let machine = machine();
    let key = account(&machine, "a");
    account(&machine, "b");
    let answer = sign_in(&machine, &format!("token={key}"));
    assert_eq!(answer.header("location"), Some("/app/accounts/a"));
    let session = cookie(&answer);
    let get = |target: &str| {
        let asked = request("GET", target, "", &NONE);
        machine
            .handle(with_header(asked, "cookie", &session))
            .status
    };
    assert_eq!(get("/v1/account"), 200);
    assert_eq!(get("/v1/account?account=b"), 404);
    assert_eq!(get("/v1/accounts"), 403);
    assert_eq!(get("/app/accounts/b"), 404);
    assert_eq!(get("/app/reconcile"), 403);
    let keys = machine.call("GET", "/v1/accounts/a/keys", BACKEND, &NONE).1;
    let id = keys["items"][0]["id"].as_str().expect("an id");
    machine.call(
        "DELETE",
        &format!("/v1/accounts/a/keys/{id}"),
        BACKEND,
        &NONE,
    );
    assert_eq!(get("/v1/account"), 401);
}

#[test]
fn an_operators_session_ends_when_the_token_leaves_the_settings() {
    let with = |tokens: &str| {
        Machine::new(&[("OPERATOR_TOKEN", tokens), ("SESSION_KEY", "k1")]).expect("it starts")
    };
    let session = cookie(&sign_in(&with("ann=one bob=two"), "token=one"));
    let get = |machine: &Machine| {
        let asked = request("GET", "/v1/audit", "", &NONE);
        machine
            .handle(with_header(asked, "cookie", &session))
            .status
    };
    assert_eq!(get(&with("bob=two ann=one")), 200);
    assert_eq!(get(&with("ann=three bob=two")), 401);
    assert_eq!(get(&with("bob=two")), 401);
}

#[test]
fn of_two_session_keys_the_first_signs_and_both_are_accepted() {
    let with = |keys: &str| Machine::new(&[("SESSION_KEY", keys)]).expect("it starts");
    let old = cookie(&sign_in(&with("old"), "dev=1"));
    let new = cookie(&sign_in(&with("new old"), "dev=1"));
    let get = |keys: &str, session: &str| {
        let asked = request("GET", "/v1/audit", "", &NONE);
        with(keys)
            .handle(with_header(asked, "cookie", session))
            .status
    };
    assert_eq!(get("new old", &old), 200);
    assert_eq!(get("new", &old), 401);
    assert_eq!(get("new", &new), 200);
}

#[test]
fn without_a_session_key_pages_and_signing_in_say_so() {
    let machine = Machine::new(&[("DEV", ""), ("OPERATOR_TOKEN", "one")]).expect("it starts");
    let answer = sign_in(&machine, "token=one");
    assert_eq!(answer.status, 503);
    assert_eq!(
        machine.call("GET", "/app", "", &NONE).1["code"],
        "not_configured"
    );
    // One click is for DEV only.
    let machine = Machine::new(&[("DEV", ""), ("OPERATOR_TOKEN", "one"), ("SESSION_KEY", "k")]);
    assert_eq!(sign_in(&machine.expect("it starts"), "dev=1").status, 401);
}

#[test]
fn signing_in_needs_a_right_token_our_origin_and_a_local_next() {
    let machine = machine();
    for form in [
        "token=wrong",
        "token=dev-backend",
        "token=cfk_a_b",
        "token=",
        "",
    ] {
        let answer = sign_in(&machine, form);
        assert_eq!(
            (answer.status, answer.header("set-cookie")),
            (401, None),
            "{form}"
        );
    }
    for next in [
        "//evil.test",
        "https://evil.test",
        "/\\evil.test",
        "app",
        "/a%0d%0ab",
    ] {
        assert_eq!(
            sign_in(&machine, &format!("dev=1&next={next}")).status,
            422,
            "{next}"
        );
        let page = request("GET", &format!("/signin?next={next}"), "", &NONE);
        assert_eq!(machine.handle(page).status, 422, "{next}");
    }
    let mut asked = request("POST", "/signin", "", &NONE);
    asked.body = Body::Whole(b"dev=1".to_vec());
    assert_eq!(machine.handle(asked.clone()).status, 403);
    let foreign = with_header(asked, "origin", "http://evil.test");
    assert_eq!(machine.handle(foreign).status, 403);
    let out = request("POST", "/signout", "", &NONE);
    let out = machine.handle(with_header(out, "origin", "http://localhost:8787"));
    assert!(
        out.header("set-cookie")
            .is_some_and(|set| set.contains("Max-Age=0"))
    );
}

#[test]
fn a_cookie_is_secure_everywhere_but_on_localhost() {
    let machine = machine();
    for (origin, secure) in [
        ("https://go.example.com", true),
        ("http://go.example.com", true),
        ("http://localhost:1", false),
        ("http://127.0.0.1:1", false),
    ] {
        let mut asked = with_header(request("POST", "/signin", "", &NONE), "origin", origin);
        asked.origin = origin.to_owned();
        asked.body = Body::Whole(b"dev=1".to_vec());
        let answer = machine.handle(asked);
        let set = answer.header("set-cookie").expect("a cookie");
        assert_eq!(set.contains("Secure"), secure, "{origin}");
    }
}

#[test]
fn a_browser_without_a_session_is_sent_to_sign_in_and_back() {
    let machine = machine();
    let answer = machine.handle(request("GET", "/app/links?q=a%26b", "", &NONE));
    assert_eq!(answer.status, 303);
    let target = answer.header("location").expect("a target");
    assert_eq!(target, "/signin?next=%2Fapp%2Flinks%3Fq%3Da%2526b");
    let page = machine.handle(request("GET", target, "", &NONE));
    let text = String::from_utf8(page.body.clone()).expect("text");
    assert!(text.contains("value=\"/app/links?q=a%26b\""), "{text}");
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"));
}

#[test]
fn an_account_in_the_query_of_what_is_about_none_says_nothing() {
    let machine = machine();
    for path in ["/metrics", "/app", "/app/lab", "/standin/calls"] {
        for account in ["nobody", "%00"] {
            let target = format!("{path}?account={account}");
            let answer = machine.handle(request("GET", &target, OPERATOR, &NONE));
            assert_eq!(answer.status, 200, "{target}");
        }
    }
    let filtered = machine.call("GET", "/v1/audit?account=nobody", OPERATOR, &NONE);
    assert_eq!(code(&filtered), (404, "not_found"));
}
