//! What an isolate remembers of API keys and accounts, so that the gate's routes need no database
//! before they ask the account's object.
//!
//! Never the only place of a fact, and never older than `KEY_CACHE_SECONDS`. What admission rests
//! on cannot go wrong through it: an account is remembered only once its anchor is fixed and its
//! customer is known, and neither ever changes after that. A closed `period_mismatch` adds an
//! anchor that begins at least ten minutes later, and no memory lives longer than one minute. What
//! may lag in other isolates is the rate (`jobs_per_minute`) and a revoked key. Every change made
//! here is forgotten here at once: [`Remembered::forget_account`], [`Remembered::forget_key`].

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::Account;
use super::keys::ApiKey;
use crate::limits::{ACCOUNT_MEMORY_MS_MAX, REMEMBERED_MAX};
use crate::units::{AccountId, Millis};

/// The memory; bounded, behind one borrow each, never borrowed across an await.
#[derive(Default)]
pub struct Remembered {
    keys: RefCell<BTreeMap<String, (Millis, ApiKey)>>,
    accounts: RefCell<BTreeMap<AccountId, (Millis, Account)>>,
    session_key: RefCell<Option<String>>,
}

impl Remembered {
    /// A key that was read at most `age_ms` ago.
    pub fn key(&self, key_id: &str, now: Millis, age_ms: i64) -> Option<ApiKey> {
        fresh(&self.keys.borrow(), key_id, now, age_ms)
    }

    /// Keeps a key that is not revoked.
    pub fn keep_key(&self, key: &ApiKey, now: Millis) {
        let mut keys = self.keys.borrow_mut();
        make_room(&mut keys);
        keys.insert(key.key_id.clone(), (now, key.clone()));
    }

    /// Forgets a key, because it was revoked here.
    pub fn forget_key(&self, key_id: &str) {
        self.keys.borrow_mut().remove(key_id);
    }

    /// An account that was read at most `age_ms` and at most one minute ago.
    pub fn account(&self, id: &AccountId, now: Millis, age_ms: i64) -> Option<Account> {
        let age_ms = age_ms.min(ACCOUNT_MEMORY_MS_MAX);
        fresh(&self.accounts.borrow(), id, now, age_ms)
    }

    /// Keeps an account, where what admission rests on can no longer change.
    pub fn keep_account(&self, account: &Account, now: Millis) {
        if account.anchor_fixed && account.customer_id.is_some() {
            let mut accounts = self.accounts.borrow_mut();
            make_room(&mut accounts);
            accounts.insert(account.account_id.clone(), (now, account.clone()));
        }
    }

    /// Forgets an account, because it was changed here.
    pub fn forget_account(&self, id: &AccountId) {
        self.accounts.borrow_mut().remove(id);
    }

    /// The session key that was made at the first start.
    pub fn session_key(&self) -> Option<String> {
        self.session_key.borrow().clone()
    }

    /// Keeps that session key; it never changes.
    pub fn keep_session_key(&self, key: &str) {
        self.session_key.replace(Some(key.to_owned()));
    }
}

fn fresh<K, Q: Ord + ?Sized, V: Clone>(
    memory: &BTreeMap<K, (Millis, V)>,
    id: &Q,
    now: Millis,
    age_ms: i64,
) -> Option<V>
where
    K: Ord + std::borrow::Borrow<Q>,
{
    let (read_at, value) = memory.get(id)?;
    (0..age_ms)
        .contains(&now.since(*read_at))
        .then(|| value.clone())
}

/// A full memory is emptied: simple, and each entry costs one read to have again.
fn make_room<K: Ord, V>(memory: &mut BTreeMap<K, V>) {
    if memory.len() >= REMEMBERED_MAX {
        memory.clear();
    }
}
