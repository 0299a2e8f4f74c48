//! Steps of a workflow.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde_json::{Map, Number, Value};

use crate::file::field::{Field, Scalar};
use crate::file::object::{KeyOrder, ObjectReader, ObjectWriter};
use crate::file::report::Report;
use crate::policy::{Bypass, Cache, OnError, Retry};

/// Position of a node on the canvas.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
pub struct Position {
    /// To the right, in pixels.
    pub x: f64,
    /// Down, in pixels.
    pub y: f64,
}

impl Scalar for Position {
    const EXPECTED: &'static str = "{`x`, `y`} with numbers";

    fn from_json(value: &Value) -> Option<Self> {
        let map = value.as_object()?;
        Some(Self { x: map.get("x")?.as_f64()?, y: map.get("y")?.as_f64()? })
    }

    fn to_json(&self) -> Value {
        serde_json::json!({ "x": self.x, "y": self.y })
    }

    fn read_at(value: &Value, report: &mut Report) -> Option<Self> {
        let Some(map) = value.as_object() else {
            report.expected(Self::EXPECTED, value);
            return None;
        };
        let mut number = |key: &str| {
            let found = map.get(key).unwrap_or(&Value::Null);
            let read = found.as_f64();
            if read.is_none() {
                report.at_key(key, |report| report.expected("a number", found));
            }
            read
        };
        let (x, y) = (number("x"), number("y"));
        Some(Self { x: x?, y: y? })
    }
}

/// One step.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Node {
    /// Its name, unique among the nodes around it.
    pub id: String,
    /// Its full type, `namespace:Type`.
    #[schemars(rename = "type")]
    pub node_type: String,
    /// Position on the canvas.
    pub position: Option<Position>,
    /// Display name.
    pub display_name: Option<String>,
    /// Values of input slots that no edge leads to.
    pub input_values: Map<String, Value>,
    /// Settings.
    pub config_values: Map<String, Value>,
    /// The frame or loop zone it stands in.
    pub parent_node: Option<String>,
    /// For a slot that takes several edges: the ids of its edges in order.
    pub input_connection_orders: IndexMap<String, Vec<String>>,
    /// Switched off, and how.
    pub bypass: Option<Bypass>,
    /// Limit of one attempt in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Limit without a chunk or a sign of life, in milliseconds.
    pub idle_ms: Option<u64>,
    /// Limit of all attempts and the waits between them, in milliseconds.
    pub total_ms: Option<u64>,
    /// Retry policy of the node.
    pub retry: Option<Retry>,
    /// Effect of its failure on the run; the default is `fail`.
    pub on_error: Option<OnError>,
    /// Caching of its result; the default is off.
    #[schemars(with = "Option<crate::schema::CacheForm>")]
    pub cache: Option<Cache>,
    /// Input slots whose sources run only when the node asks for them.
    pub lazy: Vec<String>,
    /// A named limit that it shares with others.
    pub group: Option<String>,
    /// Set if the node has an effect outside of the run; the default is that of its type.
    pub effect: Option<bool>,
    /// Ready with the first in-edge that is taken.
    pub first: bool,
    /// With `first`: what only leads to the other in-edges is cancelled.
    pub cancel_rest: bool,
    /// An expression over `inputs`, read once before the start: true skips the node.
    pub skip_if: Option<String>,
    /// Keys that weft does not know, kept on saving.
    #[schemars(skip)]
    pub extra: Map<String, Value>,
    #[schemars(skip)]
    pub(crate) order: KeyOrder,
}

