//! Limits, and native calls beside the text.

use crate::common::{short, tools};
use protocol_action::{FinishReason, Limits, NativeCall, Options, Severity, parse_with};

/// The message of the only error.
#[track_caller]
fn check_limit(text: &str, limits: Limits, message: &str) {
    let parsed = parse_with(text, &tools(), &Options::default().with_limits(limits));
    let errors: Vec<_> = parsed.errors().map(|one| (one.code.as_str(), one.message.as_str())).collect();
    assert_eq!(errors, [("limit_exceeded", message)], "{text}");
    assert_eq!(parsed.runnable(), []);
}

#[test]
fn each_limit_has_its_name_and_value() {
    let limits = Limits::default();
    check_limit(
        "<ACTION><event><extra><a><b><c>x</c></b></a></extra></event></ACTION>",
        limits.with_depth(4),
        "the depth limit of 4 is exceeded",
    );
    check_limit(
        "<ACTION>{\"name\": \"ping\", \"arguments\": {\"a\": [[]]}}</ACTION>",
        limits.with_depth(3),
        "the depth limit of 3 is exceeded",
    );
    check_limit(
        "<ACTION><ping/><ping/><ping/></ACTION>",
        limits.with_calls(2),
        "the calls limit of 2 is exceeded",
    );
    check_limit(
        "<ACTION>[{\"name\": \"ping\"}]</ACTION>"
            .replace('[', "{\"name\": \"ping\"}")
            .replace(']', "")
            .as_str(),
        limits.with_calls(1),
        "the calls limit of 1 is exceeded",
    );
    check_limit(
        "<ACTION><send><to><item>a</item><item>b</item></to></send></ACTION>",
        limits.with_elements(2),
        "the elements limit of 2 is exceeded",
    );
    check_limit(
        "text <ACTION><read_file><path>0123456789</path></read_file></ACTION>",
        limits.with_block_bytes(40),
        "the block size limit of 40 bytes is exceeded",
    );
}

#[test]
fn a_limit_just_reached_is_none() {
    let text = "<ACTION><read_file><path>0123456789</path></read_file></ACTION>";
    let limits = Limits::default().with_block_bytes(text.len()).with_calls(1).with_elements(1).with_depth(2);
    let parsed = parse_with(text, &tools(), &Options::default().with_limits(limits));
    assert_eq!(short(&parsed), "read_file(path=\"0123456789\")");
}

#[track_caller]
fn check_native(text: &str, native: &[(&str, &str)], expected: &str) {
    let native = native
        .iter()
        .map(|(name, arguments)| NativeCall { name: (*name).into(), arguments: (*arguments).into() });
    let options = Options::default().with_native(native.collect()).with_finish(FinishReason::ToolCalls);
    assert_eq!(short(&parse_with(text, &tools(), &options)), expected);
}

#[test]
fn native_calls_count_where_the_text_holds_none() {
    check_native("I read.", &[("read_file", "{\"path\": \"a\"}")], "\"I read.\" | read_file(path=\"a\")");
    check_native("", &[("ping", ""), ("ping", " {} ")], "ping() | ping()");
    check_native("", &[("write_file", "{\"path\": \"a\", \"content\": \"hel")], "! truncated");
    check_native("", &[("ping", "[1]")], "! invalid_argument");
    check_native("", &[("read_file", "{\"path\": \"a\",}")], "read_file(path=\"a\") | ! json_repaired");
    check_native(
        "<think>\nno <ACTION><ping/></ACTION>",
        &[("ping", "")],
        "thought \"no <ACTION><ping/></ACTION>\" | ping()",
    );
}

#[test]
fn text_wins_over_native_calls() {
    let call = "<ACTION><read_file><path>a</path><limit>5</limit></read_file></ACTION>";
    let read = "read_file(path=\"a\", limit=\"5\")";
    check_native(call, &[("read_file", "{\"limit\": 5, \"path\": \"a\"}")], read);
    check_native(call, &[("ping", "{}")], &format!("{read} | ! native_ignored"));
    check_native(call, &[("read_file", "{\"path\": \"b\"}")], &format!("{read} | ! native_ignored"));
    check_native("<ACTION><ping>", &[("ping", "{}")], "! truncated native_ignored");
    let send = "<ACTION><send><to><item>a</item></to></send></ACTION>";
    check_native(send, &[("send", "{\"to\": [\"a\"]}")], "send(to={item=\"a\"})");
}

#[test]
fn severities_follow_codes() {
    assert!(protocol_action::Code::ALL.iter().all(|code| {
        code.as_str().bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    }));
    assert_eq!(protocol_action::Code::SecondBlock.severity(), Severity::Note);
}
