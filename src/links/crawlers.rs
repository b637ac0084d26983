//! Machines that say so: a maintained list of user agents, and the words of self-declaration.
//!
//! The list is the npm package `crawler-user-agents`, spelled out into plain texts by
//! `scripts/crawlers.mjs` (`crawlers.tsv`; its first line names the version). Lists change and
//! with them tomorrow's verdicts, never yesterday's: each correction keeps the name and version
//! that decided. The browser inside an app is a person's, whatever the app is called.

use std::sync::OnceLock;

use super::rules::Reason;

const LIST: &str = include_str!("crawlers.tsv");
/// Name and version of [`declares_itself`].
const WORDS_RULE: &str = "counterfoil-words 1";
/// Longer user agents are looked at this far: real ones are under 500 bytes.
const LOOKED_AT_BYTES_MAX: usize = 2048;

/// A machine: why it is taken for one, and which rule of which version says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The correction's reason.
    pub reason: Reason,
    /// The list or rule, with its version.
    pub rule: &'static str,
}

/// What a user agent says of itself; `None` is a person's browser. Pure: the list is part of the
/// program.
pub fn judge(user_agent: Option<&str>) -> Option<Verdict> {
    let Some(agent) = user_agent.map(str::trim).filter(|text| !text.is_empty()) else {
        return Some(Verdict {
            reason: Reason::NoUserAgent,
            rule: "counterfoil-no-user-agent 1",
        });
    };
    let agent = agent.as_bytes();
    let agent = agent.get(..LOOKED_AT_BYTES_MAX).unwrap_or(agent);
    let list = List::get();
    if let Some(reason) = list.find(agent) {
        return Some(Verdict {
            reason,
            rule: list.rule,
        });
    }
    declares_itself(agent).then_some(Verdict {
        reason: Reason::Bot,
        rule: WORDS_RULE,
    })
}

/// One text of the list.
#[derive(Debug)]
struct Listed {
    text: &'static [u8],
    reason: Reason,
    at_start: bool,
    at_end: bool,
    /// An app's name: a machine only without a browser's engine.
    app: bool,
    /// Must follow somewhere behind.
    then: &'static [u8],
}

/// The list in the order of its texts' bytes, so that those that begin alike lie together.
#[derive(Debug)]
struct List {
    rule: &'static str,
    texts: Vec<Listed>,
    /// One bit for each head that some text may begin with: nearly all places of a person's user
    /// agent are passed over by one look.
    heads: Vec<u64>,
}

/// The bytes by which texts are looked up; no text is shorter.
const HEAD: usize = 3;
/// Some forty times as many as there are texts.
const HEAD_BITS: usize = 1 << 16;

fn bit_of(head: &[u8]) -> usize {
    head.iter()
        .fold(0, |bit, byte| (bit << 5) ^ usize::from(*byte))
        % HEAD_BITS
}

impl List {
    fn get() -> &'static Self {
        static READ: OnceLock<List> = OnceLock::new();
        READ.get_or_init(Self::read)
    }

    fn read() -> Self {
        let mut lines = LIST.lines();
        let rule = lines.next().unwrap_or_default();
        let mut texts: Vec<Listed> = lines.filter_map(listed).collect();
        texts.sort_by_key(|one| one.text);
        let mut heads = vec![0_u64; HEAD_BITS / 64];
        for one in &texts {
            let bit = bit_of(one.head());
            if let Some(word) = heads.get_mut(bit / 64) {
                *word |= 1 << (bit % 64);
            }
        }
        Self { rule, texts, heads }
    }

    fn may_begin(&self, head: &[u8]) -> bool {
        let bit = bit_of(head);
        let word = self.heads.get(bit / 64).copied().unwrap_or(u64::MAX);
        word & (1 << (bit % 64)) != 0
    }

    /// The strongest reason of all texts that fit: a preview fetcher often also says it is a bot.
    fn find(&self, agent: &[u8]) -> Option<Reason> {
        let mut found = None;
        for (at, head) in agent.windows(HEAD).enumerate() {
            if !self.may_begin(head) {
                continue;
            }
            let first = self.texts.partition_point(|one| one.head() < head);
            let alike = self.texts.iter().skip(first);
            for one in alike.take_while(|one| one.head() == head) {
                if one.fits(agent, at) {
                    if one.reason == Reason::PreviewCrawler {
                        return Some(one.reason);
                    }
                    found = Some(one.reason);
                }
            }
        }
        found
    }
}

impl Listed {
    fn head(&self) -> &'static [u8] {
        self.text.get(..HEAD).unwrap_or(self.text)
    }

    fn fits(&self, agent: &[u8], at: usize) -> bool {
        let Some(rest) = agent
            .get(at..)
            .and_then(|here| here.strip_prefix(self.text))
        else {
            return false;
        };
        (!self.at_start || at == 0)
            && (!self.at_end || rest.is_empty())
            && (self.then.is_empty() || contains(rest, self.then))
            && !(self.app && has_engine(agent))
    }
}

