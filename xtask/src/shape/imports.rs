//! Imports among the files of a crate: a file imports another when it names what that one defines by a path that begins
//! with `crate` or `super`. A file that names what lies below it owns that, and imports nothing.
//!
//! A re-export is looked through and does not count. Names inside of macros are not seen, nor are methods.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::{Item, Visibility};

use super::modules::{Modules, leaves};

/// Pairs of files, by number: the first imports the second.
pub(super) fn imports(modules: &Modules) -> BTreeSet<(usize, usize)> {
    let mut found = BTreeSet::new();
    for (at, module) in modules.all() {
        let mut paths = Paths { found: Vec::new() };
        for item in &module.items {
            match item {
                Item::Use(import) if matches!(import.vis, Visibility::Inherited) => {
                    paths.found.extend(leaves(import).into_iter().map(|(_, path)| path));
                }
                Item::Use(_) => {}
                item => paths.visit_item(item),
            }
        }
        let upward = paths.found.iter().filter(|path| module.leads_up(path));
        let definitions = upward.filter_map(|path| modules.definition(at, path));
        let files = definitions.filter_map(|to| modules.all().nth(to).map(|(_, module)| module.file));
        found.extend(files.filter(|file| *file != module.file).map(|file| (module.file, file)));
    }
    found
}

/// Paths of several parts that code names, such as `super::plan::Plan`.
struct Paths {
    found: Vec<Vec<String>>,
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 && path.leading_colon.is_none() {
            self.found.push(path.segments.iter().map(|part| part.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, import: &'ast syn::ItemUse) {
        self.found.extend(leaves(import).into_iter().map(|(_, path)| path));
    }
}
