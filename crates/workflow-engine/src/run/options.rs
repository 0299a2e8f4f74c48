//! How a run is run.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_types::{
    Budget, Clock, EventSink, EventSubscription, Recorder, ResumeLog, RunId, Services, SystemClock,
};
use tokio_util::sync::CancellationToken;

use crate::cache::Cache;

/// Events after which a snapshot is worth its price.
const SNAPSHOT_EVENTS: usize = 4000;

/// What the failure of a node means for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFail {
    /// They are cancelled.
    #[default]
    Cancel,
    /// What does not hang on the failed node runs to its end.
    FinishOthers,
}

/// What a run does when nothing is left but questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnWaiting {
    /// It stays and goes on when somebody answers.
    #[default]
    Stay,
    /// It ends with the status `waiting`.
    End,
}

/// What a hook says before a node starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// Go on.
    Run,
    /// Skip the node.
    Skip,
}

/// Asked before each start with the path of the node.
pub type BeforeHook = Arc<dyn Fn(&str) -> Before + Send + Sync>;

/// How a run is run. The default: real time, no limits, no events kept.
#[derive(Clone)]
pub struct RunOptions {
    /// Where events go.
    pub sink: Option<Arc<dyn EventSink>>,
    /// The run is part of another: its sink has `run.started` already and will have `run.finished`.
    pub nested: bool,
    /// The id of the workflow, for `run.started`.
    pub workflow: Option<String>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// What nodes need from outside.
    pub services: Services,
    /// Nodes at work at once. One that reads a stream while it is written shares the place of the writer.
    pub max_parallel: Option<usize>,
    /// Nodes at work at once among those of a named group.
    pub groups: HashMap<String, usize>,
    /// What the failure of a node means for the others.
    pub on_fail: OnFail,
    /// What to do when nothing is left but questions.
    pub on_waiting: OnWaiting,
    /// Time for the whole run.
    pub deadline: Option<Duration>,
    /// Results that are wanted; none means all.
    pub want: Option<Vec<String>>,
    /// Starts of nodes at most, in all zones together.
    pub max_starts: Option<u64>,
    /// Limits shared with whatever starts this run.
    pub budget: Option<Budget>,
    /// Asked before each start.
    pub before: Option<BeforeHook>,
    /// Results of pure nodes, shared with other runs; none means a cache of this run's own.
    pub cache: Option<Arc<Cache>>,
    /// Cancels the run when it is cancelled.
    pub cancel: Option<CancellationToken>,
    /// What the run has done already; it goes on from there, with the same arguments.
    pub resume: Option<Box<ResumeLog>>,
    /// Events after which, at the end of a pass, the whole state is given to whoever keeps the events.
    pub snapshot_events: usize,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            sink: None,
            nested: false,
            workflow: None,
            clock: Arc::new(SystemClock),
            services: Services::new(),
            max_parallel: None,
            groups: HashMap::new(),
            on_fail: OnFail::default(),
            on_waiting: OnWaiting::default(),
            deadline: None,
            want: None,
            max_starts: None,
            budget: None,
            before: None,
            cache: None,
            cancel: None,
            resume: None,
            snapshot_events: SNAPSHOT_EVENTS,
        }
    }
}

impl fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunOptions")
            .field("max_parallel", &self.max_parallel)
            .field("groups", &self.groups)
            .field("on_fail", &self.on_fail)
            .field("on_waiting", &self.on_waiting)
            .field("deadline", &self.deadline)
            .field("want", &self.want)
            .field("max_starts", &self.max_starts)
            .finish_non_exhaustive()
    }
}

impl RunOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same options with services for the nodes.
    #[must_use]
    pub fn with_services(mut self, services: Services) -> Self {
        self.services = services;
        self
    }

    /// The same options with another source of time.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The same options with a place for events.
    #[must_use]
    pub fn with_sink(mut self, sink: Arc<dyn EventSink>) -> Self {
        self.sink = Some(sink);
        self
    }

    /// The same options with a recorder of their own, and a reader that holds `capacity` events at most.
    #[must_use]
    pub fn watched(self, capacity: usize) -> (Self, EventSubscription) {
        let recorder = Recorder::new(RunId::generate(), Arc::clone(&self.clock));
        let watcher = recorder.watch(capacity);
        (self.with_sink(recorder), watcher)
    }
}
