//! Real files that change while a project is in use. The tests wait for reloads, not for a time.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use agent_runtime::AgentState;
use agent_types::{EventBody, ToolDefinition};
use serde_json::{Map, Value, json};
use tool_registry::{Snapshot, Tool, ToolContext, ToolError, ToolHandler, ToolKind, ToolOutput, ToolSource};
use weft_project::{LiveTools, Project, ProjectOptions, ProjectWatch};

fn http_tool(name: &str, description: &str) -> String {
    json!({"name": name, "description": description, "parameters": {"type": "object"},
        "endpoint": {"url": "https://host.example/", "method": "GET"}})
    .to_string()
}

fn workflow(description: &str) -> String {
    json!({"description": description, "nodes": [], "edges": []}).to_string()
}

struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new(tools: &Value) -> Self {
        let files = Self { folder: tempfile::tempdir().unwrap() };
        files.write("weft.toml", "script = \"script.jsonl\"\n");
        files.write("script.jsonl", "{\"text\": \"Done.\"}\n");
        files.write("agents/a.json", &json!({"id": "a", "tool_ids_inventory": tools}).to_string());
        files.write("workflows/w.json", &workflow("First."));
        files
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn open(&self) -> Project {
        let mut options = ProjectOptions::default();
        options.environment = None;
        Project::open(self.root(), &options).unwrap()
    }
}

/// Changes files, and waits until the tools are as they should be.
fn until(
    watch: &ProjectWatch,
    tools: &LiveTools,
    change: impl FnOnce(),
    holds: impl Fn(&Snapshot) -> bool,
) -> Snapshot {
    let mut seen = watch.reloads();
    change();
    loop {
        let now = tools.snapshot();
        if holds(&now) {
            return now;
        }
        seen = watch.wait_past(seen);
    }
}

fn description(snapshot: &Snapshot, id: &str) -> Option<String> {
    snapshot.get(id).map(|tool| tool.definition().description.clone())
}

#[test]
fn tools_follow_their_files_and_broken_ones_stay() {
    let files = Files::new(&json!(["workflow:w"]));
    let watch = files.open().watch().unwrap();
    let tools = watch.tools_of("a").unwrap();
    let before = tools.snapshot();
    assert_eq!(description(&before, "workflow:w").as_deref(), Some("First."));

    let change = || drop(files.write("workflows/w.json", &workflow("Second.")));
    let second =
        until(&watch, &tools, change, |now| description(now, "workflow:w").as_deref() == Some("Second."));
    assert_eq!(description(&before, "workflow:w").as_deref(), Some("First."), "a turn keeps what it saw");
    assert_eq!(before.change_to(&second).changed.len(), 1);

    let change = || drop(files.write("workflows/w.json", "{broken"));
    let broken = until(&watch, &tools, change, |now| !now.warnings().is_empty());
    assert_eq!(description(&broken, "workflow:w").as_deref(), Some("Second."));
    let [warning] = broken.warnings() else { panic!("{:?}", broken.warnings()) };
    assert!(warning.starts_with("`workflow:w` stays as it was: workflows/w.json:1:2: "), "{warning}");
    assert_eq!(second.change_to(&broken).warnings, broken.warnings());

    // A folder and a tool that were not there, and an agent that lists it.
    let change = || {
        files.write("tools/h.tool.json", &http_tool("h", "Asks."));
        files.write(
            "agents/a.json",
            &json!({"id": "a", "tool_ids_inventory": ["h", "workflow:w"]}).to_string(),
        );
    };
    let added = until(&watch, &tools, change, |now| now.get("h").is_some());
    assert_eq!(added.warnings().len(), 1, "the workflow is still broken");

    let change = || drop(files.write("tools/h.tool.json", "{"));
    let kept = until(&watch, &tools, change, |now| now.warnings().len() == 2);
    assert_eq!(description(&kept, "h").as_deref(), Some("Asks."));

    let change = || {
        fs::remove_file(files.root().join("tools/h.tool.json")).unwrap();
        fs::remove_file(files.root().join("workflows/w.json")).unwrap();
    };
    let gone = until(&watch, &tools, change, Snapshot::is_empty);
    let change = kept.change_to(&gone);
    assert_eq!(change.removed.iter().map(ToString::to_string).collect::<Vec<_>>(), ["h", "workflow:w"]);
    assert!(gone.warnings().is_empty());
}

