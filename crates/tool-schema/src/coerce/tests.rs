//! Tables of readings.

use protocol_action::Span;
use serde_json::json;

use super::*;

fn argument(name: &str, value: RawValue) -> RawArgument {
    RawArgument::new(name, Span::default(), value)
}

fn text(text: &str) -> RawValue {
    RawValue::Text(text.into())
}

fn elements<'a>(children: impl IntoIterator<Item = (&'a str, RawValue)>) -> RawValue {
    let children = children.into_iter().map(|(name, value)| argument(name, value)).collect();
    RawValue::Elements { children, source: "<source/>".into(), mixed: false }
}

fn items<'a>(values: impl IntoIterator<Item = &'a str>) -> RawValue {
    elements(values.into_iter().map(|value| (ITEM, text(value))))
}

/// Value as read and the number of coercions, or the messages of its problems.
fn read(schema: &Value, value: &RawValue) -> Result<(Value, usize), Vec<String>> {
    let nodes = Nodes::read(schema);
    let mut coercer = Coercer::new(&nodes);
    let read = coercer.raw(0, value, "/x");
    if coercer.problems.is_empty() {
        Ok((read, coercer.coercions.len()))
    } else {
        Err(coercer.problems.into_iter().map(|problem| problem.message).collect())
    }
}

#[track_caller]
fn reads(schema: &Value, value: &RawValue, expected: Value, coercions: usize) {
    assert_eq!(read(schema, value), Ok((expected, coercions)), "{value:?} under {schema}");
}

#[track_caller]
fn refuses(schema: &Value, value: &RawValue, messages: &[&str]) {
    let got = read(schema, value).unwrap_err();
    assert_eq!(got.len(), messages.len(), "{got:?}");
    for (got, message) in got.iter().zip(messages) {
        assert!(got.contains(message), "{got}");
    }
}

#[test]
fn strings_stay_as_they_are() {
    let string = json!({"type": "string"});
    for value in ["01609", " a ", "null", "true", "{\"a\": 1}", "", "\"quoted\""] {
        reads(&string, &text(value), value.into(), 0);
    }
}

#[test]
fn scalars_are_read_exactly() {
    reads(&json!({"type": "integer"}), &text("\n  5\n"), json!(5), 0);
    reads(&json!({"type": "integer"}), &text("42.0"), json!(42), 1);
    reads(&json!({"type": "number"}), &text("1e-3"), json!(0.001), 0);
    reads(&json!({"type": "boolean"}), &text("True"), json!(true), 1);
    reads(&json!({"type": ["integer", "null"]}), &text("None"), Value::Null, 1);
    refuses(&json!({"type": "boolean"}), &text("maybe"), &["'x' must be boolean, got \"maybe\""]);
    refuses(&json!({"type": "integer"}), &text("18446744073709551616"), &["must be integer"]);
    refuses(&json!({"type": "number"}), &text("12345678901234567890123"), &["must be number"]);
    refuses(&json!({"type": "integer"}), &elements([("a", text("1"))]), &["must be integer"]);
}

#[test]
fn a_string_or_something_else_is_decided_without_guessing() {
    let either = json!({"type": ["integer", "string"]});
    reads(&either, &text("7"), json!(7), 0);
    reads(&either, &text("007"), json!("007"), 0);
    reads(&either, &text("7 apples"), json!("7 apples"), 0);
    reads(&either, &text("\"7\""), json!("7"), 0);
    reads(&either, &text("\"seven\""), json!("\"seven\""), 0);
    reads(&either, &text("\"\\\"7\\\"\""), json!("\"7\""), 0);
    let nullable = json!({"type": ["string", "null"]});
    reads(&nullable, &text("None"), Value::Null, 1);
    reads(&nullable, &text("null"), Value::Null, 0);
    reads(&nullable, &text("\"null\""), json!("null"), 0);
}

#[test]
fn members_are_found_exactly_or_by_a_unique_case() {
    let unit = json!({"type": "string", "enum": ["celsius", "fahrenheit", "none"]});
    reads(&unit, &text(" celsius "), json!("celsius"), 0);
    reads(&unit, &text("CELSIUS"), json!("celsius"), 1);
    reads(&unit, &text("none"), json!("none"), 0);
    refuses(&unit, &text("kelvin"), &["one of \"celsius\", \"fahrenheit\", \"none\", got \"kelvin\""]);
    reads(&json!({"enum": [1, "1", null]}), &text("1"), json!(1), 0);
    reads(&json!({"enum": [1, "1", null]}), &text("\"1\""), json!("1"), 0);
    reads(&json!({"enum": ["a", "a "]}), &text("a "), json!("a "), 0);
    refuses(&json!({"enum": ["A", "a"]}), &text("á"), &["one of"]);
}

