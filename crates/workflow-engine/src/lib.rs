//! Plans workflows and runs them.
