//! Links, redirects and QR pictures over the router: the cases of other systems' failures.

use std::rc::Rc;

use counterfoil::http::app;
use counterfoil::http::reply::Response;
use counterfoil::http::request::{Method, Request};
use counterfoil::native::executor::block_on;
use counterfoil::native::faulty::{Faults, FaultyGear, Then, When};
use counterfoil::native::machine::{Machine, request};
use counterfoil::ports::{Db, Statement};
use counterfoil::world::World;
use serde_json::{Value, json};

const OPERATOR: &str = "dev-operator";
const TO: &str = "https://d.example/";

/// A machine with the accounts `a` and `b`.
fn machine(settings: &[(&str, &str)]) -> Machine {
    let machine = Machine::new(settings).expect("it starts");
    for id in ["a", "b"] {
        let (status, body) = machine.call("POST", "/v1/accounts", OPERATOR, &json!({"id": id}));
        assert_eq!(status, 201, "{body}");
    }
    machine
}

fn create(machine: &Machine, body: &Value) -> (u16, Value) {
    machine.call("POST", "/v1/links?account=a", OPERATOR, body)
}

fn link(machine: &Machine, code: &str) {
    let (status, body) = create(machine, &json!({"code": code, "destination": TO}));
    assert_eq!(status, 201, "{body}");
}

fn patch(machine: &Machine, code: &str, body: &Value) -> (u16, Value) {
    let target = format!("/v1/links/{code}?account=a");
    machine.call("PATCH", &target, OPERATOR, body)
}

fn visit_with(machine: &Machine, path: &str, change: impl FnOnce(&mut Request)) -> Response {
    let mut visit = request("GET", path, "", &Value::Null);
    change(&mut visit);
    machine.handle(visit)
}

fn visit(machine: &Machine, path: &str) -> Response {
    visit_with(machine, path, |_| {})
}

fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.header(name)
}

fn links(machine: &Machine) -> Vec<Value> {
    let (status, body) = machine.call("GET", "/v1/links?account=a", OPERATOR, &Value::Null);
    assert_eq!(status, 200);
    body["items"].as_array().expect("a list").clone()
}

/// The number `total` that a statement on the control database gives.
fn control(machine: &Machine, sql: &str) -> i64 {
    let rows = block_on(Db::query(&machine.control, Statement::new(sql, vec![])));
    let rows = rows.expect("it runs");
    rows.first().expect("a row").int("total").expect("a number")
}

/// A change by another isolate.
fn patch_elsewhere(machine: &Machine, code: &str, body: &Value) {
    let isolate = Rc::default();
    let world = Rc::new(World {
        isolate,
        ..World::clone(&machine.world())
    });
    let target = format!("/v1/links/{code}?account=a");
    let answer = block_on(app::handle(
        world,
        request("PATCH", &target, OPERATOR, body),
    ));
    assert_eq!(answer.status, 200);
}

fn set(request: &mut Request, name: &str, value: Option<&str>) {
    request.headers.retain(|(key, _)| key != name);
    if let Some(value) = value {
        request.headers.push((name.to_owned(), value.to_owned()));
    }
}

#[test]
fn the_same_link_again_is_the_same_link_and_a_taken_code_is_told() {
    let machine = machine(&[]);
    let (status, made) = create(&machine, &json!({"code": "Spring", "destination": TO}));
    assert_eq!((status, made["code"].as_str()), (201, Some("spring")));
    assert_eq!(made["url"], "http://localhost:8787/spring");
    let (status, again) = create(&machine, &json!({"code": "SPRING", "destination": TO}));
    assert_eq!((status, &again), (200, &made));
    let other = json!({"code": "spring", "destination": "https://e.example/"});
    let (status, body) = create(&machine, &other);
    assert_eq!((status, body["code"].as_str()), (409, Some("code_taken")));
    let same = json!({"code": "spring", "destination": TO});
    let (status, _) = machine.call("POST", "/v1/links?account=b", OPERATOR, &same);
    assert_eq!(
        status, 409,
        "another account's code is taken, whatever it leads to"
    );
    assert_eq!(links(&machine).len(), 1);
}

