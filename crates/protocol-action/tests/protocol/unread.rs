//! Attempted calls in replies without a block, as tables of tiny cases.

use protocol_action::{Declared, StaticVocabulary, UnreadCall, unread_call};

fn tools() -> StaticVocabulary {
    StaticVocabulary::builder()
        .tool("search", |tool| tool.text("query").scalar("limit"))
        .tool("put", |tool| tool.text("path").list("tags", Declared::Text))
        .tool("ping", |tool| tool)
        .tool("my tool", |tool| tool.any("x"))
        .build()
}

fn unread(text: &str) -> Option<UnreadCall> {
    unread_call(text, &tools())
}

/// Compares the kind, the tool and the beginning of the attempt.
#[track_caller]
fn check(text: &str, kind: &str, tool: &str, begins: &str) {
    let found = unread(text).unwrap_or_else(|| unreachable!("silent: {text}"));
    let tool = Some(tool).filter(|tool| !tool.is_empty());
    assert_eq!((found.kind.as_str(), found.tool.as_deref()), (kind, tool), "{text}");
    assert!(found.span.slice(text).starts_with(begins), "{:?} of {text}", found.span.slice(text));
}

#[track_caller]
fn is_a_mention(text: &str) {
    assert_eq!(unread(text), None, "{text}");
}

#[test]
fn openers_with_content() {
    check("I look.\n<ACTION>\nsearch for docks\n</ACTION>", "opener", "search", "<ACTION>");
    check("<ACTION>\nsearch>\nquery>dockquery>\n</ACTION>", "opener", "search", "<ACTION>");
    check("<action>[search]</action>", "opener", "search", "<action>");
    check("Now <ACTION> search: dock </ACTION>", "opener", "search", "<ACTION>");
    check("<div>\n<ACTION><ping/></ACTION>\n</div>", "opener", "ping", "<ACTION>");
    check("<ACTION>\nI will look at the docks.", "opener", "", "<ACTION>");
    check("&lt;ACTION&gt;&lt;ping/&gt;&lt;/ACTION&gt;", "opener", "ping", "&lt;");
    check("＜ACTION＞＜ping＞＜/ping＞＜/ACTION＞", "opener", "ping", "＜");
}

#[test]
fn blocks_in_fences() {
    check("```xml\n<ACTION><ping/></ACTION>\n```", "fence", "ping", "<ACTION>");
    check("I look:\n```\n<search><query>a</query></search>\n```\n", "fence", "search", "<search>");
    check("~~~json\n{\"name\": \"search\", \"arguments\": {}}\n~~~", "fence", "search", "{");
    check("```tool_code\nsearch(query=\"a\")\n```", "fence", "search", "\nsearch");
    check("```xml\n<ACTION><ping/></ACTION>", "fence", "ping", "<ACTION>");
    check("`<ACTION><ping/></ACTION>`", "fence", "ping", "<ACTION>");
    is_a_mention("It says:\n```\n<ACTION><ping/></ACTION>\n```\nI did not run it.");
    is_a_mention("```\n<ACTION><ping/></ACTION>\n```\n```rust\nfn main() {}\n```");
    is_a_mention("```rust\nlet search = 1;\n```");
}

#[test]
fn bare_tags() {
    check("I look.\n<search><query>dock</query></search>", "bare_tag", "search", "<search>");
    check("I look: <search>\n  <query>dock", "bare_tag", "search", "<search>");
    check("<search query=\"dock\"/>", "bare_tag", "search", "<search");
    check("<search>{\"query\": \"dock\"}</search>", "bare_tag", "search", "<search>");
    check("<search>\nquery: dock\n</search>", "bare_tag", "search", "<search>");
    check("<search>dock</search>", "bare_tag", "search", "<search>");
    check("Here it comes: <ping/> Done.", "bare_tag", "ping", "<ping/>");
    check("<response>\n<search><query>a</query></search>\n</response>", "dialect", "search", "<response>");
    check("Good.\nsearch:\n<query>dock</query>", "bare_tag", "search", "search:");
    check("<search\n  <query>dock</query>\n/>", "bare_tag", "search", "<search");
    check("<ping><x>ok</x></ ping>", "bare_tag", "ping", "<ping>");
    check("Some text <ping><arg1>value1</arg1></ping> more text", "bare_tag", "ping", "<ping>");
    check("So: <ping><a><b>1</b></a></ping>", "bare_tag", "ping", "<ping>");
    check("Some text <ping>\n <a>1</a>\n <b>2</b>", "bare_tag", "ping", "<ping>");
    check("<ping><path>src/file.ts", "bare_tag", "ping", "<ping>");
    is_a_mention("Of <ping><path>src/file.ts much was said.");
    is_a_mention("The <ping> tag stands beside <b>bold</b> words.");
    is_a_mention("Say <ping>hello <b>world</b></ping> twice.");
    is_a_mention("The <search> tag finds pages, and <query> says which.");
    is_a_mention("<details><summary>More</summary>text</details>");
    is_a_mention("`<search><query>a</query></search>` is how I would search.");
    is_a_mention("> <search><query>a</query></search>\nstands on the page.");
    is_a_mention("<!-- <search><query>a</query></search> --> Done.");
    is_a_mention("<think>I use <search><query>a</query></search></think>Done.");
}

