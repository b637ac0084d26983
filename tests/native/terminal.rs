//! The command-line tool itself, started as an operator starts it, against the production router:
//! a machine behind a socket, one request after the other, half a second of its clock for each.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use counterfoil::http::request::Body;
use counterfoil::native::machine::{Machine, request};
use serde_json::{Value as Json, json};

const OPERATOR: &str = "dev-operator";
/// What passes on the machine's clock with each request.
const TICK_MS: i64 = 500;

/// What a command said and how it ended.
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Starts the tool with these arguments and answers it until it ends.
fn counterfoil(machine: &Machine, args: &[&str]) -> Said {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let child = Command::new(env!("CARGO_BIN_EXE_counterfoil"))
        .args(args)
        .args(["--url", &format!("http://{address}")])
        .env("OPERATOR_TOKEN", OPERATOR)
        .env("NO_PROXY", "*")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let ended = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&ended);
    let waiting = std::thread::spawn(move || {
        let output = child.wait_with_output().expect("it ends");
        over.store(true, Ordering::SeqCst);
        // One more connection, so that nobody waits for the next request.
        drop(TcpStream::connect(address));
        output
    });
    for stream in listener.incoming() {
        if ended.load(Ordering::SeqCst) {
            break;
        }
        // A connection that was given up is no request.
        let _ = serve(machine, stream.expect("a connection"));
    }
    let output = waiting.join().expect("it was waited for");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Said {
        code: output.status.code(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

fn serve(machine: &Machine, mut stream: TcpStream) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let mut part = vec![0; 65_536];
    let head = loop {
        let read = stream.read(&mut part)?;
        if read == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(&part[..read]);
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let (method, rest) = first.split_once(' ').unwrap_or_default();
    let target = rest.split(' ').next().unwrap_or_default();
    let mut asked = request(method, target, "", &Json::Null);
    asked.headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = asked.header("content-length").unwrap_or("0");
    let length: usize = length.parse().expect("a length");
    let mut body = bytes.split_off(head + 4);
    while body.len() < length {
        let read = stream.read(&mut part)?;
        body.extend_from_slice(&part[..read]);
    }
    asked.body = Body::Whole(body);
    let answer = machine.handle(asked);
    let mut written = format!("HTTP/1.1 {} x\r\nconnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        written.extend([name.as_str(), ": ", value.as_str(), "\r\n"]);
    }
    let length = answer.body.len().to_string();
    written.extend(["content-length: ", length.as_str(), "\r\n\r\n"]);
    stream.write_all(written.as_bytes())?;
    stream.write_all(&answer.body)?;
    machine.advance(TICK_MS);
    Ok(())
}

fn machine() -> Machine {
    Machine::new(&[]).expect("it starts")
}

/// Lines of the table, each as its words.
fn row<'a>(said: &'a Said, name: &str) -> Option<&'a str> {
    let line = said.out.lines().find(|line| line.starts_with(name))?;
    Some(line[name.len()..].trim())
}

fn made(machine: &Machine, method: &str, target: &str, body: &Json) -> Json {
    let (status, answer) = machine.call(method, target, OPERATOR, body);
    assert!((200..300).contains(&status), "{target}: {answer}");
    answer
}

#[test]
fn load_jobs_says_what_started_and_was_refused_and_that_the_limit_held() {
    let args = ["load", "jobs", "--jobs", "24", "--estimate", "1000"];
    let more = ["--limit", "20000", "--concurrency", "8"];
    let said = counterfoil(&machine(), &[&args[..], &more[..]].concat());
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    for (name, value) in [
        ("started", "20"),
        ("refused", "4"),
        ("failed", "0"),
        ("limit", "20000"),
        ("spent", "20000"),
        ("still held", "0"),
        ("ledger", "20000"),
        ("the limit held", "yes"),
    ] {
        assert_eq!(row(&said, name), Some(value), "{name}: {}", said.out);
    }
    for name in ["rate", "p50", "p95", "p99"] {
        assert!(row(&said, name).is_some(), "{name}: {}", said.out);
    }
}

