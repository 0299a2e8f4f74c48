//! Reload of files that change while a project is in use.
//!
//! Files live in real time, independent of a run's clock: this is the only place of the crate that waits for it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use agent_runtime::AgentProfile;
use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::{Condvar, Mutex, RwLock};
use tool_registry::{BrokenTool, Fault, Snapshot, Tool, ToolSource};

use crate::agents::AgentFile;
use crate::error::ProjectError;
use crate::inventory::tool_of_agent;
use crate::project::Project;

/// Quiet period before a reload, so that files written together are read together.
const QUIET: Duration = Duration::from_millis(100);

/// They are read at least so often while changes do not end.
const LONGEST: Duration = Duration::from_secs(2);

/// Looks after the files of a project for as long as it lives: workflows, tools and agents.
///
/// The tools of its agents follow the files. What a turn of an agent saw stays as it was until the next turn. A file that is
/// broken keeps the tool that it had, and gives a warning.
#[derive(Debug)]
pub struct ProjectWatch {
    shared: Arc<Shared>,
    wake: SyncSender<()>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    project: RwLock<Arc<Project>>,
    live: Mutex<Vec<Weak<LiveTools>>>,
    stop: AtomicBool,
    /// Number of reloads.
    reloads: Mutex<u64>,
    reloaded: Condvar,
}

/// The tools of an agent, as the files of its project are now.
#[derive(Debug)]
pub struct LiveTools {
    agent: String,
    current: RwLock<Snapshot>,
}

impl ToolSource for LiveTools {
    fn snapshot(&self) -> Snapshot {
        self.current.read().clone()
    }
}

impl Project {
    /// Watches the files.
    ///
    /// # Errors
    /// The system does not report changes in this folder.
    pub fn watch(&self) -> Result<ProjectWatch, ProjectError> {
        let unwatchable =
            |message: String| ProjectError::Unwatchable { path: self.root().to_owned(), message };
        // One wake is as good as many: what changed is looked for in the files.
        let (wake, inbox) = sync_channel(1);
        let callback = wake.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| is_change(event.kind)) {
                let _ = callback.try_send(());
            }
        });
        let mut watcher = watcher.map_err(|error| unwatchable(error.to_string()))?;
        let root = watcher.watch(self.root(), RecursiveMode::NonRecursive);
        root.map_err(|error| unwatchable(error.to_string()))?;
        watch_folders(&mut watcher, self);
        let shared = Arc::new(Shared {
            project: RwLock::new(Arc::new(self.clone())),
            live: Mutex::default(),
            stop: AtomicBool::new(false),
            reloads: Mutex::new(0),
            reloaded: Condvar::new(),
        });
        let desk = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("weft-watch".to_owned())
            .spawn(move || work(&desk, &inbox, watcher))
            .map_err(|error| unwatchable(error.to_string()))?;
        Ok(ProjectWatch { shared, wake, thread: Some(thread) })
    }
}

impl ProjectWatch {
    /// The project as its files are now; the last one that could be read.
    #[must_use]
    pub fn project(&self) -> Arc<Project> {
        self.shared.project()
    }

    /// The tools of an agent, which follow the files.
    ///
    /// # Errors
    /// Those of [`Project::tools_of`].
    pub fn tools_of(&self, agent: &str) -> Result<Arc<LiveTools>, ProjectError> {
        let project = self.project();
        let current = RwLock::new(project.tools_of(project.agent_file(agent)?)?);
        let tools = Arc::new(LiveTools { agent: agent.to_owned(), current });
        let mut live = self.shared.live.lock();
        live.retain(|other| other.strong_count() > 0);
        live.push(Arc::downgrade(&tools));
        Ok(tools)
    }

    /// Reloads the files now, without waiting for a notification.
    ///
    /// # Errors
    /// A file cannot be read: the project stays as it was.
    pub fn reload_now(&self) -> Result<(), ProjectError> {
        self.shared.reload()
    }

    /// Returns the number of reloads.
    #[must_use]
    pub fn reloads(&self) -> u64 {
        *self.shared.reloads.lock()
    }

    /// Blocks until the files have been read more often than `seen`; gives how often.
    #[must_use]
    pub fn wait_past(&self, seen: u64) -> u64 {
        let mut reloads = self.shared.reloads.lock();
        self.shared.reloaded.wait_while(&mut reloads, |reloads| *reloads <= seen);
        *reloads
    }
}