#[test]
fn lists_come_in_many_forms() {
    let strings = json!({"type": "array", "items": {"type": "string"}});
    reads(&strings, &items(["a", "b"]), json!(["a", "b"]), 0);
    reads(&strings, &items(["a"]), json!(["a"]), 0);
    reads(&strings, &text("a, b"), json!(["a, b"]), 1);
    reads(&strings, &text("[\"a\", \"b\"]"), json!(["a", "b"]), 0);
    reads(&strings, &text("  "), json!([]), 0);
    reads(&strings, &elements([("name", text("a")), ("name", text("b"))]), json!(["a", "b"]), 0);
    refuses(&strings, &text("[a, b]"), &["must be array as valid JSON"]);
    let numbers = json!({"type": "array", "items": {"type": "number"}});
    reads(&numbers, &text("1, 2.5,-3"), json!([1, 2.5, -3]), 1);
    reads(&numbers, &text("10\n20"), json!([10, 20]), 1);
    let untyped = json!({"type": "array", "items": {}});
    reads(&untyped, &elements([("user", text("A"))]), json!([{"user": "A"}]), 0);
    reads(&untyped, &elements([("user", text("A")), ("user", text("B"))]), json!(["A", "B"]), 0);
    refuses(&numbers, &text("1, x"), &["'x[1]' must be number"]);
}

#[test]
fn lists_of_objects() {
    let points = json!({"type": "array", "items": {"type": "object", "additionalProperties": false,
        "properties": {"x": {"type": "number"}, "y": {"type": "number"}}}});
    let point = |x: &'static str| elements([("x", text(x)), ("y", text("2"))]);
    reads(
        &points,
        &elements([(ITEM, point("1")), (ITEM, point("3"))]),
        json!([{"x": 1, "y": 2}, {"x": 3, "y": 2}]),
        0,
    );
    reads(&points, &point("1"), json!([{"x": 1, "y": 2}]), 0);
    reads(&points, &text("{\"x\": 1}"), json!([{"x": 1}]), 1);
    refuses(&points, &elements([(ITEM, elements([("z", text("1"))]))]), &["Unknown parameter 'x[0].z'"]);
}

#[test]
fn objects_come_from_elements_or_json() {
    let object = json!({"type": "object"});
    reads(
        &object,
        &elements([("message", text("hi")), ("n", text("2"))]),
        json!({"message": "hi", "n": 2}),
        0,
    );
    reads(&object, &text("{\"a\": [1, 2],}"), json!({"a": [1, 2]}), 0);
    reads(&object, &text(""), json!({}), 0);
    refuses(&object, &text("{\"a\": [1, 2"), &["must be object as complete JSON"]);
    refuses(&object, &text("plain"), &["must be object, got \"plain\""]);
}

#[test]
fn untyped_values_are_json_where_they_can_be() {
    let any = json!({});
    reads(&any, &text("5"), json!(5), 0);
    reads(&any, &text("five"), json!("five"), 0);
    reads(&any, &text("[1]"), json!([1]), 0);
    reads(&any, &items(["1", "a"]), json!([1, "a"]), 0);
    reads(&any, &elements([("a", text("1")), ("a", text("2"))]), json!({"a": [1, 2]}), 0);
}

#[test]
fn the_fitting_alternative_is_taken() {
    let shape = json!({"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
        {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["kind", "side"]},
    ]});
    reads(
        &shape,
        &elements([("kind", text("square")), ("side", text("2"))]),
        json!({"kind": "square", "side": 2}),
        0,
    );
    refuses(&shape, &elements([("kind", text("square"))]), &["Missing parameter 'x.side'"]);
}

#[test]
fn a_string_among_alternatives_does_not_swallow_the_others() {
    let list = json!({"type": "array", "items": {"type": "string"}});
    for shape in [json!({"anyOf": [{"type": "string"}, list]}), json!({"anyOf": [list, {"type": "string"}]})]
    {
        reads(&shape, &text("[\"a\", \"\"]"), json!(["a", ""]), 0);
        reads(&shape, &items(["a", "b"]), json!(["a", "b"]), 0);
        reads(&shape, &text("\"[1]\""), json!("[1]"), 0);
        reads(&shape, &text("[1, "), json!("[1, "), 0);
        reads(&shape, &text("\"a\""), json!("\"a\""), 0);
        reads(&shape, &text(""), json!(""), 0);
    }
}

