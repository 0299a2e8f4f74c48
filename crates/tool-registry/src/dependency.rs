//! Services that tools need, found by type.

use std::any::type_name;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use agent_types::Services;

/// Something that a tool needs, from the context of its call. The model does not see it, and a test gives another one.
///
/// ```
/// use std::sync::Arc;
/// use tool_registry::{Dep, Services, tool};
///
/// struct Greeting(String);
///
/// /// Greets a user.
/// #[tool]
/// fn greet(name: String, greeting: Dep<Greeting>) -> String {
///     format!("{}, {name}", greeting.0)
/// }
///
/// assert_eq!(greet("Ann".into(), Dep::new(Greeting("Hello".into()))), "Hello, Ann");
/// let services = Services::new().with(Arc::new(Greeting("Hello".into())));
/// assert!(tool!(greet)?.missing(&services).is_empty());
/// # Ok::<(), tool_registry::RegistryError>(())
/// ```
pub struct Dep<T: ?Sized>(Arc<T>);

impl<T> Dep<T> {
    /// A dependency of a value, for calling the function itself.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T: ?Sized> From<Arc<T>> for Dep<T> {
    fn from(shared: Arc<T>) -> Self {
        Self(shared)
    }
}

impl<T: ?Sized> Deref for Dep<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> Clone for Dep<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> fmt::Debug for Dep<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dep<{}>", type_name::<T>())
    }
}

/// The type of something that a tool needs.
#[derive(Debug, Clone, Copy)]
pub struct Requirement {
    name: fn() -> &'static str,
    is_met: fn(&Services) -> bool,
}

impl Requirement {
    /// Something of this type.
    #[must_use]
    pub fn new<T: ?Sized + Send + Sync + 'static>() -> Self {
        Self { name: type_name::<T>, is_met: |services| services.get::<T>().is_some() }
    }

    /// Name of the type, for messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        (self.name)()
    }

    /// Returns `true` if the service is present.
    #[must_use]
    pub fn is_met(&self, services: &Services) -> bool {
        (self.is_met)(services)
    }
}
