//! JSON as models write it.

use proptest::prelude::*;
use protocol_action::json::{FaultKind, parse_lenient, parse_lenient_within, read_lenient};
use serde_json::{Value, json};

#[track_caller]
fn check(text: &str, value: &Value, repaired: bool) {
    assert_eq!(parse_lenient(text), Ok((value.clone(), repaired)), "{text}");
}

#[track_caller]
fn check_fault(text: &str, kind: FaultKind, offset: usize) {
    let fault = parse_lenient(text).expect_err(text);
    assert_eq!((fault.kind, fault.offset), (kind, offset), "{text}: {fault}");
}

#[test]
fn exact_json() {
    check(" {\"a\": [1, 2.5, -3e2], \"b\": null} ", &json!({"a": [1, 2.5, -300.0], "b": null}), false);
    check("9007199254740993", &json!(9_007_199_254_740_993_u64), false);
    check("18446744073709551615", &json!(u64::MAX), false);
    check("-9223372036854775808", &json!(i64::MIN), false);
    check("18446744073709551616", &json!(18_446_744_073_709_551_616.0), false);
    check("\"\\ud83d\\ude00\\u4e2d\\n\"", &json!("😀中\n"), false);
    check("{\"a\": 1, \"a\": 2}", &json!({"a": 2}), false);
    check("[[], {}]", &json!([[], {}]), false);
}

#[test]
fn keys_that_stand_twice_are_noted_where_they_say_different_things() {
    for (text, conflicts) in [
        ("{\"a\": 1, \"a\": 1}", &[][..]),
        ("{\"a\": 1, \"a\": 2, \"a\": 3}", &["/a"]),
        ("{\"l\": [{}, {\"x/y\": {\"b\": 1, \"b\": []}}], \"c\": 1, \"c\": \"1\"}", &["/l/1/x~1y/b", "/c"]),
        ("[1, {\"a\": null, \"a\": 0}]", &["/1/a"]),
    ] {
        assert_eq!(read_lenient(text, 64).unwrap().conflicts, conflicts, "{text}");
    }
    let many: Vec<String> = (0..1000).map(|key| format!("\"{key}\": 1, \"{key}\": 2")).collect();
    assert_eq!(read_lenient(&format!("{{{}}}", many.join(",")), 64).unwrap().conflicts.len(), 16);
}

#[test]
fn safe_repairs() {
    check("{\"a\": \"x\ny\",}", &json!({"a": "x\ny"}), true);
    check("[1, 2, ]", &json!([1, 2]), true);
    check("{'a': ['it's', 'b'], 'c': \"d\"}", &json!({"a": ["it's", "b"], "c": "d"}), true);
    check("{\"a\": True, \"b\": None}", &json!({"a": true, "b": null}), true);
    check("\u{feff}[\"it\\'s\"]", &json!(["it's"]), true);
}

#[test]
fn faults() {
    check_fault("", FaultKind::Truncated, 0);
    check_fault("{\"a\": [1, 2", FaultKind::Truncated, 11);
    check_fault("{\"a\": \"b}", FaultKind::Truncated, 9);
    check_fault("{\"a\": tru", FaultKind::Truncated, 6);
    check_fault("\"\\ud83d", FaultKind::Truncated, 7);
    check_fault("{\"a\": 1]", FaultKind::Broken, 7);
    check_fault("{a: 1}", FaultKind::Broken, 1);
    check_fault("[skill/A, skill/B]", FaultKind::Broken, 1);
    check_fault("{} x", FaultKind::Broken, 3);
    check_fault("[01]", FaultKind::Broken, 3);
    check_fault("\"\\x\"", FaultKind::Broken, 2);
    check_fault("[18446744073709551617]", FaultKind::Broken, 21);
    check_fault("[1e999]", FaultKind::Broken, 6);
    check_fault("[,]", FaultKind::Broken, 1);
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse_lenient_within(&nested(64), 64).is_ok());
    assert_eq!(parse_lenient_within(&nested(65), 64).expect_err("too deep").kind, FaultKind::TooDeep);
    assert_eq!(parse_lenient(&"[".repeat(1_000_000)).expect_err("too deep").kind, FaultKind::TooDeep);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<String>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(Value::Null)
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn jsonish() -> impl Strategy<Value = String> {
    let word = prop::sample::select(
        &[
            "{", "}", "[", "]", ",", ":", "\"", "\"a\"", "'", "1", "-", "0", ".5", "e3", "true", "null",
            "None", " ", "\n", "\\", "\\u12", "x",
        ][..],
    );
    prop::collection::vec(word, 0..10).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn what_is_json_is_read_exactly(value in value()) {
        let text = value.to_string();
        prop_assert_eq!(parse_lenient(&text), Ok((value, false)));
    }

    #[test]
    fn without_a_repair_it_is_what_others_read(text in jsonish()) {
        let strict = serde_json::from_str::<Value>(&text).ok();
        let lenient = parse_lenient(&text).ok();
        match (strict, lenient) {
            (Some(strict), lenient) => prop_assert_eq!(lenient, Some((strict, false))),
            (None, Some((_, repaired))) => prop_assert!(repaired),
            (None, None) => {}
        }
    }

    #[test]
    fn a_cut_is_distinct_from_a_fault(value in value()) {
        let text = json!([value]).to_string();
        for end in (1..text.len()).filter(|&end| text.is_char_boundary(end)) {
            prop_assert_eq!(parse_lenient(&text[..end]).expect_err("cut").kind, FaultKind::Truncated);
        }
    }
}
