//! Text that opens no block, and where a block begins.

/// Openers that the reader takes for the beginning of calls, in lower case.
const OPENERS: [&str; 3] = ["<action", "<tool_call", "<tool_use"];

/// The opener of a block as it is taught.
pub(super) const OPENER: &str = "<ACTION>";

/// Regular expression for texts that hold an opener.
pub(super) fn opened() -> String {
    let letter = |c: char| {
        if c.is_ascii_alphabetic() { format!("[{c}{}]", c.to_ascii_uppercase()) } else { c.to_string() }
    };
    let openers = OPENERS.iter().map(|opener| opener.chars().map(letter).collect::<String>());
    format!("(?s:.*)({})(?s:.*)", openers.collect::<Vec<_>>().join("|"))
}

/// State of reading an opener.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Read {
    text: String,
    /// Flag of a beginning of the taught opener.
    taught: bool,
}

/// The rules of GBNF for text that holds no opener, or that ends with the taught one and what `body` says.
///
/// Each rule stands for what was read of an opener: the next character leads to a longer beginning, or to a shorter one.
pub(super) fn rules(body: &str) -> Vec<(String, String)> {
    let mut states = vec![Read { text: String::new(), taught: true }];
    let mut rules = Vec::new();
    let mut next = 0;
    while let Some(state) = states.get(next).cloned() {
        let mut options = vec!["\"\"".to_owned()];
        let mut known = String::new();
        for c in characters(&state) {
            let Some(after) = after(&state, c) else {
                known.push(c);
                continue;
            };
            known.push(c);
            if after.text.is_empty() {
                known.pop();
                continue;
            }
            let target = {
                let index = states.iter().position(|other| *other == after).unwrap_or_else(|| {
                    states.push(after);
                    states.len() - 1
                });
                format!("f{index}")
            };
            options.push(format!("\"{c}\" {target}"));
        }
        options.push(format!("[^{known}] f0"));
        if is_whole(&state) {
            // Only the end of the taught opener may follow.
            options = vec![format!("\">\" {body}")];
        }
        rules.push((format!("f{next}"), options.join(" | ")));
        next += 1;
    }
    rules
}

/// The characters that lead anywhere but back to the beginning.
fn characters(state: &Read) -> Vec<char> {
    let mut all = vec!['<'];
    for opener in OPENERS {
        if let Some(c) =
            opener.strip_prefix(state.text.to_ascii_lowercase().as_str()).and_then(|rest| rest.chars().next())
        {
            all.extend([c, c.to_ascii_uppercase()]);
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

fn is_whole(state: &Read) -> bool {
    state.taught && state.text.eq_ignore_ascii_case("<action")
}

/// State after one more character; `None` once an opener other than the taught one is complete.
fn after(state: &Read, c: char) -> Option<Read> {
    let text = format!("{}{c}", state.text);
    let beginnings = (0..=text.len()).map(|start| &text[start..]);
    let lower = |text: &str| text.to_ascii_lowercase();
    let longest =
        beginnings.into_iter().find(|rest| OPENERS.iter().any(|opener| opener.starts_with(&lower(rest))))?;
    let taught = OPENER.starts_with(longest);
    let whole = OPENERS.contains(&lower(longest).as_str());
    let text = if taught { longest.to_owned() } else { lower(longest) };
    (!whole || taught).then_some(Read { text, taught })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_know_what_was_read() {
        let rules = rules("body");
        let shown = |name: &str| rules.iter().find(|(known, _)| known == name).map(|(_, rule)| rule.as_str());
        assert_eq!(shown("f0"), Some(r#""" | "<" f1 | [^<] f0"#));
        assert!(rules.iter().any(|(_, rule)| rule == "\">\" body"));
        assert!(rules.len() < 30, "{}", rules.len());
    }

    #[test]
    fn an_opener_in_any_case_is_one() {
        let open = regex::Regex::new(&format!("^(?:{})$", opened())).unwrap();
        for text in ["a <action>", "<Tool_Call name", "<<<TOOL_CALL>>>", "x<tool_use>y"] {
            assert!(open.is_match(text), "{text}");
        }
        for text in ["a < b", "<tool>", "<act ion>", "<<tool call>>"] {
            assert!(!open.is_match(text), "{text}");
        }
    }
}
