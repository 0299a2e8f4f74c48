//! State shared by a run and its nodes.

use std::fmt;
use std::sync::Arc;

use agent_types::{Budget, Clock, EventSink, Services};
use tokio_util::sync::CancellationToken;

use super::workers::mailbox::Inbox;
use crate::plan::data::PlanData;

/// State that the nodes of a run see through their contexts.
pub(crate) struct RunShared {
    pub(crate) plan: Arc<PlanData>,
    pub(crate) sink: Arc<dyn EventSink>,
    /// The id of the workflow, if the caller has set one.
    pub(crate) workflow: Option<Arc<str>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) services: Services,
    pub(crate) budget: Option<Budget>,
    pub(crate) cancel: CancellationToken,
    pub(crate) inbox: Inbox,
    /// Cancelled when the scheduler has stopped reading the inbox.
    pub(crate) over: CancellationToken,
}

impl fmt::Debug for RunShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunShared").field("run", self.sink.run()).finish_non_exhaustive()
    }
}