#[test]
fn the_same_link_with_another_expiry_is_told_and_left_as_it_is() {
    let machine = machine(&[]);
    let until = |at: &str| json!({"code": "spring", "destination": TO, "expires_at": at});
    let (status, made) = create(&machine, &until("2026-12-01T00:00:00Z"));
    assert_eq!(status, 201);
    for same in [
        until("2026-12-01T01:00:00+01:00"),
        json!({"code": "spring", "destination": TO}),
    ] {
        assert_eq!(create(&machine, &same), (200, made.clone()));
    }
    let (status, other) = create(&machine, &until("2026-12-02T00:00:00Z"));
    assert_eq!((status, &other["code"]), (409, &json!("code_taken")));
    let detail = other["detail"].as_str().expect("a sentence");
    assert!(
        detail.contains("expires") && detail.contains("PATCH"),
        "{detail}"
    );
    assert_eq!(links(&machine)[0]["expires_at"], made["expires_at"]);
}

/// A person who opens it gets a page, everybody else a problem; a prefetch gets neither's answer.
#[test]
fn a_visitor_of_a_dead_link_is_told_by_a_page_that_leads_nowhere_into_us() {
    let machine = machine(&[]);
    create(&machine, &json!({"code": "off", "destination": TO}));
    create(
        &machine,
        &json!({"code": "over", "destination": TO, "expires_at": "2026-11-10T11:00:00Z"}),
    );
    create(&machine, &json!({"code": "on", "destination": TO}));
    let off = machine.call(
        "PATCH",
        "/v1/links/off?account=a",
        OPERATOR,
        &json!({"disabled": true}),
    );
    assert_eq!(off.0, 200);
    let browser = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8";
    for (path, status, says) in [
        ("/nobody", 404, "There is no such link."),
        ("/%ff%ff", 404, ""),
        ("/a.b", 404, "There is no such link."),
        ("/off", 410, "switched off"),
        ("/over", 410, "has expired"),
    ] {
        let page = visit_with(&machine, path, |asked| set(asked, "accept", Some(browser)));
        assert_eq!(page.status, status, "{path}");
        assert_eq!(header(&page, "cache-control"), Some("no-store"), "{path}");
        let plain = visit_with(&machine, path, |asked| set(asked, "accept", Some("*/*")));
        let kind = Some("application/problem+json");
        assert_eq!(
            (plain.status, header(&plain, "content-type")),
            (status, kind),
            "{path}"
        );
        if says.is_empty() {
            continue;
        }
        let kind = Some("text/html; charset=utf-8");
        assert_eq!(header(&page, "content-type"), kind, "{path}");
        assert_eq!(
            header(&page, "x-robots-tag"),
            Some("noindex, nofollow"),
            "{path}"
        );
        let text = String::from_utf8(page.body).expect("text");
        assert!(
            text.contains(says) && !text.contains("<a ") && !text.contains("<script"),
            "{text}"
        );
        let head = visit_with(&machine, path, |asked| {
            asked.method = Method::Head;
            set(asked, "accept", Some(browser));
        });
        assert_eq!((head.status, head.body.len()), (status, 0), "{path}");
    }
    let ahead = visit_with(&machine, "/on", |asked| {
        set(asked, "accept", Some(browser));
        set(asked, "sec-purpose", Some("prefetch"));
    });
    let kind = Some("application/problem+json");
    assert_eq!((ahead.status, header(&ahead, "content-type")), (503, kind));
}

#[test]
fn a_link_without_a_code_gets_one_of_its_own_each_time() {
    let machine = machine(&[]);
    let (first, one) = create(&machine, &json!({"destination": TO}));
    let (second, two) = create(&machine, &json!({"destination": TO}));
    assert_eq!((first, second), (201, 201));
    assert_ne!(one["code"], two["code"]);
    let path = format!("/{}", one["code"].as_str().expect("a code"));
    assert_eq!(visit(&machine, &path).status, 302);
}

