//! Services of nodes and tools, found by type.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

/// Values that requests and tools may use and the model can neither see nor set, among the services of nodes.
#[derive(Debug, Clone, Default)]
pub struct ContextValues(pub Arc<Map<String, Value>>);

/// Mark of runs that began when an input without a default had an empty value, among the services of nodes and tools:
/// workflows in them run with these values until they end.
#[derive(Debug, Clone, Copy)]
pub struct FormerInputs;

/// Services by type. A trait object is found under its trait.
///
/// ```
/// use std::sync::Arc;
/// use agent_types::Services;
///
/// trait Greeter: Send + Sync {
///     fn greet(&self) -> String;
/// }
/// struct Polite;
/// impl Greeter for Polite {
///     fn greet(&self) -> String { "good day".into() }
/// }
///
/// let services = Services::new().with::<dyn Greeter>(Arc::new(Polite));
/// assert_eq!(services.get::<dyn Greeter>().unwrap().greet(), "good day");
/// ```
#[derive(Default, Clone)]
pub struct Services(HashMap<TypeId, (&'static str, Arc<dyn Any + Send + Sync>)>);

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.values().map(|(name, _)| name)).finish()
    }
}

impl Services {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same services with one more, or with another of that type.
    #[must_use]
    pub fn with<T: ?Sized + Send + Sync + 'static>(mut self, service: Arc<T>) -> Self {
        self.0.insert(TypeId::of::<T>(), (std::any::type_name::<T>(), Arc::new(service)));
        self
    }

    /// The service of that type.
    #[must_use]
    pub fn get<T: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.get(&TypeId::of::<T>())?.1.downcast_ref::<Arc<T>>().cloned()
    }
}