#[test]
fn killed_workers_leave_their_jobs_to_the_sweeper() {
    let args = ["load", "jobs", "--jobs", "10", "--estimate", "100"];
    let more = ["--limit", "10000", "--kill-workers", "0.2"];
    let said = counterfoil(&machine(), &[&args[..], &more[..]].concat());
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    // Eight settle at 100, two die after a charge of 50.
    for (name, value) in [
        ("started", "10"),
        ("of these killed", "2"),
        ("spent", "900"),
        ("still held", "0"),
        ("ledger", "900"),
    ] {
        assert_eq!(row(&said, name), Some(value), "{name}: {}", said.out);
    }
}

#[test]
fn a_webhook_is_sent_listed_shown_and_replayed() {
    let machine = machine();
    let account = json!({"id": "a", "customer_id": "customer_a"});
    made(&machine, "POST", "/v1/accounts", &account);
    let sent = [
        "webhook",
        "send",
        "customer.payment_succeeded",
        "customer_a",
    ];
    let said = counterfoil(&machine, &[&sent[..], &["--deliver", "3"]].concat());
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert_eq!(row(&said, "answered"), Some("200 200 200"), "{}", said.out);
    let event_id = row(&said, "event").expect("an id").to_owned();
    let token = counterfoil(&machine, &[&sent[..], &["--deliver", "0"]].concat());
    assert_eq!(token.out.trim().split('.').count(), 3, "{}", token.out);
    let listed = counterfoil(&machine, &["events", "list", "--account", "a"]);
    assert_eq!(listed.out.lines().count(), 1, "{}", listed.out);
    for word in ["applied", "customer.payment_succeeded", "x3"] {
        assert!(listed.out.contains(word), "{word}: {}", listed.out);
    }
    let id = listed.out.split_whitespace().nth(1).expect("an id");
    let shown = counterfoil(&machine, &["events", "show", id]);
    let shown: Json = serde_json::from_str(&shown.out).expect("JSON");
    assert_eq!(shown["event_id"], json!(event_id));
    assert_eq!(shown["payload"]["event_id"], json!(event_id));
    let replayed = counterfoil(&machine, &["events", "replay", id]);
    assert_eq!(
        (replayed.code, replayed.out.trim()),
        (Some(0), &*format!("{id} is queued"))
    );
    let many = counterfoil(&machine, &["events", "replay", "--status", "applied"]);
    assert_eq!(many.out.trim(), "1 queued");
    let none = counterfoil(&machine, &["events", "show", "evt_nobody"]);
    assert_eq!(none.code, Some(2));
    assert!(none.err.contains("404"), "{}", none.err);
}

#[test]
fn the_reconciler_and_the_ledgers_export_run_from_a_terminal() {
    let machine = machine();
    let account = json!({"id": "a", "customer_id": "customer_a"});
    made(&machine, "POST", "/v1/accounts", &account);
    let usage = json!({"key": "=k", "feature": "clicks", "units": 7});
    made(&machine, "POST", "/v1/usage?account=a", &usage);
    let dry = counterfoil(&machine, &["reconcile", "--dry-run"]);
    assert_eq!(dry.code, Some(1), "{}{}", dry.out, dry.err);
    made(&machine, "POST", "/v1/run/reporter", &json!({}));
    let said = counterfoil(&machine, &["reconcile"]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert_eq!(row(&said, "checked"), row(&said, "matched"), "{}", said.out);
    let cycle = ["export", "ledger", "--account", "a", "--cycle", "2026-11"];
    let table = counterfoil(&machine, &cycle);
    let lines: Vec<&str> = table.out.lines().collect();
    assert_eq!(lines.len(), 2, "{}", table.out);
    assert!(lines[0].starts_with("id,feature,cycle,units,kind"));
    assert!(
        lines[1].contains(",clicks,2026-11,7,usage,,,'=k,"),
        "{}",
        lines[1]
    );
    let current = counterfoil(&machine, &["export", "ledger", "--account", "a"]);
    assert_eq!((&current.out, current.code), (&table.out, Some(0)));
    let other = ["export", "ledger", "--account", "a", "--cycle", "2026-10"];
    assert_eq!(counterfoil(&machine, &other).out.lines().count(), 1);
}