#[test]
fn a_profile_that_breaks_and_two_tools_of_one_name_change_nothing() {
    let files = Files::new(&json!(["workflow:w"]));
    let watch = files.open().watch().unwrap();
    let tools = watch.tools_of("a").unwrap();
    let change = || drop(files.write("agents/a.json", "{\"id\": 7}"));
    let broken = until(&watch, &tools, change, |now| !now.warnings().is_empty());
    assert!(broken.get("workflow:w").is_some());
    assert!(
        broken.warnings()[0].starts_with("the tools stay as they were: agents/a.json"),
        "{:?}",
        broken.warnings()
    );

    let change = || {
        files.write("agents/a.json", &json!({"id": "a", "tool_ids_inventory": []}).to_string());
        files.write("tools/one.tool.json", &http_tool("h", "One."));
        files.write("tools/two.tool.json", &http_tool("h", "Two."));
    };
    let twice = until(&watch, &tools, change, |now| {
        now.warnings().iter().any(|text| text.contains('h') && text.contains("one.tool.json"))
    });
    assert!(twice.get("workflow:w").is_some());
    let change = || fs::remove_file(files.root().join("tools/two.tool.json")).unwrap();
    let mended = until(&watch, &tools, change, |now| now.warnings().is_empty());
    assert!(mended.is_empty(), "the profile lists none now");
    assert!(watch.project().tool("h").is_ok());
}

/// A tool that writes a file and answers when it has been read.
struct Writes {
    files: Arc<Files>,
    watch: Arc<ProjectWatch>,
    tools: Arc<LiveTools>,
}

#[async_trait::async_trait]
impl ToolHandler for Writes {
    async fn call(&self, _: Map<String, Value>, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        let change = || {
            let listed = json!(["workflow:w", "workflow:new"]);
            self.files.write("workflows/new.json", &workflow("New."));
            self.files.write("agents/a.json", &json!({"id": "a", "tool_ids_inventory": listed}).to_string());
        };
        until(&self.watch, &self.tools, change, |now| now.get("workflow:new").is_some());
        Ok(ToolOutput::Text("written".into()))
    }
}

/// The tools of files, and one more.
#[derive(Debug)]
struct AndOne(Arc<LiveTools>, Tool);

impl ToolSource for AndOne {
    fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.0.snapshot().tools().cloned().chain([self.1.clone()])).unwrap()
    }
}

#[tokio::test]
async fn a_run_is_told_of_a_tool_that_comes_and_may_call_it() {
    let files = Arc::new(Files::new(&json!(["workflow:w"])));
    let lines = [
        json!({"text": "<ACTION><write/></ACTION>", "request": {"lacks": ["workflow__new"]}}),
        json!({"text": "<ACTION><workflow:new/></ACTION>", "request": {"contains": ["workflow__new"]}}),
        json!({"text": "Done."}),
    ];
    files.write("script.jsonl", &lines.map(|line| line.to_string()).join("\n"));
    let project = files.open();
    let watch = Arc::new(project.watch().unwrap());
    let tools = watch.tools_of("a").unwrap();
    let writes = Writes { files, watch, tools: Arc::clone(&tools) };
    let mut definition = ToolDefinition::new("write".parse().unwrap(), "Writes.", json!({"type": "object"}));
    definition.annotations.read_only = true;
    let write = Tool::new(definition, ToolKind::NATIVE, writes);
    let agent = project.agent("a").unwrap().with_source(Arc::new(AndOne(tools, write)));
    let run = agent.start(AgentState::default(), "Go.").unwrap();
    let mut events = run.subscribe(1_000);
    let (outcome, _) = run.outcome().await;
    assert_eq!(outcome.text, "Done.", "{outcome:?}");
    let events = weft_harness::events(&mut events);
    let changes = events.iter().filter_map(|event| match &event.body {
        EventBody::RegistryChanged { added, .. } => Some((event.place.turn, added.clone())),
        _ => None,
    });
    assert_eq!(changes.collect::<Vec<_>>(), [(Some(2), vec!["workflow:new".parse().unwrap()])]);
}

/// Lines of the log.
struct Lines(Mutex<Vec<String>>);

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.0.lock().unwrap().push(record.args().to_string());
    }

    fn flush(&self) {}
}

#[test]
fn a_file_that_cannot_be_read_is_told_without_any_agent() {
    static LINES: Lines = Lines(Mutex::new(Vec::new()));
    log::set_logger(&LINES).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    let files = Files::new(&json!([]));
    let watch = files.open().watch().unwrap();
    fs::write(files.root().join("tools"), "no folder").unwrap();
    assert_eq!(watch.reload_now().unwrap_err().code(), "unreadable_file");
    let lines = LINES.0.lock().unwrap();
    let is_it = |line: &String| line.starts_with("the project stays as it was") && line.contains("tools");
    assert!(lines.iter().any(is_it), "{lines:?}");
}
