//! Compaction of the older part of a long conversation.

use agent_types::{EventSink, Usage, estimate_tokens};
use futures::future::{Either, select};
use llm_provider::{LlmRequest, Message, complete};

use super::parts::Driver;
use super::results::shorten_end;
use crate::history::{Exchange, visible};
use crate::machine::{Conversation, Summary};
use crate::profile::Language;
use crate::requests::summary_request;
use crate::resume::PastSummary;

/// Purpose of a request for a summary.
const PURPOSE: &str = "summary";

/// Default share of the window at which the older part is compacted.
const COMPACT_AT: f64 = 0.8;

/// Newest messages that stay, unless the profile says otherwise.
const KEEP: usize = 8;

/// Maximum length of one message's excerpt in a summary without a model, in characters.
const EXCERPT: usize = 160;

/// Maximum length of a summary without a model, in bytes.
const MAX_FALLBACK: usize = 4 * 1024;

/// Most compactions in a row.
pub(crate) const MAX_COMPACTIONS: u8 = 2;

/// Most pointers to stored results that a summary keeps.
const MAX_POINTERS: usize = 16;

/// Word before the name of a stored result.
const POINTER: &str = "blob:";

/// Limits of a request, in tokens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestRoom {
    /// The older part is compacted beyond this.
    pub(crate) compact_at: usize,
    /// A request beyond this is not sent.
    pub(crate) most: usize,
    /// Tokens of what no compaction shortens.
    pinned: usize,
}

/// Reason for a compaction, which decides how much stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// The user wants it: the newest messages stay, as configured.
    Asked,
    /// The window fills: the last exchange stays at least.
    Filling,
    /// The request does not fit: only the newest message stays.
    WindowSpace,
}

impl RequestRoom {
    /// The limits beside instructions that no compaction shortens: it waits until half of the rest is used, so that not
    /// every turn compacts.
    pub(crate) fn beside(self, pinned: usize) -> Self {
        let half = pinned + self.most.saturating_sub(pinned) / 2;
        Self { compact_at: self.compact_at.max(half).min(self.most), pinned, ..self }
    }

    /// The compaction that a request of so many tokens needs behind so many others, if one may help.
    pub(crate) fn need(self, used: usize, compactions: u8) -> Option<Need> {
        match compactions {
            0 if used > self.compact_at => Some(Need::Filling),
            1..MAX_COMPACTIONS if used > self.most => Some(Need::WindowSpace),
            _ => None,
        }
    }
}

impl Driver {
    /// Limits of a request; `None` for an unknown window. A window that the server taught counts if it is smaller.
    pub(crate) fn room(&self, learned: Option<u64>) -> Option<RequestRoom> {
        let profile = &self.context.profile;
        let own = profile.llm.as_ref().and_then(|llm| llm.parameters.get("context_window")?.as_u64());
        let known = own.or(self.model.info().context_window);
        let window = [known, learned].into_iter().flatten().min()?;
        let window = usize::try_from(window).unwrap_or(usize::MAX);
        let answer = self.parameters.max_tokens.or(self.model.info().max_tokens);
        let answer = answer.map_or(0, |tokens| tokens as usize);
        let most = window - answer.min(window / 2);
        let share = profile.memory.as_ref().and_then(|memory| memory.compact_at).unwrap_or(COMPACT_AT);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a number of tokens"
        )]
        let compact_at = (window as f64 * share.clamp(0.0, 1.0)) as usize;
        Some(RequestRoom { compact_at: compact_at.min(most), most, pinned: 0 })
    }
}

/// Replaces all but the newest messages by a summary; `None` when there is nothing to compact, or the run was
/// cancelled meanwhile.
pub(crate) async fn compaction(
    driver: &Driver,
    conversation: &Conversation,
    need: Need,
    room: Option<RequestRoom>,
) -> Option<Summary> {
    let history = conversation.history();
    let memory = driver.context.profile.memory.as_ref();
    // What stays leaves half of the room for what comes.
    let tokens = room
        .filter(|_| need != Need::Asked)
        .map_or(usize::MAX, |room| (room.most - room.pinned.min(room.most)) / 2);
    let upto = cut(history, memory.and_then(|memory| memory.keep).unwrap_or(KEEP), tokens, need)?;
    if let Some(PastSummary { text, by, usage, .. }) = driver.context.log.summary(conversation.turn()) {
        driver.count(usage);
        return Some(Summary { text, upto, by, usage, request: None });
    }
    driver.context.log.resume();
    let (safe, cancelled) =
        (std::pin::pin!(driver.context.log.durable()), std::pin::pin!(driver.context.cancel.cancelled()));
    let Either::Left((Ok(()), _)) = select(safe, cancelled).await else { return None };
    // A summary takes a quarter of the window at most; four bytes are at least one token.
    let limit = room.map_or(usize::MAX, |room| room.most);
    let asking = summary_of(driver, transcript(history, upto, limit.saturating_mul(3)));
    let is_kept = driver.context.log.persister().is_some();
    let request = is_kept.then(|| summary_request(&driver.model.info().name, &asking));
    let (summary, usage) = summary(driver, asking).await;
    let (mut text, by) = match summary {
        Some(text) => (text, "summary"),
        // Nobody waits for a summary, and the whole is better than excerpts.
        None if driver.context.cancel.is_cancelled() => return None,
        None => (excerpts(history, upto, MAX_FALLBACK.min(limit)), "fallback"),
    };
    shorten_end(&mut text, limit);
    if let Some(request) = under_way(history, upto) {
        let mut request = request.to_owned();
        shorten_end(&mut request, limit);
        text.extend(["\n\nAsked last: ", &request]);
    }
    let pointers: Vec<String> =
        pointers(history, upto).into_iter().filter(|pointer| !text.contains(pointer)).collect();
    if !pointers.is_empty() {
        text.extend(["\n\nStored results, read with system:read_blob: ", &pointers.join(", ")]);
    }
    Some(Summary { text, upto, by: by.to_owned(), usage, request })
}