/// L19 and the malformed inputs: the right 4xx, and nothing is stored.
#[test]
fn what_is_malformed_is_422_with_its_field_and_stores_nothing() {
    let machine = machine(&[]);
    for destination in [
        "javascript:alert(1)",
        " JavaScript:x",
        "data:text/html,x",
        "file:///etc/passwd",
        "//evil.example",
        "https://user:pw@d.example/",
        "https://d.example/\r\nSet-Cookie: a=b",
        "https://d.example/\u{1f4a5}",
        "http://localhost:8787/x",
        "http://127.0.0.1:8787/x",
        "",
    ] {
        let (status, body) = create(&machine, &json!({"destination": destination}));
        assert_eq!(
            (status, body["field"].as_str()),
            (422, Some("destination")),
            "{destination}"
        );
    }
    let long = "a".repeat(5000);
    for code in [
        long.as_str(),
        "a b",
        "a/b",
        "ü",
        "\u{1f4a5}",
        "\0",
        "%00",
        "app",
        "V1",
        "",
    ] {
        let (status, body) = create(&machine, &json!({"code": code, "destination": TO}));
        assert_eq!(
            (status, body["field"].as_str()),
            (422, Some("code")),
            "{code}"
        );
    }
    for (body, field) in [
        (json!({}), "destination"),
        (json!({"destination": 7}), "destination"),
        (
            json!({"destination": TO, "expires_at": "soon"}),
            "expires_at",
        ),
        (json!({"destination": TO, "max_clicks": 2}), "max_clicks"),
    ] {
        let (status, answer) = create(&machine, &body);
        assert_eq!(
            (status, answer["field"].as_str()),
            (422, Some(field)),
            "{body}"
        );
    }
    assert_eq!(links(&machine), Vec::<Value>::new());
    link(&machine, "x");
    let (status, body) = patch(
        &machine,
        "x",
        &json!({"destination": "javascript:alert(1)"}),
    );
    assert_eq!((status, body["field"].as_str()), (422, Some("destination")));
    assert_eq!(header(&visit(&machine, "/x"), "location"), Some(TO));
}

#[test]
fn the_host_of_the_request_is_our_own_too() {
    let machine = machine(&[]);
    let body = json!({"destination": "https://admin.example/x"});
    let mut asked = request("POST", "/v1/links?account=a", OPERATOR, &body);
    asked.origin = "https://admin.example".to_owned();
    assert_eq!(machine.handle(asked).status, 422);
}

#[test]
fn a_path_that_is_no_code_is_404_and_no_fault() {
    let machine = machine(&[]);
    let long = format!("/{}", "a".repeat(5000));
    for path in [
        &long,
        "/%00",
        "/%zz",
        "/%",
        "/%ff",
        "/%F0%9F%92%A5",
        "/a%2Fb",
        "/a%20b",
        "/x",
    ] {
        let answer = visit(&machine, path);
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(header(&answer, "cache-control"), Some("no-store"), "{path}");
    }
}

/// L6, L16, L17: the header is the stored text, and nothing may keep the answer.
#[test]
fn the_location_is_the_stored_destination_byte_for_byte() {
    let machine = machine(&[]);
    for (number, destination) in [
        "https://d.example/p?abc#123",
        "https://d.example/p?a=1#frag",
        "HTTPS://D.Example",
        "https://d.example/a/../b/./c%2f%20?&&=#",
        "https://d.example/\\x?y=\"<>{}|^`",
    ]
    .iter()
    .enumerate()
    {
        let code = format!("c{number}");
        let (status, _) = create(&machine, &json!({"code": code, "destination": destination}));
        assert_eq!(status, 201, "{destination}");
        let answer = visit(&machine, &format!("/{code}/?utm=1&x"));
        assert_eq!(answer.status, 302);
        assert_eq!(header(&answer, "location"), Some(*destination));
        assert_eq!(header(&answer, "cache-control"), Some("private, no-store"));
        assert_eq!(header(&answer, "x-robots-tag"), Some("noindex, nofollow"));
        assert_eq!(
            (header(&answer, "etag"), header(&answer, "expires")),
            (None, None)
        );
        assert!(answer.body.is_empty());
    }
}

/// L2: link checkers ask by HEAD; other methods are told what is allowed.
#[test]
fn head_answers_as_get_and_other_methods_are_told_what_is_allowed() {
    let machine = machine(&[]);
    link(&machine, "x");
    let head = machine.handle(request("HEAD", "/x", "", &Value::Null));
    assert_eq!((head.status, header(&head, "location")), (302, Some(TO)));
    let options = machine.handle(request("OPTIONS", "/x", "", &Value::Null));
    assert_eq!(options.status, 204);
    assert_eq!(header(&options, "allow"), Some("GET, HEAD, OPTIONS"));
    let delete = machine.handle(request("DELETE", "/x", "", &Value::Null));
    assert_eq!(delete.status, 405);
    assert_eq!(header(&delete, "allow"), Some("GET, HEAD, OPTIONS"));
}

