//! `core:Filter`, `core:Map`, `core:Distinct`.

use std::collections::HashSet;

use serde_json::Value;
use workflow_engine::{Expression, NodeCatalog, Outputs, Prepared};
use workflow_model::{DataFlowType, SlotDefinition};

use super::items::{Listed, expression, flags, identity, items, of_list, over_item, required, values};
use crate::define::{list, made};

pub(super) fn register(catalog: &mut NodeCatalog) {
    catalog.register(filter()).register(map()).register(distinct());
}

fn filter() -> Listed {
    let definition = of_list(
        "core:Filter",
        "Keeps the items of a list for which an expression is true. An item that lacks a member which the expression names is left out.",
    )
    .output("items", list("the items for which it is true"))
    .output("rest", list("the others"))
    .config("cel", over_item("which items stay; true or false").required());
    Listed {
        definition,
        prepare: |config| required(config, "cel").map(Prepared::new),
        work: |ctx, inputs| {
            let all = items(inputs, "items")?;
            let flags = flags(ctx, inputs, all, made::<Expression>(ctx)?)?;
            let (mut kept, mut rest) = (Vec::new(), Vec::new());
            for (item, stays) in all.iter().zip(flags) {
                let side = if stays { &mut kept } else { &mut rest };
                side.push(item.clone());
            }
            Ok(Outputs::value(kept).with("rest", rest))
        },
    }
}

fn map() -> Listed {
    let definition = of_list(
        "core:Map",
        "Makes a list of the values of an expression, one for each item. An item that lacks a member which the expression names gives null.",
    )
    .output("items", list("the values, in the order of the items"))
    .config("cel", over_item("the new item").required());
    Listed {
        definition,
        prepare: |config| required(config, "cel").map(Prepared::new),
        work: |ctx, inputs| {
            let values = values(ctx, inputs, items(inputs, "items")?, made::<Expression>(ctx)?)?;
            Ok(Outputs::value(values.into_iter().map(Option::unwrap_or_default).collect::<Vec<Value>>()))
        },
    }
}

/// The key by which items are distinguished; the item itself without one.
struct Key(Option<Expression>);

fn distinct() -> Listed {
    let definition = of_list("core:Distinct", "Keeps the first of the items that are equal.")
        .output("items", list("the items without repetitions, in their order"))
        .output("removed", SlotDefinition::new(DataFlowType::Integer, "how many were left out"))
        .config(
            "by",
            over_item("what is compared; the item itself without it, and a missing member counts as null"),
        );
    Listed {
        definition,
        prepare: |config| expression(config, "by").map(|by| Prepared::new(Key(by))),
        work: |ctx, inputs| {
            let all = items(inputs, "items")?;
            let keys: Vec<String> = match &made::<Key>(ctx)?.0 {
                None => all.iter().map(|item| identity(Some(item))).collect(),
                Some(by) => {
                    let keys = values(ctx, inputs, all, by)?;
                    keys.iter().map(|key| identity(key.as_ref())).collect()
                }
            };
            let mut seen = HashSet::new();
            let kept: Vec<Value> = all
                .iter()
                .zip(keys)
                .filter_map(|(item, key)| seen.insert(key).then(|| item.clone()))
                .collect();
            let removed = all.len() - kept.len();
            Ok(Outputs::value(kept).with("removed", removed))
        },
    }
}
