//! `weft trust`: a project of another user that may be used.

use std::path::Path;

use serde_json::json;

use super::Context;
use crate::arguments::Output;
use crate::failure::{Exit, Failure};
use crate::output;

pub(super) fn run(context: &Context, directory: Option<&Path>) -> Result<Exit, Failure> {
    let root = weft_project::trust(directory.unwrap_or(context.directory()))?;
    match context.output {
        Output::Text => note!("{} is trusted", root.display()),
        Output::Json | Output::Jsonl => output::json(&json!({"trusted": root}))?,
    }
    Ok(Exit::Ok)
}