#[test]
fn a_prefetch_is_503_without_retry_after_and_is_counted_as_one() {
    let machine = machine(&[]);
    link(&machine, "x");
    for (name, value) in [
        ("sec-purpose", "prefetch;prerender"),
        ("purpose", "prefetch"),
        ("x-moz", "prefetch"),
    ] {
        let answer = visit_with(&machine, "/x", |visit| set(visit, name, Some(value)));
        assert_eq!(answer.status, 503);
        assert_eq!(header(&answer, "cache-control"), Some("no-store"));
        assert_eq!(header(&answer, "retry-after"), None);
        assert_eq!(header(&answer, "location"), None);
    }
    let tally = control(
        &machine,
        "select total from tally where name = 'counterfoil_prefetched_total'",
    );
    assert_eq!(tally, 3);
}

/// L13, L14: within the published bound everywhere, at once where it was changed.
#[test]
fn a_change_is_in_force_at_once_here_and_within_the_bound_elsewhere() {
    let machine = machine(&[("LINK_CACHE_SECONDS", "30")]);
    link(&machine, "x");
    assert_eq!(visit(&machine, "/x").status, 302);
    // This isolate only has its memory.
    patch_elsewhere(&machine, "x", &json!({"disabled": true}));
    assert_eq!(visit(&machine, "/x").status, 302, "inside the bound");
    machine.advance(29_999);
    assert_eq!(visit(&machine, "/x").status, 302, "still inside");
    machine.advance(1);
    assert_eq!(visit(&machine, "/x").status, 410, "the bound is over");
    let (status, _) = patch(&machine, "x", &json!({"disabled": false}));
    assert_eq!((status, visit(&machine, "/x").status), (200, 302));
    let (_, body) = patch(&machine, "x", &json!({"disabled": true}));
    assert_eq!(
        (body["disabled"].as_bool(), visit(&machine, "/x").status),
        (Some(true), 410)
    );
}

/// L14: an isolate that is in use looks for changes and reads again only what was changed.
#[test]
fn what_nobody_changed_is_not_read_again_and_a_change_is_never_later_than_the_bound() {
    let faults = Rc::new(Faults::default());
    let gear = Rc::new(FaultyGear(Rc::clone(&faults)));
    let machine = Machine::geared(&[("LINK_CACHE_SECONDS", "30")], gear).expect("it starts");
    let account = json!({"id": "a"});
    assert_eq!(
        machine.call("POST", "/v1/accounts", OPERATOR, &account).0,
        201
    );
    let codes = ["x", "y", "z"];
    for code in codes {
        link(&machine, code);
    }
    let visit_all = || codes.map(|code| visit(&machine, &format!("/{code}")).status);
    assert_eq!(visit_all(), [302; 3]);
    for _ in 0..3 {
        machine.advance(15_000);
        assert_eq!(visit_all(), [302; 3]);
    }
    // Each was read once, 45 seconds ago; nothing is read now.
    faults.fail_at(1, When::Before, Then::Stands);
    assert_eq!(visit_all(), [302; 3]);
    faults.mend();
    patch_elsewhere(&machine, "y", &json!({"destination": "https://e.example/"}));
    machine.advance(15_000);
    visit_all();
    let leads_to = |code: &str| visit(&machine, &format!("/{code}"));
    assert_eq!(
        header(&leads_to("y"), "location"),
        Some("https://e.example/")
    );
    assert_eq!(header(&leads_to("x"), "location"), Some(TO));
    // A look that fails makes nothing older than the bound.
    patch_elsewhere(&machine, "z", &json!({"disabled": true}));
    machine.advance(15_000);
    faults.fail_at(1, When::Before, Then::Stands);
    assert_eq!(visit_all(), [302; 3]);
    faults.mend();
    machine.advance(15_000);
    assert_eq!(visit(&machine, "/z").status, 410);
}

#[test]
fn a_database_that_was_put_back_makes_every_link_be_read_again() {
    let machine = machine(&[("LINK_CACHE_SECONDS", "30")]);
    link(&machine, "x");
    patch_elsewhere(&machine, "x", &json!({"destination": "https://e.example/"}));
    assert_eq!(visit(&machine, "/x").status, 302);
    machine.advance(15_000);
    visit(&machine, "/x");
    let sql = format!("update link set destination = '{TO}', changed = 0 returning 1 as total");
    assert_eq!(control(&machine, &sql), 1);
    machine.advance(15_000);
    visit(&machine, "/x");
    assert_eq!(header(&visit(&machine, "/x"), "location"), Some(TO));
}

