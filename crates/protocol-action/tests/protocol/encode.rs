//! Round trips: encoded calls are read back the same.

use proptest::prelude::*;
use protocol_action::json::parse_lenient;
use protocol_action::{
    Declared, EncodeCall, Fields, RawArgument, RawCall, RawValue, Shape, ShapeId, StaticVocabulary,
    Vocabulary, encode, encode_trees, encode_with, parse,
};
use serde_json::{Map, Value, json};

/// One tool with a field of every shape, and names that are not valid tags.
fn vocabulary() -> StaticVocabulary {
    let nested = Fields::default().text("text").scalar("n").any("any").list("rows", Declared::Text);
    StaticVocabulary::builder()
        .tool("workflow:odd name", |tool| tool.text("x"))
        .tool("put", |tool| {
            tool.text("text")
                .text("put")
                .text("action")
                .text("a key, with <&\"'> in it")
                .text("城市")
                .text("param")
                .scalar("n")
                .any("any")
                .list("items", Declared::Text)
                .list("grid", Declared::List(Box::new(Declared::Scalar)))
                .list("records", Declared::Object(nested.clone()))
                .field("record", Declared::Object(nested))
        })
        .build()
}

/// Text that is hard to carry.
fn text() -> impl Strategy<Value = String> {
    let word = prop::sample::select(
        &[
            "a",
            " ",
            "\n",
            "\r\n",
            "\r",
            "\t",
            "\0",
            "<",
            ">",
            "&",
            "&lt;",
            "&amp;",
            "&#10;",
            "]]>",
            "]]",
            "<![CDATA[",
            "</text>",
            "</put>",
            "</ACTION>",
            "<ACTION>",
            "<text>",
            "<item>",
            "</item>",
            "<put>",
            "{",
            "}",
            "[1]",
            "null",
            "true",
            "7",
            "\"x\"",
            "<!--",
            "-->",
            "中",
            "👩‍💻",
            "</think>",
            "```",
            "\u{feff}",
            "\u{2028}",
            "<param name=\"n\">",
            "</param>",
        ][..],
    );
    prop_oneof![
        4 => prop::collection::vec(word, 0..9).prop_map(|words| words.concat()),
        1 => "\\PC{0,20}",
        1 => any::<String>(),
    ]
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null)
    ]
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![text().prop_map(Value::from), scalar()];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> impl Strategy<Value = Value> {
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let values: Vec<_> = fields.into_iter().map(|(_, value)| prop::option::weighted(0.7, value)).collect();
    values.prop_map(move |values| {
        let members = names.iter().zip(values).filter_map(|(name, value)| Some(((*name).to_owned(), value?)));
        Value::Object(members.collect())
    })
}

fn record() -> BoxedStrategy<Value> {
    let rows = prop::collection::vec(text().prop_map(Value::from), 0..4).prop_map(Value::from);
    object(vec![
        ("text", text().prop_map(Value::from).boxed()),
        ("n", scalar().boxed()),
        ("any", anything().boxed()),
        ("rows", rows.boxed()),
        ("undeclared", anything().boxed()),
    ])
    .boxed()
}

fn arguments() -> impl Strategy<Value = Value> {
    let string = || text().prop_map(Value::from).boxed();
    let grid = prop::collection::vec(prop::collection::vec(scalar(), 0..3).prop_map(Value::from), 0..3)
        .prop_map(Value::from);
    object(vec![
        ("text", string()),
        ("put", string()),
        ("action", string()),
        ("a key, with <&\"'> in it", string()),
        ("城市", string()),
        ("param", string()),
        ("n", scalar().boxed()),
        ("any", anything().boxed()),
        ("items", prop::collection::vec(text().prop_map(Value::from), 0..4).prop_map(Value::from).boxed()),
        ("grid", grid.boxed()),
        ("records", prop::collection::vec(record(), 0..3).prop_map(Value::from).boxed()),
        ("record", record()),
    ])
}