/// `text kind where [then]`, by tabs; `where` is `-` or some of `start`, `end`, `app`.
fn listed(line: &'static str) -> Option<Listed> {
    let mut parts = line.split('\t');
    let text = parts.next().filter(|text| text.len() >= HEAD)?;
    let reason = match parts.next()? {
        "preview_crawler" => Reason::PreviewCrawler,
        "bot" => Reason::Bot,
        _ => return None,
    };
    let place = parts.next()?;
    let has = |word: &str| place.split('+').any(|one| one == word);
    Some(Listed {
        text: text.as_bytes(),
        reason,
        at_start: has("start"),
        at_end: has("end"),
        app: has("app"),
        then: parts.next().unwrap_or_default().as_bytes(),
    })
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Whether a browser's engine is named, as it is in an app's own browser.
fn has_engine(agent: &[u8]) -> bool {
    contains(agent, b"AppleWebKit/") || contains(agent, b" Gecko/")
}

/// A word that ends in `bot`, `crawler` or `spider` names a machine that no list knows yet. Cubot
/// is a maker of telephones.
fn declares_itself(agent: &[u8]) -> bool {
    let agent = agent.to_ascii_lowercase();
    [&b"bot"[..], b"crawler", b"spider"].iter().any(|word| {
        agent.windows(word.len()).enumerate().any(|(at, window)| {
            let before = agent.get(..at).unwrap_or_default();
            let after = agent.get(at + word.len());
            window == *word
                && !after.is_some_and(u8::is_ascii_alphabetic)
                && !(*word == b"bot" && before.ends_with(b"cu"))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(agent: &str) -> Option<Reason> {
        judge(Some(agent)).map(|verdict| verdict.reason)
    }

    #[test]
    fn the_whole_list_is_read_and_names_its_version() {
        let list = List::get();
        assert_eq!(list.texts.len() + 1, LIST.lines().count());
        assert!(
            list.rule.starts_with("crawler-user-agents "),
            "{}",
            list.rule
        );
        for one in &list.texts {
            let mut agent = one.text.to_vec();
            agent.extend(one.then);
            assert!(list.find(&agent).is_some(), "{one:?}");
        }
    }

    #[test]
    fn machines_that_say_so_are_told_apart() {
        for (agent, expected) in [
            ("Twitterbot/1.0", Reason::PreviewCrawler),
            ("meta-externalagent/1.1", Reason::PreviewCrawler),
            ("facebookexternalhit/1.1", Reason::PreviewCrawler),
            ("Slackbot-LinkExpanding 1.0", Reason::PreviewCrawler),
            ("WhatsApp/2.23.20.0", Reason::PreviewCrawler),
            ("Mozilla/5.0 (compatible; Googlebot/2.1)", Reason::Bot),
            ("curl/8.5.0", Reason::Bot),
            ("SomeBot/1.0", Reason::Bot),
            ("my-new-crawler", Reason::Bot),
            ("acme spider (x)", Reason::Bot),
        ] {
            assert_eq!(reason(agent), Some(expected), "{agent}");
        }
        for none in [None, Some(""), Some("  ")] {
            let verdict = judge(none).map(|verdict| verdict.reason);
            assert_eq!(verdict, Some(Reason::NoUserAgent));
        }
    }

    #[test]
    fn the_browser_inside_an_app_is_a_persons() {
        let webkit = "Mozilla/5.0 (Linux; Android 14; Pixel 8; wv) AppleWebKit/537.36 \
            (KHTML, like Gecko) Version/4.0 Chrome/124.0.0.0 Mobile Safari/537.36";
        for app in [
            "",
            " Snapchat/12.87.0.40 (Pixel 8; Android 14#1; gzip)",
            " Instagram 329.0.0.41.93 Android (33/13; 450dpi; 1080x2177; samsung; SM-A536B)",
            " [FBAN/EMA;FBLC/en_US;FBAV/460.0.0.28.109;]",
            " [FB_IAB/FB4A;FBAV/460.0.0.28.109;]",
            " MetaIAB Facebook",
            " WhatsApp/2.24",
            " [Pinterest/Android]",
            " Tumblr/iPhone/33.9",
            " Viber/22",
            " MicroMessenger/8.0.48.2580",
            " musical_ly_2023403040 JsSdk/1.0 BytedanceWebview/d8a21c6",
        ] {
            assert_eq!(reason(&format!("{webkit}{app}")), None, "{app}");
        }
        let cubot = "Mozilla/5.0 (Linux; Android 12; CUBOT NOTE 20) AppleWebKit/537.36 Mobile";
        assert_eq!(reason(cubot), None);
        assert_eq!(reason("Mozilla/5.0 (X11; Linux) Test"), None);
    }

    #[test]
    fn a_text_at_the_start_fits_nowhere_else() {
        assert_eq!(reason("Mozilla/5.0 curl-like Test"), None);
        assert_eq!(reason("curl"), Some(Reason::Bot));
    }

    #[test]
    fn an_endless_user_agent_is_looked_at_so_far_only() {
        assert_eq!(reason(&"x".repeat(1_000_000)), None);
        assert_eq!(reason("é💥\u{202e}"), None);
    }
}
