//! Expectations of a scripted reply on the request that it answers.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use crate::{LlmRequest, Message};

/// Required content of a request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RequestCheck {
    /// All of these, without regard to case.
    pub contains: Vec<String>,
    /// None of these, without regard to case.
    pub lacks: Vec<String>,
    /// Each of these exactly once.
    pub once: Vec<String>,
    /// Each call with its result, and the other way round.
    pub pairs: bool,
    /// So many messages.
    pub messages: Option<usize>,
    /// At most so many bytes of text.
    pub max_bytes: Option<usize>,
    /// Exactly these native tools, in any order.
    pub tools: Option<Vec<String>>,
    /// Index of an earlier request that is, byte for byte, the beginning of this one.
    pub same_prefix_as: Option<usize>,
}

impl RequestCheck {
    /// Returns unmet expectations; `earlier` are the requests before this one, as texts of messages.
    pub(crate) fn faults(&self, request: &LlmRequest, earlier: &[Vec<String>]) -> Vec<String> {
        let texts = message_texts(request);
        let whole = texts.join("\n");
        let folded = whole.to_lowercase();
        let mut faults = Vec::new();
        let mut want = |holds: bool, fault: &dyn Fn() -> String| {
            if !holds {
                faults.push(fault());
            }
        };
        for piece in &self.contains {
            want(folded.contains(&piece.to_lowercase()), &|| format!("the request lacks {piece:?}"));
        }
        for piece in &self.lacks {
            want(!folded.contains(&piece.to_lowercase()), &|| format!("the request holds {piece:?}"));
        }
        for piece in &self.once {
            let count = whole.matches(piece.as_str()).count();
            want(count == 1, &|| format!("the request holds {piece:?} {count} times"));
        }
        if let Some(count) = self.messages {
            want(texts.len() == count, &|| format!("{} messages instead of {count}", texts.len()));
        }
        if let Some(limit) = self.max_bytes {
            want(whole.len() <= limit, &|| format!("{} bytes instead of at most {limit}", whole.len()));
        }
        if let Some(names) = &self.tools {
            let wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
            let offered: BTreeSet<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
            want(wanted == offered, &|| format!("tools {offered:?} instead of {wanted:?}"));
        }
        if let Some(index) = self.same_prefix_as {
            let is_prefix = earlier.get(index).is_some_and(|before| texts.starts_with(before));
            want(is_prefix, &|| format!("request {index} is not the beginning of this one"));
        }
        if self.pairs {
            want(has_pairs(request), &|| "a call without its result, or a result without its call".into());
        }
        faults
    }
}

/// The messages as comparable texts: role, text, calls.
pub(crate) fn message_texts(request: &LlmRequest) -> Vec<String> {
    request.messages.iter().map(message_text).collect()
}

fn message_text(message: &Message) -> String {
    match message {
        Message::System { text } | Message::User { text, .. } => text.clone(),
        Message::Assistant { text, calls } if calls.is_empty() => text.clone(),
        Message::Assistant { text, calls } => {
            let calls: Vec<_> =
                calls.iter().map(|call| format!("{}: {}({})", call.id, call.name, call.arguments)).collect();
            format!("{text}\n{}", calls.join("\n"))
        }
        Message::Tool { call, text, .. } => format!("{call}: {text}"),
    }
}

/// Returns `true` when each native call has its one result after it, and each result its call before it.
fn has_pairs(request: &LlmRequest) -> bool {
    let mut open: BTreeSet<&str> = BTreeSet::new();
    for message in &*request.messages {
        match message {
            Message::Assistant { calls, .. } => {
                if !open.is_empty() || !calls.iter().all(|call| open.insert(&call.id)) {
                    return false;
                }
            }
            Message::Tool { call, .. } => {
                if !open.remove(call.as_str()) {
                    return false;
                }
            }
            Message::System { .. } => {}
            Message::User { .. } => {
                if !open.is_empty() {
                    return false;
                }
            }
        }
    }
    open.is_empty()
}

/// The arguments of a scripted call as a provider would write them.
pub(crate) fn argument_text(arguments: &Value) -> String {
    match arguments {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NativeCall;

    #[track_caller]
    fn check(json: &str, request: &LlmRequest, expected: &[&str]) {
        let check: RequestCheck = serde_json::from_str(json).unwrap();
        let earlier = vec![vec!["be brief".to_owned()]];
        assert_eq!(check.faults(request, &earlier), expected);
    }

    #[test]
    fn each_wish_is_looked_at() {
        let request = LlmRequest::new(vec![Message::system("be brief"), Message::user("What is Rust? rust")]);
        check(r#"{"contains": ["RUST", "brief"]}"#, &request, &[]);
        check(r#"{"contains": ["zig"]}"#, &request, &[r#"the request lacks "zig""#]);
        check(r#"{"lacks": ["Brief"]}"#, &request, &[r#"the request holds "Brief""#]);
        check(r#"{"once": ["Rust"], "messages": 2, "same_prefix_as": 0}"#, &request, &[]);
        check(r#"{"messages": 3}"#, &request, &["2 messages instead of 3"]);
        check(r#"{"max_bytes": 5}"#, &request, &["27 bytes instead of at most 5"]);
        check(r#"{"tools": ["a"]}"#, &request, &[r#"tools {} instead of {"a"}"#]);
    }

    #[test]
    fn calls_and_results_must_pair() {
        let call = NativeCall::new("1", "t", "{}");
        let asked = Message::Assistant { text: String::new(), calls: vec![call] };
        let answered = Message::Tool { call: "1".into(), name: "t".into(), text: "ok".into() };
        check(r#"{"pairs": true}"#, &LlmRequest::new(vec![asked.clone(), answered]), &[]);
        check(
            r#"{"pairs": true}"#,
            &LlmRequest::new(vec![asked]),
            &["a call without its result, or a result without its call"],
        );
    }
}
