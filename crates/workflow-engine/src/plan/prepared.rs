//! Values that nodes make of their settings.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Value that a node makes of its settings at planning time; [`NodeContext::prepared`](crate::NodeContext::prepared)
/// returns it.
#[derive(Clone, Default)]
pub struct Prepared(Option<Arc<dyn Any + Send + Sync>>);

impl Prepared {
    /// Nothing.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// A value, shared by all starts of the node.
    #[must_use]
    pub fn new<T: Send + Sync + 'static>(value: T) -> Self {
        Self(Some(Arc::new(value)))
    }

    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn get<T: 'static>(&self) -> Option<&T> {
        self.0.as_deref()?.downcast_ref()
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Prepared(..)" } else { "Prepared" })
    }
}
