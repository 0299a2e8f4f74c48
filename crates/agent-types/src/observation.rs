//! Observations: the text returned to the model after a call, one exact text for each outcome.

use serde::{Deserialize, Serialize};

use crate::CallId;

/// Prefix of every observation in events and history.
pub const OBSERVATION_PREFIX: &str = "Observation: ";

/// The one table of outcomes: variant, code on the wire, whether a retry can help, and the text for the model.
macro_rules! observation_codes {
    ($($(#[$doc:meta])* $variant:ident => ($code:literal, $retryable:literal, $text:literal),)+) => {
        /// Outcome of a call, or the reason why it was not executed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum ObservationCode {
            $($(#[$doc])* #[serde(rename = $code)] $variant,)+
        }

        impl ObservationCode {
            /// Every code there is.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Stable name on the wire; never reworded.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)+ }
            }

            /// The code of a name on the wire.
            #[must_use]
            pub fn of_word(word: &str) -> Option<Self> {
                Self::ALL.iter().find(|code| code.as_str() == word).copied()
            }

            /// Returns `true` if a retry by the model can help.
            #[must_use]
            pub const fn is_retryable(self) -> bool {
                match self { $(Self::$variant => $retryable,)+ }
            }

            const fn template(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

observation_codes! {
    // kind                code                   retry  what the model reads
    /// The tool answered.
    Ok                 => ("ok",                  false, "Tool {name} executed successfully. Result: {result}"),
    /// No such tool is offered.
    UnknownTool        => ("unknown_tool",        true,  "Error - Unknown tool '{name}'{near} Available: {available}"),
    /// A parameter that the tool does not declare.
    UnknownParameter   => ("unknown_parameter",   true,  "Error - Invalid parameters for {name}: {faults}"),
    /// A required parameter is absent.
    MissingParameter   => ("missing_parameter",   true,  "Error - Invalid parameters for {name}: {faults}"),
    /// Two values for one parameter.
    DuplicateParameter => ("duplicate_parameter", true,  "Error - Invalid parameters for {name}: {faults}"),
    /// A value that does not fit its schema.
    InvalidArgument    => ("invalid_argument",    true,  "Error - Invalid parameters for {name}: {faults}"),
    /// The block could not be read.
    Malformed          => ("malformed_xml",       true,  "Error - Malformed XML in ACTION block: {message}{place}. {hint}"),
    /// The reply looks like a call and holds none.
    UnreadCall         => ("unread_call",         true,  "Error - No call was read and nothing was run: the reply holds {what}: {excerpt} - {hint}"),
    /// The tool said that it failed.
    Failed             => ("failed",              true,  "Error - Tool {name} failed: {message}"),
    /// The tool's code panicked.
    Panicked           => ("panicked",            false, "Error - Tool {name} failed: {message}"),
    /// The tool did not answer in time.
    Timeout            => ("timeout",             true,  "Error - Tool {name} failed: no answer within {n} ms"),
    /// The run was cancelled while the tool ran.
    Cancelled          => ("cancelled",           false, "Error - Tool {name} was cancelled"),
    /// The call was never started.
    Refused            => ("refused",             false, "Error - Tool {name} was not run: {reason}"),
    /// The final answer does not fit the agent's output schema.
    OutputSchema       => ("output_schema",       true,  "Error - The answer does not fit the output schema: {faults}"),
    /// Something the model should know.
    Note               => ("note",                false, "Note - {text}"),
}

impl ObservationCode {
    /// The words that each text of the code begins with.
    #[must_use]
    pub fn beginning(self) -> &'static str {
        self.template().split('{').next().unwrap_or_default()
    }

    /// The exact text of §7.1 without the prefix; `fields` fill the placeholders, which are not read again.
    #[must_use]
    pub fn text(self, fields: &[(&str, &str)]) -> String {
        let mut text = String::new();
        let mut rest = self.template();
        while let Some((before, after)) = rest.split_once('{') {
            text.push_str(before);
            let (name, tail) = after.split_once('}').unwrap_or((after, ""));
            text.push_str(fields.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value));
            rest = tail;
        }
        text.push_str(rest);
        text.truncate(text.trim_end().len());
        text
    }
}

/// Text returned to the model for one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// The call it answers; `None` for a note, or for a block that held no call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// Canonical id of the tool, or the name that the model wrote; empty for a note.
    pub tool: String,
    /// Outcome of the call.
    pub code: ObservationCode,
    /// The exact text without the prefix.
    pub text: String,
}

impl Observation {
    /// The text with its prefix, as events and history hold it.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{OBSERVATION_PREFIX}{}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: ObservationCode, fields: &[(&str, &str)], expected: &str) {
        assert_eq!(code.text(fields), expected);
    }

    #[test]
    fn texts_are_those_of_the_table() {
        check(
            ObservationCode::Ok,
            &[("name", "ReadWorldStateTool"), ("result", "sunny {name}")],
            "Tool ReadWorldStateTool executed successfully. Result: sunny {name}",
        );
        check(
            ObservationCode::UnknownTool,
            &[("name", "serch"), ("near", ", did you mean 'search'?"), ("available", "search")],
            "Error - Unknown tool 'serch', did you mean 'search'? Available: search",
        );
        check(
            ObservationCode::Malformed,
            &[("message", "unexpected end"), ("place", " at line 1, column 2"), ("hint", "Close it.")],
            "Error - Malformed XML in ACTION block: unexpected end at line 1, column 2. Close it.",
        );
        check(ObservationCode::Cancelled, &[("name", "t")], "Error - Tool t was cancelled");
    }

    #[test]
    fn what_a_model_reads_of_each_code() {
        let name = |template: &str| {
            let names = template.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
            names.map(|(name, _)| (name.to_owned(), format!("<{name}>"))).collect::<Vec<_>>()
        };
        let texts = ObservationCode::ALL.iter().map(|code| {
            let fields = name(code.template());
            let fields: Vec<(&str, &str)> =
                fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            format!("{}: {}", code.as_str(), code.text(&fields))
        });
        insta::assert_snapshot!(texts.collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn codes_are_distinct() {
        let mut codes: Vec<_> = ObservationCode::ALL.iter().map(|code| code.as_str()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), ObservationCode::ALL.len());
    }
}