/// Pointers to stored results in the older part, the newest last.
fn pointers(history: &[Exchange], upto: usize) -> Vec<String> {
    let (before, seen) = visible(history);
    let seen = seen.take_while(|(index, _)| *index < upto);
    let said = seen.flat_map(|(_, exchange)| lines(exchange)).map(|(_, said)| said);
    let mut found: Vec<String> = Vec::new();
    for text in before.map(str::to_owned).into_iter().chain(said) {
        for (at, _) in text.match_indices(POINTER) {
            let mut names = text[at + POINTER.len()..].split(|letter: char| !letter.is_ascii_alphanumeric());
            let name = names.next().unwrap_or_default();
            let pointer = format!("{POINTER}{name}");
            if !name.is_empty() && !found.contains(&pointer) {
                found.push(pointer);
            }
        }
    }
    found.split_off(found.len().saturating_sub(MAX_POINTERS))
}

/// The request for a summary of the older part.
fn summary_of(driver: &Driver, transcript: String) -> LlmRequest {
    let instruction = match driver.context.profile.language.unwrap_or_default() {
        Language::En => {
            "Sum up the conversation below for whoever carries it on: what was asked, what was found, what was decided, what is open. Keep names, numbers and identifiers. Write the summary alone."
        }
        Language::Zh => {
            "为接手者概括以下对话：提出了什么、查到了什么、决定了什么、还有什么未完成。保留名称、数字和标识。只写概括。"
        }
    };
    let messages = vec![Message::system(instruction), Message::user(transcript)];
    LlmRequest { purpose: Some(PURPOSE), ..LlmRequest::new(messages) }
}

/// Asks the model for a summary; returns its tokens with it.
async fn summary(driver: &Driver, request: LlmRequest) -> (Option<String>, Usage) {
    let answering = complete(&*driver.model, request);
    let cancelled = std::pin::pin!(driver.context.cancel.cancelled());
    let answer = match select(std::pin::pin!(answering), cancelled).await {
        Either::Left((Ok(answer), _)) => answer,
        Either::Left((Err(_), _)) | Either::Right(_) => return (None, Usage::default()),
    };
    driver.count(answer.usage);
    let text = answer.text.trim().to_owned();
    ((!text.is_empty()).then_some(text), answer.usage)
}

/// End of the older part: the newest `keep` messages stay, widened to whole exchanges. Of a single exchange the
/// newest turns stay. Where the window fills the last exchange stays at most; where room is needed, its last message.
fn cut(history: &[Exchange], keep: usize, mut tokens: usize, need: Need) -> Option<usize> {
    let (_, seen) = visible(history);
    let seen: Vec<(usize, &Exchange)> = seen.collect();
    let first = seen.first()?.0;
    let mut left = if need == Need::WindowSpace { 1 } else { keep.max(1) };
    let mut from = history.len();
    for (index, exchange) in seen.iter().rev() {
        let size = tokens_of(exchange);
        if left == 0 || (from < history.len() && size > tokens) {
            break;
        }
        from = *index;
        left = left.saturating_sub(weight(exchange));
        tokens = tokens.saturating_sub(size);
    }
    let begins = seen
        .iter()
        .rev()
        .filter(|(_, exchange)| matches!(exchange, Exchange::User { .. } | Exchange::Event { .. }));
    let begins: Vec<usize> = begins.map(|(index, _)| *index).filter(|index| *index > first).collect();
    let whole = begins.iter().find(|index| **index <= from);
    match (whole, begins.first()) {
        _ if need == Need::WindowSpace => (from > first).then_some(from),
        (Some(whole), _) => Some(*whole),
        (None, Some(last)) => (need == Need::Filling).then_some(*last),
        (None, None) => (from > first).then_some(from),
    }
}

/// Request of the exchange that a cut goes through.
fn under_way(history: &[Exchange], upto: usize) -> Option<&str> {
    if matches!(history.get(upto), Some(Exchange::User { .. } | Exchange::Event { .. })) {
        return None;
    }
    history[..upto].iter().rev().find_map(|exchange| match exchange {
        Exchange::User { text, .. } => Some(text.as_str()),
        _ => None,
    })
}

