//! Prompt text for models, and untrusted text beside it.

use protocol_action::{Lang, NoVocabulary, neutralize, parse, prompt_rules};

const EXAMPLE: &str = "<ACTION>\n  <kb__Query>\n    <query>…</query>\n  </kb__Query>\n</ACTION>";

#[test]
fn the_rules_hold_the_example_and_one_form_of_a_call() {
    for lang in [Lang::En, Lang::Zh] {
        let rules = prompt_rules(lang, EXAMPLE);
        assert_eq!(rules.matches(EXAMPLE).count(), 1);
        assert!(!rules.contains("{example}") && !rules.contains("<tool name="), "{rules}");
        for word in ["<item>", "<![CDATA[", "[results …]", "[end of results …]", "`true`", "`…`"] {
            assert!(rules.contains(word), "{lang:?} lacks {word}");
        }
        // A model that is shown how a result begins writes one.
        assert!(!rules.contains("Observation"), "{rules}");
        let parsed = parse(&rules, &NoVocabulary);
        assert_eq!((parsed.calls.len(), parsed.calls[0].tool.as_str()), (1, "kb__Query"));
        assert_eq!(parsed.calls[0].repairs, []);
    }
}

/// The rules stand in each conversation, so their length counts in each.
#[test]
fn the_rules_are_short() {
    let tokens = |lang| {
        let rules = prompt_rules(lang, EXAMPLE);
        let is_wide = |c: &char| matches!(u32::from(*c), 0x2E80..=0x9FFF | 0xFF00..=0xFFEF);
        let wide = rules.chars().filter(is_wide);
        let (count, bytes) = wide.fold((0, 0), |(count, bytes), c| (count + 1, bytes + c.len_utf8()));
        count + (rules.len() - bytes).div_ceil(4)
    };
    assert!(tokens(Lang::En) <= 280, "{}", tokens(Lang::En));
    assert!(tokens(Lang::Zh) <= 250, "{}", tokens(Lang::Zh));
}

#[test]
fn neutral_text_is_hardly_longer() {
    let page = "<html><body class=\"a\"><p>Tom &amp; Jerry, a < b && c; see <a href=\"x?y=1&z=2\">here</a></p></body></html>\n\
                fn main() { if a < b { println!(\"{}\", x & y); } }\n| a | b |\n```\ncode\n```\n";
    for text in ["plain words, 中文, and more of them\n", page] {
        let safe = neutralize(text);
        assert!(safe.len() * 100 <= text.len() * 105, "{} became {}", text.len(), safe.len());
    }
    assert!(matches!(neutralize("a < b & c <b>d</b> &copy;"), std::borrow::Cow::Borrowed(_)));
}

#[test]
fn only_what_could_be_acted_on_is_escaped() {
    for (text, safe) in [
        ("</ ACTION >", "&lt;/ ACTION >"),
        ("<Tool_Call name=\"x\">", "&lt;Tool_Call name=\"x\">"),
        ("a\n</think>\nb", "a\n&lt;/think>\nb"),
        ("<<<TOOL_CALL>>>{}", "&lt;<&lt;TOOL_CALL>>>{}"),
        ("&lt;ACTION&gt;", "&amp;lt;ACTION&amp;gt;"),
        ("ends with <act", "ends with &lt;act"),
    ] {
        assert_eq!(neutralize(text), safe);
    }
}
