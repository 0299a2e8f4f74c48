//! `core:Merge`.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use workflow_engine::{
    Expression, Inputs, NodeCatalog, NodeContext, NodeError, Outputs, Prepared, Problem, value_size,
};
use workflow_model::{DataFlowType, ModeDefinition, Modes, NodeDefinition, SlotDefinition};

use super::items::{Listed, check_cancel, expression, identity, items, over_item, values, with_other};
use crate::define::{list, made, setting};

/// Items of a join at most: keys that repeat on both sides multiply.
const MAX_ITEMS: usize = 1_000_000;

/// Bytes of a join at most: those that one value may hold.
const MAX_BYTES: usize = 64 << 20;

pub(super) fn register(catalog: &mut NodeCatalog) {
    catalog.register(merge());
}

/// The way of merging.
enum Merge {
    Concat,
    Join(Box<Join>),
    Zip { fill: bool },
}

/// Keys of a join.
struct Join {
    left: Expression,
    /// The key on the right side, where it is another one.
    right: Option<Expression>,
    keeps_left: bool,
}

fn merge() -> Listed {
    Listed { definition: definition(), prepare: |config| read(config).map(Prepared::new), work }
}

fn definition() -> NodeDefinition {
    let pair = |title: &str| {
        ModeDefinition::new(title)
            .input("left", list("the first list").required())
            .input("right", list("the second list").required())
    };
    let lists =
        SlotDefinition::new(DataFlowType::Array, "the lists, in the order of their edges").multi().required();
    let modes = Modes::new("mode", "concat")
        .mode("concat", ModeDefinition::new("one list behind the other").input("lists", lists))
        .mode("join", pair("items with the same key together"))
        .mode("zip", pair("the first with the first, the second with the second"));
    with_other(NodeDefinition::new(
        "core:Merge",
        "Makes one list of several: one behind the other, joined by key, or item by item.",
    ))
    .output("items", list("`join`: objects with the members of both, where the right one's count, else {left, right}; `zip`: pairs [left, right]"))
    .config("mode", setting(DataFlowType::String, "how").with_default("concat"))
    .config("key", over_item("with `join`: the key of an item; null and missing keys match nothing"))
    .config("rightKey", over_item("with `join`: the key of an item of `right`, where it is another one"))
    .config("join", setting(DataFlowType::String, "with `join`: `left` keeps items of `left` without a match").with_default("inner").one_of(["inner", "left"]))
    .config("fill", setting(DataFlowType::Boolean, "with `zip`: null fills the shorter list; else the longer one is cut").with_default(false))
    .modes(modes)
}

fn read(config: &Map<String, Value>) -> Result<Merge, Vec<Problem>> {
    match config.get("mode").and_then(Value::as_str) {
        Some("join") => {
            let required = || vec![Problem::setting("key", "with `join` this setting is required")];
            let left = expression(config, "key")?.ok_or_else(required)?;
            let keeps_left = config.get("join").and_then(Value::as_str) == Some("left");
            let right = expression(config, "rightKey")?;
            Ok(Merge::Join(Box::new(Join { left, right, keeps_left })))
        }
        Some("zip") => Ok(Merge::Zip { fill: config.get("fill").and_then(Value::as_bool).unwrap_or(false) }),
        // The check of the workflow reports other modes.
        Some(_) | None => Ok(Merge::Concat),
    }
}

fn work(ctx: &NodeContext, inputs: &Inputs) -> Result<Outputs, NodeError> {
    let merged = match made::<Merge>(ctx)? {
        Merge::Concat => concat(inputs)?,
        Merge::Zip { fill } => zip(items(inputs, "left")?, items(inputs, "right")?, *fill),
        Merge::Join(keys) => {
            let Join { left, right, keeps_left } = &**keys;
            let (lefts, rights) = (items(inputs, "left")?, items(inputs, "right")?);
            let left_keys = values(ctx, inputs, lefts, left)?;
            let right_keys = values(ctx, inputs, rights, right.as_ref().unwrap_or(left))?;
            join(ctx, &(lefts, left_keys), &(rights, right_keys), *keeps_left)?
        }
    };
    Ok(Outputs::value(merged))
}

fn concat(inputs: &Inputs) -> Result<Vec<Value>, NodeError> {
    let mut all = Vec::new();
    for part in inputs.all("lists") {
        let items = part.as_array();
        all.extend_from_slice(items.ok_or_else(|| NodeError::fatal("the input `lists` takes lists"))?);
    }
    Ok(all)
}

fn zip(left: &[Value], right: &[Value], fill: bool) -> Vec<Value> {
    let length = if fill { left.len().max(right.len()) } else { left.len().min(right.len()) };
    let at = |items: &[Value], index: usize| items.get(index).cloned().unwrap_or_default();
    (0..length).map(|index| json!([at(left, index), at(right, index)])).collect()
}

type Keyed<'i> = (&'i [Value], Vec<Option<Value>>);

fn join(
    ctx: &NodeContext,
    left: &Keyed<'_>,
    right: &Keyed<'_>,
    keeps_left: bool,
) -> Result<Vec<Value>, NodeError> {
    let mut by_key: HashMap<String, Vec<&Value>> = HashMap::new();
    for (item, key) in right.0.iter().zip(&right.1) {
        if key.as_ref().is_some_and(|key| !key.is_null()) {
            by_key.entry(identity(key.as_ref())).or_default().push(item);
        }
    }
    let mut joined = Joined::default();
    for (item, key) in left.0.iter().zip(&left.1) {
        check_cancel(ctx)?;
        let has_key = key.as_ref().is_some_and(|key| !key.is_null());
        let matches = has_key.then(|| by_key.get(&identity(key.as_ref()))).flatten();
        match matches {
            Some(matches) => matches.iter().try_for_each(|other| joined.push(both(item, other)))?,
            None if keeps_left && item.is_object() => joined.push(item.clone())?,
            None if keeps_left => joined.push(json!({"left": item, "right": null}))?,
            None => {}
        }
    }
    Ok(joined.items)
}

/// Items of a join, within its limits.
#[derive(Default)]
struct Joined {
    items: Vec<Value>,
    bytes: usize,
}

impl Joined {
    fn push(&mut self, item: Value) -> Result<(), NodeError> {
        self.bytes += value_size(&item);
        self.items.push(item);
        let limit = if self.items.len() > MAX_ITEMS {
            format!("{MAX_ITEMS} items")
        } else if self.bytes > MAX_BYTES {
            format!("{} MiB", MAX_BYTES >> 20)
        } else {
            return Ok(());
        };
        let message = format!("the join has more than {limit}; take a key that repeats less");
        Err(NodeError::fatal(message).with_code("too_many_items"))
    }
}

fn both(left: &Value, right: &Value) -> Value {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let mut members = left.clone();
            members.extend(right.clone());
            Value::Object(members)
        }
        _ => json!({"left": left, "right": right}),
    }
}
