//! Lists of providers: reserved names, suggestions, wildcards, reloads.
//! A test that begins with `s` and a number is named after the threat that it answers.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a wrong case may panic")]

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tool_registry::{
    BrokenTool, Changes, FilePlace, Providers, Reach, Registry, Resolution, Services, Tool, ToolKind,
    ToolLookupError, ToolProvider,
};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

fn tool(id: &str) -> Tool {
    Tool::func(id, "Does it.", |_: Nothing, _| async { 1 }).unwrap()
}

/// A provider of fixed ids.
#[derive(Debug, Clone)]
struct Fixed {
    namespaces: &'static [&'static str],
    ids: Vec<&'static str>,
    changes: Changes,
}

impl Fixed {
    fn new(namespaces: &'static [&'static str], ids: &[&'static str]) -> Self {
        Self { namespaces, ids: ids.to_vec(), changes: Changes::Never }
    }
}

impl ToolProvider for Fixed {
    fn kind(&self) -> ToolKind {
        ToolKind::own(self.namespaces.first().copied().unwrap_or("file"))
    }

    fn namespaces(&self) -> &[&'static str] {
        self.namespaces
    }

    fn list(&self, _: Reach) -> Vec<Result<String, BrokenTool>> {
        self.ids.iter().map(|id| Ok((*id).to_owned())).collect()
    }

    fn resolve(&self, id: &str, _: &Services) -> Resolution {
        if self.ids.contains(&id) { Resolution::Found(tool(id)) } else { Resolution::NotMine }
    }

    fn canonical(&self, id: &str) -> Option<String> {
        let package = id.split_once(':')?.0;
        let beginning = format!("{}:{package}:", self.namespaces.first()?);
        self.ids.iter().any(|own| own.starts_with(&beginning)).then(|| format!("{}:{id}", self.namespaces[0]))
    }

    fn expand(&self, entry: &str) -> Option<Vec<Result<String, BrokenTool>>> {
        let beginning = entry.strip_suffix('*')?;
        let ids = self.ids.iter().filter(|id| id.starts_with(beginning));
        Some(ids.map(|id| Ok((*id).to_owned())).collect())
    }

    fn titled(&self, title: &str) -> Vec<String> {
        let ids = self.ids.iter().filter(|id| id.ends_with(title.split(' ').next().unwrap_or_default()));
        ids.filter(|_| title.ends_with(" of tools")).map(|id| (*id).to_owned()).collect()
    }

    fn place(&self, id: &str) -> Option<FilePlace> {
        Some(FilePlace::new(format!("tools/{id}")))
    }

    fn changes(&self) -> Changes {
        self.changes.clone()
    }

    fn reloaded(&self) -> Option<Result<Arc<dyn ToolProvider>, BrokenTool>> {
        let Changes::Files(_) = self.changes else { return None };
        Some(Ok(Arc::new(Self { ids: vec!["new"], ..self.clone() })))
    }
}

#[test]
fn s34_no_outside_tool_stands_in_front_of_ours() {
    let files = Fixed::new(&[], &["system:other", "workflow:x", "get_weather", "system:time"]);
    let providers = Providers::new()
        .with(Fixed::new(&["system"], &["system:time"]))
        .with(files)
        .with(Fixed::new(&["workflow"], &[]));
    let listed = providers.list(Reach::Local);
    let good: Vec<&String> = listed.iter().flatten().collect();
    assert_eq!(good, ["system:time", "get_weather"]);
    let broken: Vec<&BrokenTool> = listed.iter().filter_map(|listed| listed.as_ref().err()).collect();
    assert!(broken.iter().all(|broken| broken.code == "reserved_namespace"));
    assert_eq!(
        broken[1].message,
        "`workflow:x` is in the namespace `workflow`, which is reserved for tools of kind `workflow`"
    );
    assert_eq!(broken[1].place, Some(FilePlace::new("tools/workflow:x")));
    for id in ["system:other", "workflow:x"] {
        let error = providers.resolve(id, &Services::new()).unwrap_err();
        assert!(matches!(error, ToolLookupError::Unknown(_)), "{id}");
    }
    assert!(providers.resolve("get_weather", &Services::new()).is_ok());
}

#[test]
fn a_name_means_the_only_tool_of_that_name() {
    let providers = Providers::new()
        .with(Fixed::new(&["system"], &["system:time", "system:both", "system:first"]))
        .with(Fixed::new(&[], &["weather", "system:gone"]))
        .with(Fixed::new(
            &["workflow"],
            &["workflow:both", "workflow:report", "workflow:weather", "workflow:first"],
        ));
    for (written, meant) in [
        ("time", "system:time"),
        ("report", "workflow:report"),
        ("both", "both"),
        ("weather", "weather"),
        ("gone", "gone"),
        ("report of tools", "workflow:report"),
        ("first of tools", "first of tools"),
        ("workflow:time", "workflow:time"),
        ("", ""),
        ("nothing", "nothing"),
    ] {
        assert_eq!(providers.canonical(written), meant, "{written}");
    }
}

#[test]
fn near_names_come_from_every_provider() {
    let registry = Registry::new();
    registry.register(tool("add")).unwrap();
    let providers = Providers::new().with(registry).with(Fixed::new(&["a"], &["a:long_name"]));
    let near = |id: &str| providers.unresolved(id).near.map(|near| near.to_string());
    assert_eq!(near("ad"), Some("add".to_owned()));
    assert_eq!(near("a:long_nam"), Some("a:long_name".to_owned()));
    let expanded = |entry: &str| providers.expand(entry).into_iter().map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(expanded("a:long*"), ["a:long_name"]);
    assert_eq!(expanded("b:*"), ["b:*"], "no provider knows what it means");
}

#[test]
fn a_provider_says_what_is_short_for_its_ids_but_not_in_the_namespace_of_another_before_it() {
    let providers = Providers::new()
        .with(Fixed::new(&["first"], &["first:a"]))
        .with(Fixed::new(&["parts"], &["parts:box:lid", "parts:first:a", "parts:last:a"]))
        .with(Fixed::new(&["last"], &["last:a"]));
    let check = |written: &str, meant: &str| assert_eq!(providers.canonical(written), meant);
    check("box:lid", "parts:box:lid");
    check("box:lit", "parts:box:lit");
    check("box:*", "parts:box:*");
    check("parts:box:lid", "parts:box:lid");
    check("first:a", "first:a");
    check("last:a", "parts:last:a");
    check("a", "a");
    check("other:a", "other:a");
}

#[test]
fn providers_reload_what_hangs_on_files() {
    let files = Fixed { changes: Changes::Files(vec![PathBuf::from("a")]), ..Fixed::new(&["a"], &["a:old"]) };
    let providers = Providers::new().with(Fixed::new(&["b"], &["b:same"])).with(files);
    assert_eq!(providers.watched(), [PathBuf::from("a")]);
    assert!(providers.is_constant("b:same") && !providers.is_constant("a:old"));
    assert_eq!(providers.reloaded().unwrap().ids(), ["b:same", "new"]);
    assert_eq!(providers.ids(), ["b:same", "a:old"]);
}
