//! Visitors of short links: people, machines that say so, and people who click twice.
//!
//! Each visit is known by the host that referred it, so it can be found in the ledger.

use std::rc::Rc;

use serde_json::Value as Json;

use crate::http::request::Request;
use crate::native::machine::request;
use crate::native::simulation::books::{VisitBook, Visited};
use crate::native::simulation::world::World;

const BROWSER: &str =
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/130.0.0.0 Safari/537.36";

/// Who comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A person, once.
    Person,
    /// A person, twice.
    Twice,
    /// A machine that says so.
    Machine,
}

/// One visitor, by a number of its own.
pub async fn visit(world: Rc<World>, account: String, code: String, who: Who, number: u64) {
    let agent = match who {
        Who::Machine => format!("Twitterbot/1.0 v{number}"),
        Who::Person | Who::Twice => format!("{BROWSER} v{number}"),
    };
    let host = format!("v{number}.example");
    let again = format!("w{number}.example");
    let book = |twin: Option<&String>| VisitBook {
        account: account.clone(),
        is_machine: who == Who::Machine,
        twin: twin.cloned(),
        visited: Visited::Unheard,
        excused: false,
    };
    if who == Who::Twice {
        world.stats().count("clicked_twice");
        click(&world, &code, &agent, &host, book(Some(&again))).await;
        click(&world, &code, &agent, &again, book(Some(&host))).await;
    } else {
        click(&world, &code, &agent, &host, book(None)).await;
    }
}

async fn click(world: &World, code: &str, agent: &str, host: &str, book: VisitBook) {
    world
        .books
        .borrow_mut()
        .visits
        .insert(host.to_owned(), book);
    let heard = world.send_request(request_of(code, agent, host)).await;
    world.stats().count(&format!("visit_{}", heard.status()));
    let visited = match heard.status() {
        302 => Visited::Redirected,
        0 => Visited::Unheard,
        _ => Visited::Refused,
    };
    if let Some(book) = world.books.borrow_mut().visits.get_mut(host) {
        book.visited = visited;
    }
}

fn request_of(code: &str, agent: &str, host: &str) -> Request {
    let mut click = request("GET", &format!("/{code}"), "", &Json::Null);
    click.headers = vec![
        ("user-agent".to_owned(), agent.to_owned()),
        ("referer".to_owned(), format!("https://{host}/page")),
    ];
    click
}