#[test]
fn a_code_that_was_asked_for_before_it_was_made_works_at_once() {
    let machine = machine(&[]);
    assert_eq!(visit(&machine, "/x").status, 404);
    link(&machine, "x");
    assert_eq!(visit(&machine, "/x").status, 302);
}

#[test]
fn an_expired_link_is_gone_until_its_expiry_is_taken_away() {
    let machine = machine(&[]);
    let body = json!({"code": "x", "destination": TO, "expires_at": "2026-11-10T12:00:10Z"});
    let (status, made) = create(&machine, &body);
    assert_eq!(status, 201);
    assert_eq!(made["expires_at"], "2026-11-10T12:00:10.000Z");
    assert_eq!(visit(&machine, "/x").status, 302);
    machine.advance(10_000);
    let answer = visit(&machine, "/x");
    assert_eq!(
        (answer.status, header(&answer, "cache-control")),
        (410, Some("no-store"))
    );
    let (status, kept) = patch(&machine, "x", &json!({"disabled": false}));
    assert_eq!(
        (status, &kept["expires_at"]),
        (200, &made["expires_at"]),
        "only what is named"
    );
    let (status, body) = patch(&machine, "x", &json!({"expires_at": null}));
    assert_eq!((status, &body["expires_at"]), (200, &Value::Null));
    assert_eq!(visit(&machine, "/x").status, 302);
}

#[test]
fn another_accounts_link_is_404_as_if_it_did_not_exist() {
    let machine = machine(&[]);
    link(&machine, "x");
    let target = "/v1/links/x?account=b";
    let (status, other) = machine.call("GET", target, OPERATOR, &Value::Null);
    let (_, none) = machine.call("GET", "/v1/links/y?account=b", OPERATOR, &Value::Null);
    assert_eq!((status, &other["detail"]), (404, &none["detail"]));
    let off = json!({"disabled": true});
    assert_eq!(machine.call("PATCH", target, OPERATOR, &off).0, 404);
    assert_eq!(visit(&machine, "/x").status, 302);
    let (_, body) = machine.call("GET", "/v1/links?account=b", OPERATOR, &Value::Null);
    assert_eq!(body["items"], json!([]));
}

/// L15: the code of a link is no field of a change, so it can never become another's.
#[test]
fn a_links_code_cannot_be_changed() {
    let machine = machine(&[]);
    link(&machine, "x");
    link(&machine, "y");
    let (status, body) = patch(&machine, "y", &json!({"code": "X"}));
    assert_eq!((status, body["field"].as_str()), (422, Some("code")));
}

#[test]
fn a_list_is_paged_in_order_and_searched_in_code_and_destination() {
    let machine = machine(&[]);
    for code in ["c", "a", "b"] {
        link(&machine, code);
    }
    let body = json!({"code": "z", "destination": "https://Shop.example/"});
    assert_eq!(create(&machine, &body).0, 201);
    let page = |query: &str| {
        let target = format!("/v1/links?account=a&{query}");
        let (status, body) = machine.call("GET", &target, OPERATOR, &Value::Null);
        assert_eq!(status, 200);
        let codes: Vec<String> = (body["items"].as_array().expect("a list").iter())
            .map(|item| item["code"].as_str().expect("a code").to_owned())
            .collect();
        (codes.join(""), body["next"].as_str().map(str::to_owned))
    };
    assert_eq!(page("limit=2"), ("ab".to_owned(), Some("b".to_owned())));
    assert_eq!(page("limit=2&after=b"), ("cz".to_owned(), None));
    assert_eq!(page("q=SHOP").0, "z");
    assert_eq!(page("q=%25").0, "", "no character is a wildcard");
    assert_eq!(page("q=b").0, "b");
}

/// The text of a picture, as a reader of QR codes sees it.
fn decoded(png_bytes: &[u8]) -> (u32, String) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(png_bytes));
    reader.set_transformations(png::Transformations::EXPAND);
    let mut reader = reader.read_info().expect("a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
    let frame = reader.next_frame(&mut pixels).expect("a frame");
    let (width, height) = (frame.width as usize, frame.height as usize);
    assert_eq!(width, height);
    let mut image =
        rqrr::PreparedImage::prepare_from_greyscale(width, height, |x, y| pixels[y * width + x]);
    let grids = image.detect_grids();
    assert_eq!(grids.len(), 1);
    let (meta, text) = grids[0].decode().expect("it reads");
    assert_eq!(meta.ecc_level, 0, "M, as rqrr numbers the levels");
    let quiet = pixels
        .iter()
        .position(|pixel| *pixel == 0)
        .expect("a dark one")
        / width;
    let modules = 17 + 4 * meta.version.0;
    let module = width / (modules + 8);
    assert!(quiet >= 4 * module, "a quiet zone of four modules");
    (frame.width, text)
}