#[test]
fn dialects_of_others() {
    for text in [
        "<function_calls>\n<invoke name=\"search\">\n<parameter name=\"query\">a</parameter>",
        "<tool_call>\n<function=search>\n<parameter=query>a</parameter>\n</function>\n</tool_call>",
        "<function=search><parameter=query>a</parameter></function>",
        "<tool_call>search\n<arg_key>query</arg_key>\n<arg_value>a</arg_value>\n</tool_call>",
        "[TOOL_CALLS] [{\"name\": \"search\", \"arguments\": {\"query\": \"a\"}}]",
        "[TOOL_CALLS]search[ARGS]{\"query\": \"a\"}",
        "<|tool_call_begin|>functions.search:0<|tool_call_argument_begin|>{\"query\": \"a\"}",
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n{}\n```",
        "<|python_tag|>search(query=\"a\")",
        "[search(query=\"a\")]",
        "<minimax:tool_call>\n<invoke name=\"search\">",
    ] {
        check(text, "dialect", "search", &text[..1]);
        check(&format!("I look.\n{text}"), "dialect", "search", &text[..1]);
    }
    check("<tool_call><function=\"my tool\"></function>", "dialect", "my tool", "<tool_call>");
    is_a_mention("<function=other><parameter=query>a</parameter></function>");
    is_a_mention("The [TOOL_CALLS] marker begins calls of other models, like one that may search.");
    is_a_mention("[search] finds pages; [1] says how.");
}

#[test]
fn json_calls() {
    check("{\"name\": \"search\", \"arguments\": {\"query\": \"a\"}}", "json", "search", "{");
    check("I look. {\"arguments\": {}, \"tool\": \"search\"}", "json", "search", "{");
    check("{name: 'search', parameters: {query: 'a'}}", "json", "search", "{");
    check("I ping: {\"name\": \"ping\"}", "json", "ping", "{");
    is_a_mention("{\"name\": \"Anna\", \"arguments\": [\"for\", \"against\"]}");
    is_a_mention("{\"name\": \"search\", \"status\": \"done\", \"hits\": 3}");
    is_a_mention("{\"note\": \"<search><query>a</query></search>\"}");
}

/// A block that was read or refused is answered by the reader.
#[test]
fn a_block_is_no_unread_call() {
    is_a_mention("<ACTION><ping/></ACTION>");
    is_a_mention("<ACTION></ACTION>\n<search><query>a</query></search>");
    is_a_mention("<ACTION><search><query>a");
    is_a_mention("");
    is_a_mention("I am done: the dock is in the north.");
}

#[test]
fn an_excerpt_is_one_short_line() {
    let found = unread(&format!("<search>\n  <query>{}</query></search>", "dock ".repeat(100))).unwrap();
    assert!(found.excerpt.starts_with("<search> <query>dock dock"), "{}", found.excerpt);
    assert_eq!(found.excerpt.chars().count(), 81);
}

proptest::proptest! {
    /// Any reply is answered, with a range inside it.
    #[test]
    fn any_text_is_searched(words in proptest::collection::vec(proptest::sample::select(&[
        "<ACTION>", "</ACTION>", "<search>", "<query>", "</query>", "`", "```\n", "\n", "> ", "é", "{\"name\": \"",
        "search", "\"}", "[", "<!--", "-->", "<tool_call>", "&lt;action", "<", "=", "/>", ":", " ", "Observation:",
    ][..]), 0..24)) {
        let text = words.concat();
        if let Some(found) = unread(&text) {
            proptest::prop_assert!(text.get(found.span.start..found.span.end).is_some());
        }
    }
}