/// Tokens of an exchange, roughly.
fn tokens_of(exchange: &Exchange) -> usize {
    lines(exchange).iter().map(|(_, said)| estimate_tokens(said)).sum()
}

/// Number of messages of an exchange.
fn weight(exchange: &Exchange) -> usize {
    match exchange {
        Exchange::Turn(turn) => 1 + turn.observations().count(),
        Exchange::Observed { observations, .. } => observations.len(),
        Exchange::User { .. } | Exchange::Event { .. } => 1,
        Exchange::Summary { .. } => 0,
    }
}

/// Older part as lines, with the summary of the messages before it. Long lines are cut where the whole would be longer
/// than `limit` bytes.
fn transcript(history: &[Exchange], upto: usize, limit: usize) -> String {
    let (before, seen) = visible(history);
    let before = before.map(|text| ("Before", text.to_owned()));
    let seen = seen.take_while(|(index, _)| *index < upto).flat_map(|(_, exchange)| lines(exchange));
    let mut said: Vec<(&str, String)> = before.into_iter().chain(seen).collect();
    if said.iter().map(|(_, text)| text.len()).sum::<usize>() > limit {
        let most = limit / said.len().max(1);
        said.iter_mut().for_each(|(_, text)| shorten_end(text, most));
    }
    let mut text = String::new();
    for (who, said) in &said {
        text.extend([*who, ": ", &protocol_action::neutralize(said), "\n"]);
    }
    text
}

fn lines(exchange: &Exchange) -> Vec<(&'static str, String)> {
    match exchange {
        Exchange::User { text, .. } => vec![("User", text.clone())],
        Exchange::Event { name, payload } => vec![("Event", format!("{name} {payload}"))],
        Exchange::Turn(turn) => {
            let seen = turn.observations().map(|observation| ("Result", observation.text.clone()));
            std::iter::once(("Assistant", turn.text.clone())).chain(seen).collect()
        }
        Exchange::Observed { observations, .. } => {
            observations.iter().map(|observation| ("Result", observation.text.clone())).collect()
        }
        Exchange::Summary { .. } => Vec::new(),
    }
}

/// Summary without a model: the beginning of each message; the newest ones take precedence.
fn excerpts(history: &[Exchange], upto: usize, limit: usize) -> String {
    let (before, seen) = visible(history);
    let seen: Vec<&Exchange> =
        seen.take_while(|(index, _)| *index < upto).map(|(_, exchange)| exchange).collect();
    let mut excerpts: Vec<String> = Vec::new();
    let mut bytes = 0;
    let newest = seen.iter().rev().flat_map(|exchange| lines(exchange).into_iter().rev());
    let earlier = before.map(|text| ("Before", text.to_owned()));
    for (who, said) in newest.chain(earlier) {
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = match said.char_indices().nth(EXCERPT) {
            Some((end, _)) => format!("{who}: {}…", &said[..end]),
            None => format!("{who}: {said}"),
        };
        bytes += line.len();
        if bytes > limit {
            break;
        }
        excerpts.push(line);
    }
    excerpts.reverse();
    excerpts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Turn;

    fn talk(kinds: &str) -> Vec<Exchange> {
        let one = |kind: char| match kind {
            'u' => Exchange::user("q"),
            's' => Exchange::Summary { text: "short".into(), upto: 2 },
            _ => Exchange::Turn(Turn { text: "a".into(), ..Turn::default() }),
        };
        kinds.chars().map(one).collect()
    }

    #[track_caller]
    fn check(kinds: &str, keep: usize, expected: Option<usize>) {
        assert_eq!(cut(&talk(kinds), keep, usize::MAX, Need::Asked), expected, "{kinds} keep {keep}");
    }

    #[test]
    fn whole_exchanges_stay() {
        check("uaua", 1, Some(2));
        check("uaua", 2, Some(2));
        check("uaua", 3, None);
        check("uauaua", 3, Some(2));
        check("uaaaa", 2, Some(3));
        check("u", 1, None);
        check("", 1, None);
        check("uauasua", 1, Some(5));
        assert_eq!(cut(&talk("uaua"), 8, usize::MAX, Need::Filling), Some(2), "the window fills");
        assert_eq!(cut(&talk("uaua"), 8, usize::MAX, Need::WindowSpace), Some(3), "room is needed");
        assert_eq!(cut(&talk("u"), 8, usize::MAX, Need::WindowSpace), None);
        assert_eq!(cut(&talk("uaaaa"), 8, 2, Need::Filling), Some(3), "what stays is limited");
    }

    #[test]
    fn a_short_form_needs_no_model() {
        assert_eq!(excerpts(&talk("uaua"), 2, 99), "User: q\nAssistant: a");
        assert_eq!(transcript(&talk("uauasua"), 5, usize::MAX), "Before: short\nUser: q\nAssistant: a\n");
    }
}
