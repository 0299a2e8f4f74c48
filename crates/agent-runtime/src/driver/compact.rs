//! Compaction of the older part of a long conversation.

use agent_types::Usage;
use futures::future::{Either, select};
use llm_provider::{LlmRequest, Message, complete};

use super::parts::Driver;
use crate::history::{Exchange, visible};
use crate::machine::{Conversation, Summary};
use crate::profile::Language;

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

impl Driver {
    /// Number of tokens of a request at which the older part is compacted; `None` for an unknown window.
    pub(crate) fn compact_from(&self) -> Option<usize> {
        let profile = &self.context.profile;
        let own = profile.llm.as_ref().and_then(|llm| llm.parameters.get("context_window")?.as_u64());
        let window = own.or(self.model.info().context_window)?;
        let share = profile.memory.as_ref().and_then(|memory| memory.compact_at).unwrap_or(COMPACT_AT);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a number of tokens"
        )]
        let limit = (window as f64 * share.clamp(0.0, 1.0)) as usize;
        Some(limit)
    }
}

/// Replaces all but the newest messages by a summary; `None` when there is nothing to compact, or the run was
/// cancelled meanwhile. With `needs_room` fewer messages than configured stay if necessary.
pub(crate) async fn compaction(
    driver: &Driver,
    conversation: &Conversation,
    needs_room: bool,
) -> Option<Summary> {
    let history = conversation.history();
    let memory = driver.context.profile.memory.as_ref();
    let upto = cut(history, memory.and_then(|memory| memory.keep).unwrap_or(KEEP), needs_room)?;
    if let Some((text, by)) = driver.context.log.summary() {
        return Some(Summary { text, upto, by, usage: Usage::default() });
    }
    driver.context.log.resume();
    let (summary, usage) = summary(driver, history, upto).await;
    let (mut text, by) = match summary {
        Some(text) => (text, "summary"),
        // Nobody waits for a summary, and the whole is better than excerpts.
        None if driver.context.cancel.is_cancelled() => return None,
        None => (excerpts(history, upto), "fallback"),
    };
    if let Some(request) = under_way(history, upto) {
        text.extend(["\n\nAsked last: ", request]);
    }
    Some(Summary { text, upto, by: by.to_owned(), usage })
}

/// Asks the model for a summary of the older part; returns its tokens with it.
async fn summary(driver: &Driver, history: &[Exchange], upto: usize) -> (Option<String>, Usage) {
    let instruction = match driver.context.profile.language.unwrap_or_default() {
        Language::En => {
            "Sum up the conversation below for whoever carries it on: what was asked, what was found, what was decided, what is open. Keep names, numbers and identifiers. Write the summary alone."
        }
        Language::Zh => {
            "为接手者概括以下对话：提出了什么、查到了什么、决定了什么、还有什么未完成。保留名称、数字和标识。只写概括。"
        }
    };
    let messages = vec![Message::system(instruction), Message::user(transcript(history, upto))];
    let request = LlmRequest { purpose: Some(PURPOSE), ..LlmRequest::new(messages) };
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
/// newest turns stay; with `needs_room`, at most the last exchange.
fn cut(history: &[Exchange], keep: usize, needs_room: bool) -> Option<usize> {
    let (_, seen) = visible(history);
    let seen: Vec<(usize, &Exchange)> = seen.collect();
    let first = seen.first()?.0;
    let mut left = keep.max(1);
    let mut from = history.len();
    for (index, exchange) in seen.iter().rev() {
        if left == 0 {
            break;
        }
        from = *index;
        left = left.saturating_sub(weight(exchange));
    }
    let begins = seen
        .iter()
        .rev()
        .filter(|(_, exchange)| matches!(exchange, Exchange::User { .. } | Exchange::Event { .. }));
    let begins: Vec<usize> = begins.map(|(index, _)| *index).filter(|index| *index > first).collect();
    let whole = begins.iter().find(|index| **index <= from);
    match (whole, begins.first()) {
        (Some(whole), _) => Some(*whole),
        (None, Some(last)) => needs_room.then_some(*last),
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

/// Number of messages of an exchange.
fn weight(exchange: &Exchange) -> usize {
    match exchange {
        Exchange::Turn(turn) => 1 + turn.observations().count(),
        Exchange::Observed { observations, .. } => observations.len(),
        Exchange::User { .. } | Exchange::Event { .. } => 1,
        Exchange::Summary { .. } => 0,
    }
}

/// Older part as lines, with the summary of the messages before it.
fn transcript(history: &[Exchange], upto: usize) -> String {
    let (before, seen) = visible(history);
    let mut text = String::new();
    if let Some(before) = before {
        text.extend(["Before: ", before, "\n"]);
    }
    for (_, exchange) in seen.take_while(|(index, _)| *index < upto) {
        for (who, said) in lines(exchange) {
            text.extend([who, ": ", &protocol_action::neutralize(&said), "\n"]);
        }
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
fn excerpts(history: &[Exchange], upto: usize) -> String {
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
        if bytes > MAX_FALLBACK {
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
        assert_eq!(cut(&talk(kinds), keep, false), expected, "{kinds} keep {keep}");
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
        assert_eq!(cut(&talk("uaua"), 8, true), Some(2), "room is needed");
    }

    #[test]
    fn a_short_form_needs_no_model() {
        assert_eq!(excerpts(&talk("uaua"), 2), "User: q\nAssistant: a");
        assert_eq!(transcript(&talk("uauasua"), 5), "Before: short\nUser: q\nAssistant: a\n");
    }
}
