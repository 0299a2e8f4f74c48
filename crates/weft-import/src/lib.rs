//! Files of other systems become files of weft, with a report that accounts for every member.
//!
//! Every import has the same three steps: the text is read, its members are taken through a reader that marks them, and closing
//! the reader's ledger gives the [`Report`]. A member that no step took is reported as unsupported with its place; it cannot be
//! forgotten.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod error;
mod fields;
mod flows;
mod report;
mod tools;
mod workflow;

pub use error::ImportError;
pub use flows::{ImportedFlows, from_bu, is_bu_configuration};
pub use report::{Entry, LEFT_OUT, Report, What};
pub use tools::{
    ImportedTools, OpenApiOptions, RefusedOperation, from_bu_tools, from_comfytavern_tool, from_openapi,
    from_openapi_value, with_files_beside,
};
pub use workflow::{
    ImportNote, ImportedWorkflows, from_comfytavern, from_comfyui, from_modular, from_modular_value,
};

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<ImportError>();
    is_shared::<ImportedFlows>();
    is_shared::<ImportedTools>();
    is_shared::<ImportedWorkflows>();
    is_shared::<Report>();
};