impl Drop for ProjectWatch {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // A full channel wakes the thread as well.
        let _ = self.wake.try_send(());
        // A panic of the thread has been reported by it.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Returns `true` if an event may mean a changed file. Reading files emits events too, and must not cause a reload.
pub(crate) fn is_change(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

/// Looks after the folders that there are; a folder that is watched already is watched once.
fn watch_folders(watcher: &mut RecommendedWatcher, project: &Project) {
    // Files in the project's folder itself are seen with it.
    for folder in project.watched().iter().filter(|folder| folder.is_dir()) {
        // One that goes away meanwhile is no loss.
        let _ = watcher.watch(folder, RecursiveMode::Recursive);
    }
}

/// The thread: waits for a change and for the end of changes, then reads the files.
fn work(shared: &Shared, inbox: &Receiver<()>, mut watcher: RecommendedWatcher) {
    while inbox.recv().is_ok() {
        let began = Instant::now();
        while !shared.stops() && began.elapsed() < LONGEST {
            match inbox.recv_timeout(QUIET) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        if shared.stops() {
            return;
        }
        watch_folders(&mut watcher, &shared.project());
        // What keeps the files from being read is logged; the next change may mend it.
        let _ = shared.reload();
    }
}

impl Shared {
    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn project(&self) -> Arc<Project> {
        Arc::clone(&self.project.read())
    }

    fn reload(&self) -> Result<(), ProjectError> {
        let reloaded = self.project().reloaded().map(Arc::new);
        match &reloaded {
            Ok(project) => {
                *self.project.write() = Arc::clone(project);
            }
            Err(error) => {
                log::warn!("the project stays as it was: {}", located(error, self.project().root()));
            }
        }
        let live: Vec<_> = self.live.lock().clone();
        for tools in live.iter().filter_map(Weak::upgrade) {
            let current = tools.snapshot();
            let next = match &reloaded {
                Ok(project) => next_tools(project, &tools.agent, &current),
                Err(error) => stays(&current, error, self.project().root()),
            };
            *tools.current.write() = next;
        }
        *self.reloads.lock() += 1;
        self.reloaded.notify_all();
        reloaded.map(drop)
    }
}

fn stays(current: &Snapshot, error: &ProjectError, root: &Path) -> Snapshot {
    current.clone().with_warnings(vec![format!("the tools stay as they were: {}", located(error, root))])
}

/// The tools of an agent from files that changed: what is broken stays as it was, what is gone goes.
fn next_tools(project: &Project, agent: &str, current: &Snapshot) -> Snapshot {
    let file = match project.agent_file(agent) {
        Ok(file) => file,
        Err(error) => return stays(current, &error, project.root()),
    };
    let profile = &file.profile;
    let mut next = Next { project, file, current, listed: Vec::new(), warnings: Vec::new() };
    next.list(profile);
    let added = next.added_by_flows(profile);
    let tools = next.of_inventories(&added);
    let chosen = Snapshot::new(tools).map(|tools| profile.selection().from(&tools).tools);
    let all = chosen.and_then(|chosen| Snapshot::new(chosen.tools().cloned().chain(added)));
    match all {
        Ok(all) => all.with_warnings(next.warnings),
        Err(error) => stays(current, &error.into(), project.root()),
    }
}

/// The next tools of an agent while they are looked for.
struct Next<'p> {
    project: &'p Project,
    file: &'p AgentFile,
    current: &'p Snapshot,
    listed: Vec<String>,
    warnings: Vec<String>,
}

impl Next<'_> {
    fn warn(&mut self, what: &str, error: &ProjectError) {
        self.warnings.push(format!("{what}: {}", located(error, self.project.root())));
    }

    /// The ids of the inventories; where a server cannot be reached, those of its tools that there were.
    fn list(&mut self, profile: &AgentProfile) {
        for entry in profile.tool_ids() {
            for expanded in self.project.providers().expand(&entry) {
                match expanded {
                    Ok(id) => self.listed.push(id),
                    Err(broken) => self.keep(&entry, broken),
                }
            }
        }
    }

    /// Reports a fault of an entry; tools of a server that cannot be reached stay.
    fn keep(&mut self, entry: &str, broken: BrokenTool) {
        let is_away = broken.fault == Fault::Unreachable;
        let what = if is_away { format!("`{entry}` stays as it was") } else { format!("`{entry}`") };
        self.warn(&what, &broken.into());
        if is_away {
            let beginning = entry.trim_end_matches('*');
            let ids = self.current.tools().map(|tool| tool.id().to_string());
            self.listed.extend(ids.filter(|id| id.starts_with(beginning)));
        }
    }

    /// Tools that `flows.json` adds; where it cannot be read, those that it added before.
    fn added_by_flows(&mut self, profile: &AgentProfile) -> Vec<Tool> {
        match self.project.offered_by_flows(profile) {
            Ok(added) => added,
            Err(error) => {
                self.warn("the tools of flows.json stay as they were", &error);
                let others = self
                    .current
                    .tools()
                    .filter(|tool| !self.listed.iter().any(|id| tool.id().as_str() == id));
                others.cloned().collect()
            }
        }
    }

    fn of_inventories(&mut self, added: &[Tool]) -> Vec<Tool> {
        let providers = self.project.providers();
        let mut tools: Vec<Tool> = Vec::new();
        for id in self.listed.clone() {
            if added.iter().chain(&tools).any(|tool| tool.id().as_str() == id) {
                continue;
            }
            let old = self.current.get(&id);
            // A tool that does not change stays: a knowledge base is costly to make.
            let kept = old.filter(|_| providers.is_constant(&id));
            match (kept.cloned().map_or_else(|| tool_of_agent(self.project, &id, self.file), Ok), old) {
                (Ok(tool), _) => tools.push(tool),
                (Err(ProjectError::UnknownToolId { .. } | ProjectError::UnknownTool { .. }), _) => {}
                (Err(error), Some(old)) => {
                    self.warn(&format!("`{id}` stays as it was"), &error);
                    tools.push(old.clone());
                }
                (Err(error), None) => self.warn(&format!("`{id}` is not offered"), &error),
            }
        }
        tools
    }
}

/// An error with its place below the project's folder, in one line.
fn located(error: &ProjectError, root: &Path) -> String {
    let Some((path, line, column)) = error.place() else { return error.to_string() };
    let path = path.strip_prefix(root).unwrap_or(path).display();
    match (line, column) {
        (Some(line), Some(column)) => format!("{path}:{line}:{column}: {error}"),
        _ => format!("{path}: {error}"),
    }
}
