//! `weft init`: a project to start from.

use std::path::Path;

use serde_json::json;

use super::Context;
use crate::arguments::Output;
use crate::demo_project;
use crate::failure::{Exit, Failure};
use crate::output;

pub(super) fn run(context: &Context, directory: &Path) -> Result<Exit, Failure> {
    let directory =
        context.directory.as_ref().map_or_else(|| directory.to_owned(), |base| base.join(directory));
    demo_project::write(&directory)?;
    if context.output != Output::Text {
        let files: Vec<&str> = demo_project::FILES.iter().map(|(path, _)| *path).collect();
        output::json(&json!({"directory": directory, "files": files}))?;
        return Ok(Exit::Ok);
    }
    for (path, _) in demo_project::FILES {
        output::line(&directory.join(path).display().to_string())?;
    }
    let here = directory == Path::new(".");
    let option = if here { String::new() } else { format!(" -C {}", directory.display()) };
    note!("\nNext:");
    note!("  weft{option} agent run desk \"What time is it?\"");
    note!("  weft{option} serve     and open the address: a page shows the project at work");
    note!("  weft{option} workflow run summarize_text -i text_to_summarize=@FILE");
    note!(
        "Replies are played from script.jsonl until a model is set: in weft.toml, or by OPENAI_BASE_URL and OPENAI_MODEL."
    );
    Ok(Exit::Ok)
}