/// L21: the picture says the public address, whatever the host it was asked for through.
#[test]
fn a_qr_picture_decodes_to_the_public_short_address() {
    let machine = machine(&[("PUBLIC_URL", "https://b.example")]);
    link(&machine, "spring-26_x");
    for (query, size) in [
        ("", 512),
        ("?size=64", 64),
        ("?size=333", 333),
        ("?size=2048", 2048),
    ] {
        let answer = visit_with(&machine, "/v1/links/Spring-26_X/qr.png", |asked| {
            asked.origin = "https://admin.internal:8443".to_owned();
            asked.query = query.trim_start_matches('?').to_owned();
        });
        assert_eq!(answer.status, 200);
        assert_eq!(header(&answer, "content-type"), Some("image/png"));
        let (width, text) = decoded(&answer.body);
        assert_eq!(
            (width, text.as_str()),
            (size, "https://b.example/spring-26_x")
        );
    }
    for size in ["63", "2049", "-1", "x", "", "+100", "512.0", "4294967296"] {
        let path = format!("/v1/links/spring-26_x/qr.png?size={size}");
        assert_eq!(visit(&machine, &path).status, 422, "{size}");
    }
    assert_eq!(visit(&machine, "/v1/links/nobody/qr.png").status, 404);
    assert_eq!(visit(&machine, "/v1/links/nobody/qr.svg").status, 404);
}

/// The drawing and the picture show the same modules.
#[test]
fn a_qr_drawing_has_the_modules_of_the_picture() {
    let machine = machine(&[]);
    link(&machine, "x");
    let answer = visit(&machine, "/v1/links/x/qr.svg");
    assert_eq!(header(&answer, "content-type"), Some("image/svg+xml"));
    let svg = String::from_utf8(answer.body).expect("text");
    let side: usize = svg
        .split("0 0 ")
        .nth(1)
        .and_then(|s| s.split(' ').next())
        .expect("a box")
        .parse()
        .expect("a number");
    let mut pixels = vec![255_u8; side * side];
    let path = svg
        .split("<path d=\"")
        .nth(1)
        .and_then(|s| s.split('"').next())
        .expect("a path");
    for run in path.split('M').skip(1) {
        let (x, rest) = run.split_once(' ').expect("x");
        let (y, rest) = rest.split_once('h').expect("y");
        let (length, _) = rest.split_once('v').expect("a length");
        let number = |text: &str| text.parse::<usize>().expect("a number");
        for at in 0..number(length) {
            pixels[number(y) * side + number(x) + at] = 0;
        }
    }
    let scale = 8;
    let mut image =
        rqrr::PreparedImage::prepare_from_greyscale(side * scale, side * scale, |x, y| {
            pixels[y / scale * side + x / scale]
        });
    let (_, text) = image.detect_grids()[0].decode().expect("it reads");
    assert_eq!(text, "http://localhost:8787/x");
}

const CHROME: &str = "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 \
    (KHTML, like Gecko) Chrome/124.0.0.0 Mobile Safari/537.36";

/// What the ledger has once every shard has sent its batches.
fn entries(machine: &Machine) -> Vec<(String, i64, Value)> {
    machine.advance(2_000);
    let sql = "select kind, units, code, account_id, cycle, reason, rule, country, referrer_host, \
        occurred_at_ms from entry order by occurred_at_ms, units desc";
    let rows = block_on(Db::query(&machine.ledger, Statement::new(sql, vec![])));
    let view = |row: &counterfoil::ports::Row| {
        let text = |name: &str| row.opt_text(name).expect("text").map(str::to_owned);
        let said = json!({"code": text("code"), "account": text("account_id"),
            "cycle": text("cycle"), "reason": text("reason"), "rule": text("rule"),
            "country": text("country"), "referrer": text("referrer_host"),
            "at": row.int("occurred_at_ms").expect("a moment")});
        let kind = row.text("kind").expect("a kind").to_owned();
        (kind, row.int("units").expect("units"), said)
    };
    rows.expect("it runs").iter().map(view).collect()
}

