//! A place in a schema with the words that it has there: descriptions, patterns, examples.

use serde_json::{Map, Value};

use crate::node::resolve;

/// Deepest chain of references and parts that is looked through.
const MAX_CHAIN: usize = 8;

/// A place in a schema: everything that is declared of it, what is said there first.
#[derive(Debug, Clone)]
pub(super) struct SchemaPart<'s> {
    root: &'s Value,
    layers: Vec<&'s Map<String, Value>>,
}

impl<'s> SchemaPart<'s> {
    pub(super) fn new(root: &'s Value, schema: Option<&'s Value>) -> Self {
        let mut part = Self { root, layers: Vec::new() };
        if let Some(schema) = schema {
            part.gather(schema, 0);
        }
        part
    }

    fn gather(&mut self, schema: &'s Value, depth: usize) {
        let Some(object) = schema.as_object().filter(|_| depth < MAX_CHAIN) else { return };
        self.layers.push(object);
        let target = object.get("$ref").and_then(Value::as_str).and_then(|name| resolve(self.root, name));
        let parts = list(object, "allOf");
        let only = ["anyOf", "oneOf"].into_iter().filter_map(|keyword| {
            let mut others = alternatives(object, keyword);
            others.next().filter(|_| others.next().is_none())
        });
        for schema in target.into_iter().chain(parts).chain(only) {
            self.gather(schema, depth + 1);
        }
    }

    /// The value of a keyword, of the first layer that has it.
    pub(super) fn get(&self, keyword: &str) -> Option<&'s Value> {
        self.layers.iter().find_map(|layer| layer.get(keyword))
    }

    pub(super) fn description(&self) -> &'s str {
        self.get("description").and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn field(&self, name: &str) -> Self {
        let declared = |layer: &&'s Map<String, Value>| layer.get("properties")?.get(name);
        Self::new(self.root, self.layers.iter().find_map(declared))
    }

    pub(super) fn item(&self) -> Self {
        Self::new(self.root, self.get("items"))
    }

    /// The alternative of a position.
    pub(super) fn branch(&self, index: usize) -> Self {
        let listed = |layer: &&'s Map<String, Value>| {
            ["anyOf", "oneOf"].into_iter().find_map(|keyword| alternatives(layer, keyword).nth(index))
        };
        Self::new(self.root, self.layers.iter().find_map(listed))
    }
}

fn list<'s>(object: &'s Map<String, Value>, keyword: &str) -> impl Iterator<Item = &'s Value> + use<'s> {
    object.get(keyword).and_then(Value::as_array).into_iter().flatten()
}

/// The alternatives of a union besides null.
fn alternatives<'s>(
    object: &'s Map<String, Value>,
    keyword: &str,
) -> impl Iterator<Item = &'s Value> + use<'s> {
    list(object, keyword).filter(|schema| schema.get("type").and_then(Value::as_str) != Some("null"))
}
