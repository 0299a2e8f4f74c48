//! Lists by expression: filter, map, sort, group, distinct, split, merge.

mod items;
mod merge;
mod order;
mod parts;
mod pick;

use workflow_engine::NodeCatalog;

pub(crate) fn register(catalog: &mut NodeCatalog) {
    pick::register(catalog);
    order::register(catalog);
    parts::register(catalog);
    merge::register(catalog);
}
