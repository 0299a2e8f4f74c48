//! Messages for the model: instructions, the window of the conversation, the injection guard.

pub mod constraint;
pub mod injection_guard;
pub mod messages;
pub mod text;
pub mod window;
