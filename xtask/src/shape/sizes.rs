//! Sizes of types: their methods over all blocks of a crate, and their fields of shared visibility.

use std::collections::BTreeMap;

use syn::{Fields, ImplItem, Item, ItemImpl, Type, Visibility};

use super::exceptions::{self, Exceptions};
use super::modules::Modules;

/// Most methods of a type.
const MAX_METHODS: usize = 40;
/// Most fields of a struct that other modules may reach, save those of public data.
const MAX_SHARED_FIELDS: usize = 10;

/// Size of a type of a crate.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Size {
    package: String,
    name: String,
    methods: usize,
    shared_fields: usize,
}

/// Sizes of the types of a crate. Of types of one name the methods are added up, and the most fields count.
pub(super) fn sizes(package: &str, modules: &Modules) -> Vec<Size> {
    let mut sizes: BTreeMap<String, Size> = BTreeMap::new();
    let mut add = |name: String, methods: usize, shared_fields: usize| {
        let size = sizes.entry(name.clone()).or_default();
        (size.package, size.name) = (package.to_owned(), name);
        size.methods += methods;
        size.shared_fields = size.shared_fields.max(shared_fields);
    };
    for item in modules.all().flat_map(|(_, module)| &module.items) {
        match item {
            Item::Impl(block) => {
                if let Some(name) = name_of(block) {
                    let methods = block.items.iter().filter(|item| matches!(item, ImplItem::Fn(_))).count();
                    add(name, methods, 0);
                }
            }
            Item::Struct(item) => add(item.ident.to_string(), 0, shared(&item.fields)),
            _ => {}
        }
    }
    sizes.into_values().collect()
}

fn name_of(block: &ItemImpl) -> Option<String> {
    let Type::Path(path) = &*block.self_ty else { return None };
    Some(path.path.segments.last()?.ident.to_string())
}

fn shared(fields: &Fields) -> usize {
    fields.iter().filter(|field| matches!(field.vis, Visibility::Restricted(_))).count()
}

/// Types that are larger than allowed, and exceptions that are not needed.
pub(super) fn faults(sizes: &[Size], exceptions: &Exceptions) -> Vec<String> {
    let mut faults = too_large(sizes, "methods", MAX_METHODS, |size| size.methods, &exceptions.methods);
    let fields = "fields of shared visibility";
    faults.extend(too_large(
        sizes,
        fields,
        MAX_SHARED_FIELDS,
        |size| size.shared_fields,
        &exceptions.shared_fields,
    ));
    faults
}

fn too_large(
    sizes: &[Size],
    what: &str,
    limit: usize,
    count: impl Fn(&Size) -> usize,
    exceptions: &[exceptions::Type],
) -> Vec<String> {
    let mut faults = Vec::new();
    let is_for =
        |listed: &exceptions::Type, size: &Size| listed.package == size.package && listed.name == size.name;
    for size in sizes {
        let listed = exceptions.iter().find(|listed| is_for(listed, size));
        let most = listed.map_or(limit, |listed| listed.most);
        if count(size) > most {
            let (package, name, count) = (&size.package, &size.name, count(size));
            faults.push(format!("{package}: {name} has {count} {what}, of at most {most}; split it by job"));
        }
    }
    for listed in exceptions {
        let name = format!("{}: {}", listed.package, listed.name);
        let count = sizes.iter().find(|size| is_for(listed, size)).map_or(0, &count);
        if count <= limit {
            faults.push(format!("{name} has {count} {what}: take it out of the exceptions"));
        }
        if listed.reason.trim().is_empty() {
            faults.push(format!("{name} is listed without a reason"));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_may_be_large_for_a_reason_alone() {
        let size = Size { package: "a".into(), name: "B".into(), methods: 41, shared_fields: 11 };
        let listed = |most| {
            let listed =
                exceptions::Type { package: "a".into(), name: "B".into(), most, reason: "old".into() };
            vec![listed]
        };
        let sizes = [size];
        assert_eq!(faults(&sizes, &Exceptions::default()).len(), 2);
        let exceptions = Exceptions { methods: listed(41), shared_fields: listed(11), circle: Vec::new() };
        assert_eq!(faults(&sizes, &exceptions), Vec::<String>::new());
        let exceptions = Exceptions { methods: listed(40), ..exceptions };
        assert_eq!(faults(&sizes, &exceptions).len(), 1);
        assert_eq!(faults(&[], &exceptions).len(), 2);
    }
}
