//! Prompt text for models, and untrusted text beside it.

use protocol_action::{Lang, NoVocabulary, neutralize, parse, prompt_rules};

/// The blocks of the rules that stand at the start of a line: the form itself and the examples.
fn examples(rules: &str) -> Vec<String> {
    let parts = rules.split("\n<ACTION>\n").skip(1);
    parts.map(|part| format!("<ACTION>\n{}</ACTION>", part.split("</ACTION>").next().unwrap_or(""))).collect()
}

#[test]
fn every_example_is_read_without_a_repair() {
    for lang in [Lang::En, Lang::Zh] {
        let examples = examples(prompt_rules(lang));
        assert_eq!(examples.len(), 5, "{lang:?}");
        for example in examples {
            let parsed = parse(&example, &NoVocabulary);
            assert_eq!((parsed.calls.len(), parsed.diagnostics.len()), (1, 0), "{example}");
            assert_eq!(parsed.calls[0].repairs, []);
        }
    }
}

#[test]
fn both_languages_say_the_same() {
    let [en, zh] = [Lang::En, Lang::Zh].map(|lang| examples(prompt_rules(lang)));
    let tools = |examples: &[String]| -> Vec<String> {
        examples.iter().map(|one| parse(one, &NoVocabulary).calls[0].tool.clone()).collect()
    };
    assert_eq!(tools(&en), tools(&zh));
    for lang in [Lang::En, Lang::Zh] {
        for word in ["<item>", "<![CDATA[", "Observation: Error", "<tool name=\"workflow:x\">"] {
            assert!(prompt_rules(lang).contains(word), "{lang:?} lacks {word}");
        }
    }
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
