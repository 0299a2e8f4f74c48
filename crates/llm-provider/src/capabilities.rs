//! Capabilities of models, derived from their names.

/// Capabilities of a model, as far as its name implies them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub struct Capabilities {
    /// It calls tools in the provider's own form.
    pub native_tools: bool,
    /// It reads images.
    pub images: bool,
    /// It reads PDF files.
    pub documents: bool,
    /// It reasons before it answers.
    pub reasoning: bool,
    /// Its name is of a known family.
    pub known: bool,
    /// Tokens that a request and its answer may hold together; unknown where it depends on the server.
    pub context_window: Option<u64>,
}

/// Beginnings of names, in lower case and without the maker's path; the longest that fits counts.
/// Letters: `n` native tools, `i` images, `d` documents, `r` reasoning. The window is in thousands of tokens, 0 unknown:
/// models that anyone may serve have the window that their server gives them.
const KNOWN: &[(&str, &str, u64)] = &[
    ("gpt-3.5", "n", 16),
    ("gpt-4", "n", 8),
    ("gpt-4-turbo", "ni", 128),
    ("gpt-4o", "nid", 128),
    ("gpt-4.1", "nid", 1_047),
    ("gpt-5", "nidr", 400),
    ("gpt-5-chat", "nid", 128),
    ("gpt-oss", "nr", 0),
    ("chatgpt-4o", "id", 128),
    ("o1", "nidr", 200),
    ("o1-mini", "r", 128),
    ("o1-preview", "r", 128),
    ("o3", "nidr", 200),
    ("o3-mini", "nr", 200),
    ("o4-mini", "nidr", 200),
    ("claude", "nid", 200),
    ("claude-2", "", 100),
    ("claude-3-haiku", "ni", 200),
    ("claude-3-7", "nidr", 200),
    ("claude-opus-4", "nidr", 200),
    ("claude-sonnet-4", "nidr", 200),
    ("claude-haiku-4", "nidr", 200),
    ("gemini", "nid", 1_048),
    ("gemini-1.5-pro", "nid", 2_097),
    ("gemini-2.5", "nidr", 1_048),
    ("gemini-3", "nidr", 1_048),
    ("grok-3", "n", 131),
    ("grok-3-mini", "nr", 131),
    ("grok-4", "nir", 256),
    ("deepseek-chat", "n", 128),
    ("deepseek-reasoner", "nr", 128),
    ("deepseek-r1", "r", 0),
    ("deepseek-v", "n", 0),
    ("kimi-k2", "n", 0),
    ("kimi-k2-thinking", "nr", 0),
    ("glm-4.5", "nr", 0),
    ("glm-4.5v", "nir", 0),
    ("glm-4.6", "nr", 0),
    ("mistral-large", "n", 128),
    ("mistral-medium", "ni", 128),
    ("mistral-small", "ni", 0),
    ("magistral", "nr", 0),
    ("ministral", "n", 0),
    ("pixtral", "ni", 0),
    ("codestral", "n", 0),
    ("llama-3.1", "n", 0),
    ("llama3.1", "n", 0),
    ("llama-3.2", "n", 0),
    ("llama3.2", "n", 0),
    ("llama3.2-vision", "i", 0),
    ("llama-3.3", "n", 0),
    ("llama3.3", "n", 0),
    ("llama-4", "ni", 0),
    ("llama4", "ni", 0),
    ("llava", "i", 0),
    ("gemma3", "i", 0),
    ("gemma-3", "i", 0),
    ("qwen2.5", "n", 0),
    ("qwen2.5-vl", "ni", 0),
    ("qwen2.5vl", "ni", 0),
    ("qwen3", "nr", 0),
    ("qwen3-coder", "n", 0),
    ("qwen3-vl", "nir", 0),
    ("qwq", "nr", 0),
    ("qwen-max", "n", 0),
    ("qwen-vl", "i", 0),
    ("command-r", "n", 128),
    ("command-a", "n", 256),
];

impl Capabilities {
    /// Returns the capabilities implied by a model's name; none for an unknown family.
    ///
    /// ```
    /// use llm_provider::Capabilities;
    ///
    /// let known = Capabilities::from_name("openai/gpt-4o-mini");
    /// assert!(known.images && known.native_tools && !known.reasoning);
    /// assert_eq!(Capabilities::from_name("my-own-model"), Capabilities::default());
    /// ```
    #[must_use]
    pub fn from_name(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
        let fitting = KNOWN.iter().filter(|(beginning, ..)| name.starts_with(beginning));
        let Some((_, can, thousands)) = fitting.max_by_key(|(beginning, ..)| beginning.len()) else {
            return Self::default();
        };
        Self {
            native_tools: can.contains('n'),
            images: can.contains('i'),
            documents: can.contains('d'),
            reasoning: can.contains('r'),
            known: true,
            context_window: (*thousands > 0).then_some(thousands * 1_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(model: &str, letters: &str, window: Option<u64>) {
        let known = Capabilities::from_name(model);
        let mut seen = String::new();
        for (has, letter) in
            [(known.native_tools, 'n'), (known.images, 'i'), (known.documents, 'd'), (known.reasoning, 'r')]
        {
            seen.extend(has.then_some(letter));
        }
        assert_eq!((seen.as_str(), known.context_window), (letters, window), "{model}");
    }

    #[test]
    fn the_longest_beginning_counts() {
        check("gpt-4", "n", Some(8_000));
        check("gpt-4o-2024-08-06", "nid", Some(128_000));
        check("o1-mini-2024", "r", Some(128_000));
        check("Claude-Sonnet-4-5", "nidr", Some(200_000));
        check("claude-3-5-sonnet-latest", "nid", Some(200_000));
        check("models/gemini-2.5-flash", "nidr", Some(1_048_000));
    }

    #[test]
    fn open_models_have_the_window_of_their_server() {
        check("qwen2.5-vl:7b", "ni", None);
        check("meta-llama/llama-3.3-70b-instruct", "n", None);
        check("stub", "", None);
        check("", "", None);
    }

    #[test]
    fn no_beginning_stands_twice_and_each_is_one_that_can_fit() {
        let mut seen = std::collections::BTreeSet::new();
        for (beginning, can, _) in KNOWN {
            assert!(seen.insert(beginning), "{beginning}");
            assert!(can.chars().all(|letter| "nidr".contains(letter)), "{beginning}");
            assert!(!beginning.contains('/') && beginning.to_ascii_lowercase() == *beginning, "{beginning}");
        }
    }
}
