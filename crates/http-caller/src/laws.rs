//! Laws of filling: no value changes the structure of a request.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::config::EndpointConfig;
use crate::endpoint::{CallConfig, Endpoint};
use crate::secret::{Secret, SecretMask};
use crate::template::{Filler, Scope};

/// Values as models choose them, hostile ones among them.
fn value() -> impl Strategy<Value = Value> {
    let hostile = prop::sample::select(vec![
        "..",
        ".",
        "%2e%2e",
        "../x",
        "a/b",
        "a\\b",
        "?x=1",
        "#f",
        "a&b=c",
        "@evil.test",
        ":8080",
        "//evil.test/",
        "http://evil.test/",
        "a\r\nX: 1",
        "\0",
        "{id}",
        "{{id}}",
        "{$secret.KEY}",
        "{$ctx.t}",
        ";",
        "a,b",
        " ",
        "+",
        "%",
        "%zz",
        "名",
    ]);
    let leaf = prop_oneof![
        "\\PC{0,12}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        hostile.prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
    ];
    let nested = leaf.clone();
    prop_oneof![
        4 => leaf,
        1 => prop::collection::vec(nested.clone(), 0..4).prop_map(Value::from),
        1 => prop::collection::btree_map("\\PC{0,6}", nested, 0..3).prop_map(|map| json!(map)),
    ]
}

fn endpoint() -> Endpoint {
    let config: EndpointConfig = serde_json::from_value(json!({
        "url": "https://api.test:8443/v1/{id}/x-{id}/end?fixed=1&q={q}&both={q}{id}",
        "method": "POST",
        "headers": {"X-A": "{h}", "X-B": "b {h}"},
        "query_params": {"r": "{q}", "s": "s{q}"},
        "body": {"a": "{b}", "t": "t {b}"},
    }))
    .unwrap();
    Endpoint::new(&CallConfig { endpoint: config, ..CallConfig::default() }, &Scope::open()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_value_changes_the_structure(id in value(), q in value(), h in value(), b in value()) {
        let arguments: Map<String, Value> =
            [("id", &id), ("q", &q), ("h", &h), ("b", &b)].map(|(name, value)| (name.to_owned(), value.clone())).into_iter().collect();
        let secrets: BTreeMap<String, Secret> = [("KEY".to_owned(), Secret::new("S3CR3T"))].into();
        let context = Map::new();
        let mask = SecretMask::new();
        let filler = Filler { arguments: &arguments, context: &context, secrets: &secrets, mask: &mask };
        // What would change it is refused, and then nothing is sent.
        let Ok(request) = endpoint().fill(&filler) else { return Ok(()) };
        let url = &request.url;
        prop_assert_eq!(url.origin().ascii_serialization(), "https://api.test:8443");
        prop_assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none());
        let segments: Vec<&str> = url.path_segments().unwrap().collect();
        prop_assert_eq!(segments.len(), 4, "{}", url);
        prop_assert_eq!((segments[0], segments[3]), ("v1", "end"));
        let names: Vec<String> = url.query_pairs().map(|(name, _)| name.into_owned()).collect();
        prop_assert_eq!(names, ["fixed", "q", "both", "r", "s"]);
        // accept, user-agent, content-type, accept-encoding, and the two of the file.
        prop_assert_eq!(request.headers.len(), 6);
        for value in request.headers.values() {
            prop_assert!(!value.as_bytes().iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
        }
        let body: Value = serde_json::from_slice(request.body.as_deref().unwrap()).unwrap();
        prop_assert_eq!(&body["a"], &b);
        prop_assert_eq!(body.as_object().unwrap().len(), 2);
        let sent = format!("{url} {:?} {body}", request.headers);
        prop_assert!(!sent.contains("S3CR3T"));
    }

    #[test]
    fn any_url_is_taken_or_refused(text in prop_oneof![any::<String>(), "https?://[a-z{}:@/?#&=.%\\\\$]{0,24}"]) {
        let endpoint = EndpointConfig { url: text.clone(), ..EndpointConfig::default() };
        let Ok(endpoint) = Endpoint::new(&CallConfig { endpoint, ..CallConfig::default() }, &Scope::open()) else { return Ok(()) };
        let origin = endpoint.origin();
        prop_assert!(origin.starts_with("http://") || origin.starts_with("https://"), "{}", text);
        prop_assert!(!origin.contains('@'), "{}", text);
    }
}
