//! The modules of a crate: their files, their items, and what their names stand for.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::{Attribute, Expr, ExprLit, Item, ItemUse, Lit, Meta, UseTree};

/// The modules of a crate, its root first.
#[derive(Default)]
pub(super) struct Modules {
    files: Vec<String>,
    modules: Vec<Module>,
}

/// A module in a file of its own, or inside of one.
pub(super) struct Module {
    /// Number of its file.
    pub(super) file: usize,
    pub(super) parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// Items of the product, without modules and tests.
    pub(super) items: Vec<Item>,
    names: Vec<String>,
    /// Names that are imported, by their paths.
    imported: Vec<(String, Vec<String>)>,
    /// Paths of which everything is imported.
    globs: Vec<Vec<String>>,
}

impl Modules {
    /// Reads the modules of a crate from its root file on.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut modules = Self::default();
        let source = root.parent().context("a root file lies in a folder")?;
        modules.read_file(root, source, source, None)?;
        Ok(modules)
    }

    /// Files by their paths in the folder of the sources.
    pub(super) fn files(&self) -> &[String] {
        &self.files
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (usize, &Module)> {
        self.modules.iter().enumerate()
    }

    fn read_file(
        &mut self,
        path: &Path,
        folder: &Path,
        source: &Path,
        parent: Option<usize>,
    ) -> Result<usize> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let syntax = syn::parse_file(&text).with_context(|| path.display().to_string())?;
        self.files.push(path.strip_prefix(source)?.to_string_lossy().replace('\\', "/"));
        self.add(syntax.items, self.files.len() - 1, folder, source, parent)
    }

    /// Adds a module whose own modules lie in a folder.
    fn add(
        &mut self,
        items: Vec<Item>,
        file: usize,
        folder: &Path,
        source: &Path,
        parent: Option<usize>,
    ) -> Result<usize> {
        let at = self.modules.len();
        self.modules.push(Module::new(file, parent));
        for item in items.into_iter().filter(|item| !is_test(attributes(item))) {
            match item {
                Item::Mod(module) => {
                    let name = module.ident.to_string();
                    let below = folder.join(&name);
                    let child = if let Some((_, items)) = module.content {
                        self.add(items, file, &below, source, Some(at))?
                    } else {
                        let path = file_of(&module.attrs, folder, &name);
                        self.read_file(&path, &below, source, Some(at))?
                    };
                    self.modules[at].children.insert(name, child);
                }
                item => self.modules[at].push(item),
            }
        }
        Ok(at)
    }

    /// The module that defines what a path names, seen from a module.
    pub(super) fn definition(&self, from: usize, path: &[String]) -> Option<usize> {
        self.resolve(from, path, 0)
    }

    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        // Imports of everything may lead in circles.
        if depth > 16 {
            return None;
        }
        let module = match first.as_str() {
            "crate" => 0,
            "self" => from,
            "super" => self.modules[from].parent?,
            _ => return self.resolve_name(from, path, depth),
        };
        if rest.is_empty() { Some(module) } else { self.resolve(module, rest, depth + 1) }
    }

    fn resolve_name(&self, from: usize, path: &[String], depth: usize) -> Option<usize> {
        let module = &self.modules[from];
        let (name, rest) = path.split_first()?;
        if module.names.contains(name) {
            return Some(from);
        }
        if let Some(&child) = module.children.get(name) {
            return if rest.is_empty() { Some(child) } else { self.resolve(child, rest, depth + 1) };
        }
        if let Some((_, target)) = module.imported.iter().find(|(imported, _)| imported == name) {
            let whole: Vec<String> = target.iter().chain(rest).cloned().collect();
            // A name that is imported from outside of the crate stands for itself.
            return if whole.as_slice() == path { None } else { self.resolve(from, &whole, depth + 1) };
        }
        module.globs.iter().find_map(|glob| {
            let whole: Vec<String> = glob.iter().chain(path).cloned().collect();
            self.resolve(from, &whole, depth + 1)
        })
    }
}

impl Module {
    fn new(file: usize, parent: Option<usize>) -> Self {
        Self {
            file,
            parent,
            children: BTreeMap::new(),
            items: Vec::new(),
            names: Vec::new(),
            imported: Vec::new(),
            globs: Vec::new(),
        }
    }

    /// Returns `true` for a path from `crate` or `super`, or from a name that was imported by such a path.
    pub(super) fn leads_up(&self, path: &[String]) -> bool {
        let begins = |path: &[String]| matches!(path.first().map(String::as_str), Some("crate" | "super"));
        let import = self.imported.iter().find(|(name, _)| path.first() == Some(name));
        begins(path) || import.is_some_and(|(_, target)| begins(target))
    }

    fn push(&mut self, item: Item) {
        match &item {
            Item::Use(import) => {
                for (name, path) in leaves(import) {
                    match name {
                        Some(name) => self.imported.push((name, path)),
                        None => self.globs.push(path),
                    }
                }
            }
            item => self.names.extend(name_of(item)),
        }
        self.items.push(item);
    }
}

/// Names of an import with their paths; none where everything is imported.
pub(super) fn leaves(import: &ItemUse) -> Vec<(Option<String>, Vec<String>)> {
    let mut found = Vec::new();
    flatten(&import.tree, &mut Vec::new(), &mut found);
    found
}

fn flatten(tree: &UseTree, path: &mut Vec<String>, found: &mut Vec<(Option<String>, Vec<String>)>) {
    match tree {
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            flatten(&part.tree, path, found);
            path.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, path, found)),
        UseTree::Glob(_) => found.push((None, path.clone())),
        UseTree::Name(leaf) => found.push(leaf_of(path, leaf.ident.to_string(), None)),
        UseTree::Rename(leaf) => {
            found.push(leaf_of(path, leaf.ident.to_string(), Some(leaf.rename.to_string())));
        }
    }
}

fn leaf_of(path: &[String], name: String, renamed: Option<String>) -> (Option<String>, Vec<String>) {
    let mut whole = path.to_vec();
    if name != "self" {
        whole.push(name);
    }
    (renamed.or_else(|| whole.last().cloned()), whole)
}

fn file_of(attributes: &[Attribute], folder: &Path, name: &str) -> PathBuf {
    let named = attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(path), .. }) => Some(path.value()),
            _ => None,
        },
        _ => None,
    });
    let flat = folder.join(named.unwrap_or_else(|| format!("{name}.rs")));
    if flat.is_file() { flat } else { folder.join(name).join("mod.rs") }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.tokens.to_string().split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
        }
        _ => false,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