fn units(machine: &Machine) -> Vec<i64> {
    entries(machine)
        .into_iter()
        .map(|(_, units, _)| units)
        .collect()
}

fn click(machine: &Machine, agent: Option<&str>) -> Response {
    visit_with(machine, "/x", |visit| set(visit, "user-agent", agent))
}

#[test]
fn a_click_is_one_entry_of_its_links_account_and_cycle() {
    let machine = machine(&[]);
    link(&machine, "x");
    let answer = visit_with(&machine, "/X?utm_source=mail", |visit| {
        set(visit, "user-agent", Some(CHROME));
        set(
            visit,
            "referer",
            Some("https://News.Example:8443/private/page?token=1"),
        );
        visit.country = Some("DE".to_owned());
    });
    assert_eq!(answer.status, 302);
    let at = machine.clock.0.get().get();
    let expected = json!({"code": "x", "account": "a", "cycle": "2026-11", "reason": null,
        "rule": null, "country": "DE", "referrer": "news.example", "at": at});
    assert_eq!(entries(&machine), [("click".to_owned(), 1, expected)]);
}

/// L1, L2: one crawler's GET and three HEADs that a user agent would not give away.
#[test]
fn a_head_is_never_a_click_whoever_sends_it() {
    let machine = machine(&[]);
    link(&machine, "x");
    for agent in [
        Some(CHROME),
        Some("Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X)"),
        None,
    ] {
        let mut head = request("HEAD", "/x", "", &Value::Null);
        set(&mut head, "user-agent", agent);
        assert_eq!(machine.handle(head).status, 302);
    }
    assert_eq!(
        machine
            .handle(request("OPTIONS", "/x", "", &Value::Null))
            .status,
        204
    );
    assert_eq!(
        machine
            .handle(request("DELETE", "/x", "", &Value::Null))
            .status,
        405
    );
    assert_eq!(units(&machine), Vec::<i64>::new());
    assert_eq!(click(&machine, Some("Twitterbot/1.0")).status, 302);
    assert_eq!(units(&machine), [1, -1]);
}

/// L3: a machine that says so is redirected, and takes nothing from anybody.
#[test]
fn a_crawlers_click_is_taken_back_with_its_reason_and_the_lists_version() {
    let machine = machine(&[]);
    link(&machine, "x");
    for agent in [
        Some("meta-externalagent/1.1"),
        None,
        Some("Mozilla/5.0 (compatible; Googlebot/2.1)"),
        Some("some-new-bot/0.1"),
    ] {
        assert_eq!(click(&machine, agent).status, 302);
        machine.advance(1);
    }
    let entries = entries(&machine);
    let net: i64 = entries.iter().map(|(_, units, _)| units).sum();
    assert_eq!((entries.len(), net), (8, 0));
    let corrections: Vec<(&str, &str)> = (entries.iter())
        .filter(|(kind, _, _)| kind == "correction")
        .map(|(_, _, said)| {
            (
                said["reason"].as_str().expect("one"),
                said["rule"].as_str().expect("one"),
            )
        })
        .collect();
    let reasons: Vec<&str> = corrections.iter().map(|(reason, _)| *reason).collect();
    assert_eq!(reasons, ["preview_crawler", "no_user_agent", "bot", "bot"]);
    let has_version = |rule: &str| {
        let version = rule.rsplit(' ').next().unwrap_or_default();
        version.starts_with(|c: char| c.is_ascii_digit())
    };
    assert!(
        corrections.iter().all(|(_, rule)| has_version(rule)),
        "{corrections:?}"
    );
    assert!(corrections[0].1.starts_with("crawler-user-agents "));
}

/// L4: the browser inside an app belongs to a person.
#[test]
fn a_click_in_an_apps_browser_counts() {
    let machine = machine(&[]);
    link(&machine, "x");
    for app in [
        "Snapchat/12.87 (Pixel 8)",
        "Instagram 329.0.0.41.93 Android",
        "[FBAN/FBIOS]",
    ] {
        let agent = format!("{CHROME} {app}");
        assert_eq!(click(&machine, Some(&agent)).status, 302);
    }
    assert_eq!(units(&machine), [1, 1, 1]);
}

