//! Options of a run.

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

/// Effect of a node's failure on the other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFail {
    /// They are cancelled.
    #[default]
    Cancel,
    /// Nodes that do not depend on the failed one run to their end.
    FinishOthers,
}

/// Behaviour of a run in which only open questions are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnWaiting {
    /// It stays and continues when a question is answered.
    #[default]
    Stay,
    /// It ends with the status `waiting`.
    End,
}

/// Decision of a hook before a node starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// Start the node.
    Run,
    /// Skip the node.
    Skip,
}

/// Asked before each start with the path of the node.
pub type BeforeHook = Arc<dyn Fn(&str) -> Before + Send + Sync>;

/// Options of a run. The default: real time, no limits, no persisted events.
#[derive(Clone)]
pub struct RunOptions {
    /// Sink of the run's events.
    pub sink: Option<Arc<dyn EventSink>>,
    /// The run is part of another: its sink has `run.started` already and will have `run.finished`.
    pub nested: bool,
    /// The id of the workflow, for `run.started`.
    pub workflow: Option<String>,
    /// Clock of the run.
    pub clock: Arc<dyn Clock>,
    /// Services that nodes use.
    pub services: Services,
    /// Maximum number of nodes that run at once. A node that reads an open stream shares the permit of the writer.
    pub max_parallel: Option<usize>,
    /// Maximum number of nodes of a named group that run at once.
    pub groups: HashMap<String, usize>,
    /// Effect of a node's failure on the others.
    pub on_fail: OnFail,
    /// Behaviour when only open questions are left.
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
    /// Log of the run so far; the run resumes from it, with the same arguments.
    pub resume: Option<Box<ResumeLog>>,
    /// Number of events after which a checkpoint is persisted, at the end of a pass.
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
        let subscription = recorder.subscribe(capacity);
        (self.with_sink(recorder), subscription)
    }
}
