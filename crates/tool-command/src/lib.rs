//! Programs as tools.
//!
//! A `*.command.json` file states what the model sees and which program runs; [`command_tool`] checks all of it when the tool
//! is made, and a [`CommandPolicy`] says which programs may run. [`CommandRun`] runs one program with its limits.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod argument;
mod covered;
mod environment;
mod error;
mod file;
mod policy;
mod provider;
mod run;
mod tool;

pub use error::CommandToolError;
pub use file::{CommandToolFile, OutputFormat};
pub use policy::{CommandPolicy, CommandSettings};
pub use provider::{CommandFormat, CommandTools};
pub use run::{CommandEnd, CommandFault, CommandRun, find_program};
pub use tool::{COMMAND, command_tool};

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<CommandPolicy>();
    is_shared::<CommandToolError>();
    is_shared::<CommandToolFile>();
};