/// L13: what was not a redirect is no row, and what was inside the bound is one.
#[test]
fn only_an_answered_redirect_is_recorded() {
    let machine = machine(&[]);
    link(&machine, "x");
    assert_eq!(click(&machine, Some(CHROME)).status, 302);
    let prefetch = visit_with(&machine, "/x", |visit| {
        set(visit, "sec-purpose", Some("prefetch"));
    });
    assert_eq!(prefetch.status, 503);
    assert_eq!(visit(&machine, "/y").status, 404);
    assert_eq!(visit(&machine, "/v1/links/x/qr.png").status, 200);
    patch_elsewhere(&machine, "x", &json!({"disabled": true}));
    assert_eq!(
        click(&machine, Some(CHROME)).status,
        302,
        "inside LINK_CACHE_SECONDS"
    );
    machine.advance(30_000);
    assert_eq!(click(&machine, Some(CHROME)).status, 410);
    assert_eq!(units(&machine), [1, 1]);
}

/// L12: only the platform's connecting address is believed.
#[test]
fn a_forged_forwarded_address_changes_nothing() {
    let machine = machine(&[("DOUBLE_CLICK_MS", "60000")]);
    link(&machine, "x");
    for forged in ["1.2.3.4", "5.6.7.8"] {
        let answer = visit_with(&machine, "/x", |visit| {
            set(visit, "user-agent", Some(CHROME));
            set(visit, "x-forwarded-for", Some(forged));
            set(visit, "cf-ipcountry", Some("XX"));
        });
        assert_eq!(answer.status, 302);
        machine.advance(10);
    }
    let entries = entries(&machine);
    let reason = |index: usize| entries[index].2["reason"].clone();
    assert_eq!(entries.len(), 3, "the second is the same visitor's");
    assert!(entries.iter().any(|(_, units, _)| *units == -1));
    assert!((0..3).any(|index| reason(index) == "double_click"));
    assert!((0..2).all(|index| entries[index].2["country"] == "NZ"));
}

/// L9: a double click, one millisecond later.
#[test]
fn of_two_clicks_of_one_visitor_at_once_one_counts() {
    let machine = machine(&[("DOUBLE_CLICK_MS", "1000")]);
    link(&machine, "x");
    assert_eq!(click(&machine, Some(CHROME)).status, 302);
    machine.advance(1);
    assert_eq!(click(&machine, Some(CHROME)).status, 302);
    assert_eq!(units(&machine).iter().sum::<i64>(), 1);
    assert_eq!(
        click(&machine, Some(&format!("{CHROME} other"))).status,
        302
    );
    assert_eq!(units(&machine).iter().sum::<i64>(), 2);
}

/// L5: our own pages never go through the short link.
#[test]
fn a_redirect_is_never_refused_for_a_limit_and_our_own_pictures_are_no_clicks() {
    let machine = machine(&[]);
    link(&machine, "x");
    for _ in 0..200 {
        assert_eq!(click(&machine, Some(CHROME)).status, 302);
    }
    for path in ["/v1/links/x/qr.svg", "/v1/links/x/qr.png?size=64"] {
        assert_eq!(visit(&machine, path).status, 200);
    }
    assert_eq!(units(&machine), vec![1; 200]);
}

#[test]
fn the_page_shows_an_accounts_links_with_clicks_by_day() {
    let machine = machine(&[]);
    link(&machine, "x");
    for agent in [Some(CHROME), Some(CHROME), None] {
        assert_eq!(click(&machine, agent).status, 302);
    }
    machine.advance(2_000);
    let page = |target: &str| {
        let answer = machine.handle(request("GET", target, OPERATOR, &Value::Null));
        assert_eq!(answer.status, 200, "{target}");
        String::from_utf8(answer.body).expect("text")
    };
    let html = page("/app/links?account=a");
    for part in [
        "http://localhost:8787/x",
        "/v1/links/x/qr.svg",
        "POST /v1/links?account=a",
        "<time datetime=\"2026-11-10\">2026-11-10</time>",
        "<td class=\"n\" data-of=\"Clicks\">3</td>",
        "<td class=\"n\" data-of=\"Taken back\">1</td><td class=\"n\" data-of=\"Count\">2</td>",
        "PATCH /v1/links/x?account=a",
    ] {
        assert!(html.contains(part), "{part} is not in\n{html}");
    }
    assert!(page("/app/links?account=a&code=y").contains("Nothing was recorded"));
    assert!(page("/app/links").contains("/app/links?account=b"));
    assert!(!page("/app/links?account=b").contains("localhost:8787/x"));
}
