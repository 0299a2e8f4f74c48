//! `core:Group`, `core:Split`.

use indexmap::IndexMap;
use serde_json::{Map, Value, json};
use workflow_engine::{Expression, NodeCatalog, Outputs, Prepared, Problem};
use workflow_model::DataFlowType;

use super::items::{Listed, expression, flags, identity, items, of_list, over_item, required, values};
use crate::define::{list, made, setting};

pub(super) fn register(catalog: &mut NodeCatalog) {
    catalog.register(group()).register(split());
}

fn group() -> Listed {
    let definition = of_list(
        "core:Group",
        "Puts the items of a list that have the same key together. A missing key counts as null.",
    )
    .output("groups", list("the groups {key, items, count}, in the order of their first items"))
    .config("by", over_item("the key").required());
    Listed {
        definition,
        prepare: |config| required(config, "by").map(Prepared::new),
        work: |ctx, inputs| {
            let all = items(inputs, "items")?;
            let keys = values(ctx, inputs, all, made::<Expression>(ctx)?)?;
            let mut groups: IndexMap<String, (Value, Vec<Value>)> = IndexMap::new();
            for (item, key) in all.iter().zip(keys) {
                let group = groups.entry(identity(key.as_ref()));
                group.or_insert_with(|| (key.unwrap_or_default(), Vec::new())).1.push(item.clone());
            }
            let groups = groups.into_values();
            let groups = groups.map(|(key, items)| json!({"key": key, "count": items.len(), "items": items}));
            Ok(Outputs::value(groups.collect::<Vec<Value>>()))
        },
    }
}

/// Items of a part unless the settings say otherwise.
const SIZE: usize = 10;

/// Cuts of a list.
enum Cut {
    Every(usize),
    /// At items for which it is true; they are left out.
    At(Expression),
}

fn split() -> Listed {
    let definition =
        of_list("core:Split", "Cuts a list into lists: of a size each, or at the items that separate them.")
            .output("parts", list("the lists"))
            .config(
                "size",
                setting(DataFlowType::Integer, "how many items a list has; the last one may have fewer")
                    .with_default(SIZE),
            )
            .config("at", over_item("instead of by `size`: which items separate lists, and are in none"));
    Listed {
        definition,
        prepare: |config| cut(config).map(Prepared::new),
        work: |ctx, inputs| {
            let all = items(inputs, "items")?;
            let parts: Vec<Value> = match made::<Cut>(ctx)? {
                Cut::Every(size) => all.chunks(*size).map(|part| part.to_vec().into()).collect(),
                Cut::At(_) if all.is_empty() => Vec::new(),
                Cut::At(expression) => {
                    let flags = flags(ctx, inputs, all, expression)?;
                    let marked: Vec<(&Value, bool)> = all.iter().zip(flags).collect();
                    let parts = marked.split(|(_, separates)| *separates);
                    parts.map(|part| part.iter().map(|(item, _)| (*item).clone()).collect()).collect()
                }
            };
            Ok(Outputs::value(parts))
        },
    }
}

fn cut(config: &Map<String, Value>) -> Result<Cut, Vec<Problem>> {
    let fault = |key: &str, message: &str| vec![Problem::setting(key, message)];
    let size = config.get("size").filter(|size| !size.is_null());
    match (size, expression(config, "at")?) {
        (Some(_), Some(_)) => Err(fault("at", "`size` and `at` exclude each other; leave one of them out")),
        (None, None) => Ok(Cut::Every(SIZE)),
        (None, Some(at)) => Ok(Cut::At(at)),
        (Some(size), None) => {
            let size = size.as_u64().and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0);
            size.map(Cut::Every).ok_or_else(|| fault("size", "expected a whole number from 1"))
        }
    }
}