#[test]
fn json_values_are_coerced_as_texts_are() {
    let nodes = Nodes::read(&json!({"type": "object", "properties": {
        "n": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}, "zip": {"type": "string"}}}));
    let mut coercer = Coercer::new(&nodes);
    let value = coercer.json(0, json!({"n": "3", "tags": "a", "zip": 5}), "");
    assert_eq!(value, json!({"n": 3, "tags": ["a"], "zip": 5}));
    let places: Vec<_> = coercer.coercions.iter().map(|coercion| coercion.path.as_str()).collect();
    assert_eq!(places, ["/n", "/tags"]);
    assert_eq!(coercer.problems[0].message, "Parameter 'zip' must be string, got 5");
}

#[test]
fn json_text_that_says_two_things_is_refused_or_stays_a_text() {
    let twice = text("{\"a\": 1, \"b\": {\"c\": 1, \"c\": 2}}");
    let message = "Parameter 'x.b.c' given twice with different values";
    refuses(&json!({"type": "object"}), &twice, &[message]);
    refuses(&json!({}), &twice, &[message]);
    refuses(
        &json!({"type": "array", "items": {"type": "object"}}),
        &text("[{\"a\": 1, \"a\": 2}]"),
        &["'x[0].a'"],
    );
    let either = json!({"type": ["string", "object"]});
    reads(&either, &twice, "{\"a\": 1, \"b\": {\"c\": 1, \"c\": 2}}".into(), 0);
    reads(&json!({"type": "object"}), &text("{\"a\": 1, \"a\": 1}"), json!({"a": 1}), 0);
}

#[test]
fn names_decide_among_shapes() {
    let list = json!({"type": "array", "items": {"type": "integer"}});
    let object = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    let named = elements([("anna", text("7")), ("bo", text("9"))]);
    for either in [json!({"anyOf": [list, object]}), json!({"anyOf": [object, list]})] {
        reads(&either, &named, json!({"anna": 7, "bo": 9}), 0);
        reads(&either, &items(["1", "2"]), json!([1, 2]), 0);
        reads(&either, &elements([("anna", text("7"))]), json!({"anna": 7}), 0);
    }
    reads(&json!({"anyOf": [{"type": "object"}, list]}), &items(["1"]), json!([1]), 0);
    let strings = json!({"type": "array", "items": {"type": "string"}});
    let message = "a list as `item` elements, got \"anna, bo\"";
    refuses(&json!({"anyOf": [{"type": "string"}, strings]}), &named, &[message]);
    refuses(&json!({"type": ["string", "array"], "items": {"type": "string"}}), &named, &[message]);
    refuses(&strings, &named, &[message]);
}

#[test]
fn one_item_around_a_scalar_is_the_scalar() {
    reads(&json!({"type": "number"}), &text("\n <item>42</item>\n"), json!(42), 1);
    reads(&json!({"enum": [1, 2]}), &text("<item>2</item>"), json!(2), 1);
    refuses(&json!({"type": "number"}), &text("<item>4</item><item>2</item>"), &["must be number"]);
    reads(&json!({"type": "string"}), &text("<item>42</item>"), json!("<item>42</item>"), 0);
}

#[test]
fn messages_of_unions_name_everything_that_fits() {
    let count = json!({"anyOf": [{"type": "integer"}, {"enum": ["all", "none"]}]});
    refuses(&count, &text("some"), &["must be integer or one of \"all\", \"none\", got \"some\""]);
    let nested =
        json!({"anyOf": [{"enum": ["all"]}, {"type": "object", "required": ["n"]}, {"type": "null"}]});
    refuses(&nested, &text("some"), &["must be one of \"all\" or object or null, got \"some\""]);
    let shape = json!({"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
        {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["kind", "side"]},
    ]});
    refuses(
        &shape,
        &elements([("kind", text("square")), ("r", text("x")), ("side", text("y"))]),
        &["'x.side' must be number, got \"y\""],
    );
    refuses(
        &shape,
        &elements([("kind", text("star"))]),
        &["'x.kind' must be one of \"circle\", \"square\", got \"star\""],
    );
}
