//! The management API's access token: one for all isolates, because each one fetched is paid for.
//!
//! It stands in DB and, as a copy, in the isolate. Shortly before its end one isolate claims the
//! renewal and the others go on with the old one. Where there is none yet, the claim makes the
//! others wait: by reading the row, because no request may wait for another's I/O.

use std::cell::RefCell;
use std::rc::Rc;

use super::{ProviderFault, wire};
use crate::fault::Fault;
use crate::isolate::Isolate;
use crate::params;
use crate::ports::{Clock, Db, Row, Statement, Timer, Transport};
use crate::units::Millis;

/// A token is not used in its last minute: a request takes time, and clocks differ.
const SKEW_MS: i64 = 60_000;
/// So long before that it is renewed, by one, while the others use it.
const RENEW_MS: i64 = 240_000;
/// A claim ends by itself: the client's timeout is 10 s.
const CLAIM_MS: i64 = 15_000;
/// How often, and in what pauses, the row is read while another fetches the first token; after
/// about as long as a fetch may take, we fetch too.
const WAITS: u32 = 100;
const PAUSE_MS: u32 = 100;

/// The tenant and the application that tokens are for.
pub(super) struct Credentials {
    pub origin: String,
    pub client_id: String,
    pub client_secret: String,
}

/// The token of one tenant and application.
pub(super) struct Tokens {
    transport: Rc<dyn Transport>,
    db: Rc<dyn Db>,
    clock: Rc<dyn Clock>,
    timer: Rc<dyn Timer>,
    isolate: Rc<Isolate>,
    held: RefCell<Option<Token>>,
}

#[derive(Clone)]
struct Token {
    text: String,
    usable_until: Millis,
    renew_at: Millis,
}

impl Token {
    fn new(text: String, now: Millis, lifetime_ms: i64) -> Self {
        // A token of a few minutes is not spent on margins.
        let usable_until = now.after(lifetime_ms - SKEW_MS.min(lifetime_ms / 10));
        let renew_at = usable_until.after(-RENEW_MS.min(lifetime_ms / 4));
        Self {
            text,
            usable_until,
            renew_at,
        }
    }

    fn of_row(row: &Row) -> Result<Option<Self>, Fault> {
        let Some(text) = row.opt_text("access_token")? else {
            return Ok(None);
        };
        Ok(Some(Self {
            text: text.to_owned(),
            usable_until: row.millis("usable_until_ms")?,
            renew_at: row.millis("renew_at_ms")?,
        }))
    }
}

impl Tokens {
    pub fn new(
        transport: &Rc<dyn Transport>,
        db: &Rc<dyn Db>,
        clock: &Rc<dyn Clock>,
        timer: &Rc<dyn Timer>,
        isolate: &Rc<Isolate>,
    ) -> Self {
        Self {
            transport: Rc::clone(transport),
            db: Rc::clone(db),
            clock: Rc::clone(clock),
            timer: Rc::clone(timer),
            isolate: Rc::clone(isolate),
            held: RefCell::new(None),
        }
    }

    fn now(&self) -> Millis {
        self.clock.read().after(self.isolate.clock_offset_ms.get())
    }

    /// A token that can be used now.
    pub async fn get(&self, of: &Credentials) -> Result<String, ProviderFault> {
        let now = self.now();
        let held = self.held.borrow().clone();
        if let Some(token) = held.filter(|token| now < token.renew_at) {
            return Ok(token.text);
        }
        match self
            .stored(of)
            .await?
            .filter(|token| now < token.usable_until)
        {
            None => self.first(of).await,
            Some(token) => {
                self.held.replace(Some(token.clone()));
                if now < token.renew_at || !self.claim(of).await? {
                    return Ok(token.text);
                }
                // The old one is still good, so a renewal that fails is tried again later.
                Ok(self.fetch(of).await.unwrap_or(token.text))
            }
        }
    }

    /// The provider refused this token: nobody uses it again.
    pub async fn forget(&self, of: &Credentials, refused: &str) -> Result<(), ProviderFault> {
        if (self.held.borrow().as_ref()).is_some_and(|token| token.text == refused) {
            self.held.replace(None);
        }
        let sql = "update provider_token set access_token = null \
             where source = ?1 and access_token = ?2";
        self.run(Statement::new(sql, params![source(of), refused]))
            .await?;
        Ok(())
    }

    async fn first(&self, of: &Credentials) -> Result<String, ProviderFault> {
        for _ in 0..WAITS {
            if self.claim(of).await? {
                return self.fetch(of).await;
            }
            self.timer.pause(PAUSE_MS).await;
            let now = self.now();
            let stored = self.stored(of).await?;
            if let Some(token) = stored.filter(|token| now < token.usable_until) {
                self.held.replace(Some(token.clone()));
                return Ok(token.text);
            }
        }
        self.fetch(of).await
    }

    async fn fetch(&self, of: &Credentials) -> Result<String, ProviderFault> {
        match self.fetched(of).await {
            Ok(token) => {
                self.held.replace(Some(token.clone()));
                let sql = "insert into provider_token \
                     (source, access_token, usable_until_ms, renew_at_ms) values (?1, ?2, ?3, ?4) \
                     on conflict (source) do update set access_token = excluded.access_token, \
                     usable_until_ms = excluded.usable_until_ms, \
                     renew_at_ms = excluded.renew_at_ms, claimed_until_ms = 0";
                let params = params![
                    source(of),
                    token.text.as_str(),
                    token.usable_until,
                    token.renew_at
                ];
                self.run(Statement::new(sql, params)).await?;
                Ok(token.text)
            }
            Err(fault) => {
                let sql = "update provider_token set claimed_until_ms = 0 where source = ?1";
                self.run(Statement::new(sql, params![source(of)])).await?;
                Err(fault)
            }
        }
    }

    async fn fetched(&self, of: &Credentials) -> Result<Token, ProviderFault> {
        let request = wire::token_request(&of.origin, &of.client_id, &of.client_secret);
        let answer = self.transport.send(request).await.map_err(no_answer)?;
        let (text, lifetime_ms) = wire::token(&wire::accepted(&answer)?)?;
        Ok(Token::new(text, self.now(), lifetime_ms))
    }

    async fn stored(&self, of: &Credentials) -> Result<Option<Token>, ProviderFault> {
        let sql = "select access_token, usable_until_ms, renew_at_ms from provider_token \
             where source = ?1";
        let rows = self.run(Statement::new(sql, params![source(of)])).await?;
        match rows.first() {
            None => Ok(None),
            Some(row) => Token::of_row(row).map_err(no_answer),
        }
    }

    /// Whether it is now ours to fetch a token.
    async fn claim(&self, of: &Credentials) -> Result<bool, ProviderFault> {
        let now = self.now();
        let sql = "insert into provider_token (source, claimed_until_ms) values (?1, ?3) \
             on conflict (source) do update set claimed_until_ms = excluded.claimed_until_ms \
             where claimed_until_ms <= ?2 and (access_token is null or renew_at_ms <= ?2) \
             returning source";
        let params = params![source(of), now, now.after(CLAIM_MS)];
        let rows = self.run(Statement::new(sql, params)).await?;
        Ok(!rows.is_empty())
    }

    async fn run(&self, statement: Statement) -> Result<Vec<Row>, ProviderFault> {
        self.db.query(statement).await.map_err(no_answer)
    }
}

/// A token of another tenant or application is not ours.
fn source(of: &Credentials) -> String {
    format!("{} {}", of.origin, of.client_id)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that map_err wants"
)]
pub(super) fn no_answer(fault: Fault) -> ProviderFault {
    ProviderFault::Unknown(fault.to_string())
}