/// The value that a tree stands for under its shape.
fn typed(value: &RawValue, shape: Option<ShapeId>, vocabulary: &StaticVocabulary) -> Value {
    let kind = shape.map_or(Shape::Any, |id| vocabulary.shape(id));
    match (value, kind) {
        (RawValue::Json(value), _) => value.clone(),
        (RawValue::Text(text), Shape::Text) => Value::from(text.clone()),
        (RawValue::Text(text), _) => {
            parse_lenient(text).map_or_else(|_| Value::from(text.clone()), |(value, _)| value)
        }
        (RawValue::Elements { children, .. }, Shape::List { item }) => {
            children.iter().map(|child| typed(&child.value, Some(item), vocabulary)).collect()
        }
        (RawValue::Elements { children, .. }, _) => object_of(children, shape, vocabulary),
    }
}

fn object_of(children: &[RawArgument], shape: Option<ShapeId>, vocabulary: &StaticVocabulary) -> Value {
    let members = children.iter().map(|child| {
        let field = shape.and_then(|id| vocabulary.field(id, &child.name));
        (child.name.clone(), typed(&child.value, field, vocabulary))
    });
    Value::Object(members.collect())
}

fn back(written: &str, vocabulary: &StaticVocabulary) -> Vec<(String, Value)> {
    let parsed = parse(written, vocabulary);
    assert!(!parsed.has_errors(), "{written}\n{:?}", parsed.diagnostics);
    assert_eq!(parsed.text.trim(), "", "{written}");
    let calls = parsed.calls.iter();
    calls
        .map(|call| (call.tool.clone(), object_of(&call.arguments, vocabulary.tool(&call.tool), vocabulary)))
        .collect()
}

fn map(value: &Value) -> &Map<String, Value> {
    value.as_object().expect("the strategy makes objects")
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: ProptestConfig::default().cases.max(400),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_value_comes_back(calls in prop::collection::vec(arguments(), 1..3)) {
        let vocabulary = vocabulary();
        let written = encode_with(&calls.iter().map(|one| EncodeCall::new("put", map(one))).collect::<Vec<_>>(), &vocabulary);
        let expected: Vec<_> = calls.iter().map(|one| ("put".to_owned(), one.clone())).collect();
        prop_assert_eq!(back(&written, &vocabulary), expected, "{}", written);
    }

    #[test]
    fn any_text_comes_back_in_a_named_tool(text in text()) {
        let vocabulary = vocabulary();
        let arguments = json!({"x": text});
        let written = encode_with(&[EncodeCall::new("workflow:odd name", map(&arguments))], &vocabulary);
        prop_assert_eq!(back(&written, &vocabulary), vec![("workflow:odd name".to_owned(), arguments)]);
    }

    #[test]
    fn trees_come_back(calls in prop::collection::vec(arguments(), 1..3)) {
        let vocabulary = vocabulary();
        let written = encode_with(&calls.iter().map(|one| EncodeCall::new("put", map(one))).collect::<Vec<_>>(), &vocabulary);
        let read = parse(&written, &vocabulary).calls;
        let again = parse(&encode_trees(&read, &vocabulary), &vocabulary).calls;
        let plain = |calls: &[RawCall]| serde_json::to_value(calls).expect("calls serialise");
        prop_assert_eq!(plain(&read), plain(&again));
    }

    #[test]
    fn plain_text_comes_back_without_a_vocabulary(text in text()) {
        let written = encode(&[EncodeCall::new("say", map(&json!({"t": text})))]);
        let parsed = parse(&written, &protocol_action::NoVocabulary);
        prop_assert_eq!(&parsed.calls[0].arguments[0].value, &RawValue::Text(text));
    }
}

#[test]
fn the_taught_form() {
    let arguments = json!({
        "to": ["a@x.org", "b@x.org"],
        "place": {"city": "Oslo", "room": 4},
        "body": "\nif a < b:\n",
        "empty": "",
        "none": [],
        "odd key": true,
    });
    let written =
        encode(&[EncodeCall::new("send_mail", map(&arguments)), EncodeCall::new("workflow:x", &Map::new())]);
    insta::assert_snapshot!(written, @r#"
    <ACTION>
      <send_mail>
        <to>
          <item>a@x.org</item>
          <item>b@x.org</item>
        </to>
        <place>
          <city>Oslo</city>
          <room>4</room>
        </place>
        <body><![CDATA[

    if a < b:

    ]]></body>
        <empty></empty>
        <none>[]</none>
        <param name="odd key">true</param>
      </send_mail>
      <tool name="workflow:x"></tool>
    </ACTION>
    "#);
}
