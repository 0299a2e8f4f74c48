//! `weft demo`: the example project, run once.

use llm_provider::{ModelConfig, ProviderKind};
use weft_project::Project;
use weft_runs::{AgentPlan, AgentRequest, RunEnv};

use super::{Context, agent};
use crate::arguments::{DemoArguments, Output};
use crate::demo_project;
use crate::failure::{Exit, Failure};

/// The word for a model in the process.
const LOCAL: &str = "local";

/// The model that it means.
const SMALL: &str = "smollm2";

pub(super) fn run(context: &Context, arguments: &DemoArguments) -> Result<Exit, Failure> {
    let folder = Folder::new()?;
    demo_project::write(&folder.0)?;
    let mut options = context.options(None);
    if let Some(model) = &arguments.model {
        options.environment = Some(if model == LOCAL {
            ModelConfig::new(ProviderKind::Local, SMALL)
        } else {
            let environment =
                options.environment.take().unwrap_or_else(|| ModelConfig::new(ProviderKind::OpenAi, ""));
            ModelConfig { model: model.clone(), ..environment }
        });
    }
    let model = options.environment.as_ref().map(|config| config.model.clone());
    let project = Project::open(&folder.0, &options)?;
    if context.output == Output::Text {
        if let Some(model) = model {
            note!("The model is {model}.");
        }
        note!("\nquestion:\n  {}\n", demo_project::question().trim().replace('\n', "\n  "));
    }
    let plan = AgentPlan::new("desk", demo_project::question());
    let request = AgentRequest { plan, surroundings: RunEnv::AgentOnly, ..AgentRequest::default() };
    let exit = agent::run_agent(context, &agent::fixed(project), request)?;
    if context.output == Output::Text {
        note!("\nTry it in a project of your own:");
        note!("  weft init my-desk");
        note!("  weft -C my-desk agent run desk \"What time is it?\"");
        note!("  weft -C my-desk workflow schema summarize_text");
        note!("  weft -C my-desk serve     and open the address: a page shows the project at work");
        note!(
            "With a model: set OPENAI_BASE_URL and OPENAI_MODEL (and OPENAI_API_KEY), and run the same commands."
        );
    }
    Ok(exit)
}

/// A folder that is removed at the end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let name = format!("weft-demo-{}", agent_types::RunId::generate());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).map_err(|error| {
            Failure::new(Exit::Failed, "unwritable", format!("{}: {error}", path.display()))
        })?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays behind is in the system's folder for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