impl Node {
    /// A node without any settings.
    #[must_use]
    pub fn new(id: impl Into<String>, node_type: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            node_type: node_type.into(),
            position: None,
            display_name: None,
            input_values: Map::new(),
            config_values: Map::new(),
            parent_node: None,
            input_connection_orders: IndexMap::new(),
            bypass: None,
            timeout_ms: None,
            idle_ms: None,
            total_ms: None,
            retry: None,
            on_error: None,
            cache: None,
            lazy: Vec::new(),
            group: None,
            effect: None,
            first: false,
            cancel_rest: false,
            skip_if: None,
            extra: Map::new(),
            order: KeyOrder::default(),
        }
    }

    pub(crate) fn read(value: Value, report: &mut Report) -> Option<Self> {
        let mut from = ObjectReader::new(value, report)?;
        let id: String = from.required("id", "a text");
        let node_type: String = from.required("type", "a full type such as `core:TextMerge`");
        let mut node = Self::new(id, node_type);
        node.position = from.optional("position");
        node.display_name = from.optional("displayName");
        node.input_values = from.free_map("inputValues");
        node.config_values = from.free_map("configValues");
        node.parent_node = from.optional("parentNode");
        node.input_connection_orders = read_connection_orders(&mut from);
        node.read_policies(&mut from);
        for key in ["width", "height"] {
            from.check::<Option<Number>>(key);
        }
        from.check::<Option<String>>("customDescription");
        from.check_with("customSlotDescriptions", check_slot_texts);
        (node.extra, node.order) = from.finish();
        Some(node)
    }

    fn read_policies(&mut self, from: &mut ObjectReader<'_>) {
        self.bypass = from.optional("bypass");
        self.timeout_ms = from.optional("timeoutMs");
        self.idle_ms = from.optional("idleMs");
        self.total_ms = from.optional("totalMs");
        self.retry = from.optional("retry");
        self.on_error = from.optional("onError");
        self.cache = from.optional("cache");
        self.lazy = from.optional("lazy");
        self.group = from.optional("group");
        self.effect = from.optional("effect");
        self.first = from.optional("first");
        self.cancel_rest = from.optional("cancelRest");
        self.skip_if = from.optional("skipIf");
    }

    pub(crate) fn write(&self) -> Value {
        let mut to = ObjectWriter::new(&self.order);
        to.put("id", &self.id);
        to.put("type", &self.node_type);
        to.put("position", &self.position);
        to.put("displayName", &self.display_name);
        let orders = self.input_connection_orders.iter();
        let orders = orders.map(|(slot, edges)| (slot.clone(), Value::from(edges.clone()))).collect();
        for (key, map) in [
            ("inputValues", &self.input_values),
            ("configValues", &self.config_values),
            ("inputConnectionOrders", &orders),
        ] {
            to.put_part(key, Value::Object(map.clone()), map.is_empty());
        }
        to.put("parentNode", &self.parent_node);
        self.write_policies(&mut to);
        to.finish(&self.extra)
    }

    fn write_policies(&self, to: &mut ObjectWriter<'_>) {
        to.put("bypass", &self.bypass);
        to.put("timeoutMs", &self.timeout_ms);
        to.put("idleMs", &self.idle_ms);
        to.put("totalMs", &self.total_ms);
        to.put("retry", &self.retry);
        to.put("onError", &self.on_error);
        to.put("cache", &self.cache);
        to.put("lazy", &self.lazy);
        to.put("group", &self.group);
        to.put("effect", &self.effect);
        to.put("first", &self.first);
        to.put("cancelRest", &self.cancel_rest);
        to.put("skipIf", &self.skip_if);
    }
}

/// The key `inputConnectionOrders`.
pub(crate) fn read_connection_orders(from: &mut ObjectReader<'_>) -> IndexMap<String, Vec<String>> {
    const KEY: &str = "inputConnectionOrders";
    let part = from.part(KEY);
    part.map(|value| from.report.at_key(KEY, |report| read_orders(&value, report))).unwrap_or_default()
}

/// `{slot: [edge ids]}`.
fn read_orders(value: &Value, report: &mut Report) -> IndexMap<String, Vec<String>> {
    let Some(map) = value.as_object() else {
        report.expected("an object of lists", value);
        return IndexMap::new();
    };
    let mut read = |slot: &String, ids: &Value| report.at_key(slot, |report| Vec::read(ids, report));
    map.iter().map(|(slot, ids)| (slot.clone(), read(slot, ids))).collect()
}

/// `{inputs: {slot: text}, outputs: {slot: text}}`.
fn check_slot_texts(value: &Value, report: &mut Report) {
    let Some(map) = value.as_object() else { return report.expected("an object", value) };
    for side in ["inputs", "outputs"] {
        match map.get(side) {
            None | Some(Value::Null) => {}
            Some(Value::Object(texts)) => report.at_key(side, |report| {
                for (slot, text) in texts {
                    report.at_key(slot, |report| Option::<String>::read(text, report));
                }
            }),
            Some(other) => report.at_key(side, |report| report.expected("an object of texts", other)),
        }
    }
}
