//! What the fuzz targets share: schemas of many shapes, and values made by them.
//!
//! ```text
//! cargo xtask fuzz [decoder|round_trip|coercion|provider|mcp_message|workflow_file|flows_file] [RUNS]
//! ```

mod schemas;
mod values;

pub use schemas::{SCHEMAS, tools};
pub use values::{any_json, same, value_of};
