//! `weft workflow`: list, show, check, run, schema, export, graph.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use tool_workflow::{definition_of, parameters_of};
use weft_project::Project;
use weft_runs::{RunService, WorkflowRequest};
use workflow_engine::Plan;
use workflow_model::{Problem, ProblemCode, Severity, Workflow, World, analyze, check_as_tool, to_mermaid};

use super::agent::{fixed, mode_of};
use super::{Context, block_on};
use crate::arguments::{ExportFormat, Output, WorkflowCommand, WorkflowRunArguments};
use crate::failure::{Exit, Failure, shown};
use crate::{follow, inputs, outcome, output};

pub(super) fn run(context: &Context, command: WorkflowCommand) -> Result<Exit, Failure> {
    match command {
        WorkflowCommand::List => list(context),
        WorkflowCommand::Show { workflow } => show(context, &Chosen::find(context, &workflow, None)?),
        WorkflowCommand::Check { workflow, as_tool } => {
            report(context, &Chosen::find(context, &workflow, None)?, as_tool)
        }
        WorkflowCommand::Run(arguments) => start(context, &arguments),
        WorkflowCommand::Export { workflow, format } => {
            export(context, &Chosen::find(context, &workflow, None)?, format)
        }
        WorkflowCommand::Graph { workflow } => graph(context, &Chosen::find(context, &workflow, None)?),
        WorkflowCommand::Schema { workflow } => schema(context, &Chosen::find(context, &workflow, None)?),
    }
}

/// A workflow and the project that it is looked at in.
struct Chosen {
    project: Project,
    id: String,
    path: PathBuf,
    workflow: Arc<Workflow>,
}

impl Chosen {
    /// The workflow of an id, or of a path ending in `.json`.
    fn find(context: &Context, name: &str, script: Option<PathBuf>) -> Result<Self, Failure> {
        // Exactly so: an id may hold a point.
        let Some(_) = name.strip_suffix(".json") else {
            let project = context.project(script)?;
            let (path, workflow) = {
                let (file, workflow) = project.workflows().get(name)?;
                (file.path.clone(), workflow)
            };
            return Ok(Self { project, id: name.to_owned(), path, workflow });
        };
        let path = context.directory.as_ref().map_or_else(|| PathBuf::from(name), |base| base.join(name));
        let workflow = Arc::new(weft_project::read_workflow(&path)?);
        let project = match context.project(script.clone()) {
            Ok(project) => project,
            Err(failure) if failure.code == "no_project" => {
                let options = context.options(script);
                Project::around(path.parent().unwrap_or(Path::new(".")), &options)?
            }
            Err(failure) => return Err(failure),
        };
        let id = project.workflows().id_of(&path);
        Ok(Self { project, id, path, workflow })
    }

    fn in_world<T>(&self, look: impl FnOnce(&World<'_>) -> T) -> T {
        self.project.in_world(&self.id, &self.workflow, look)
    }
}

fn list(context: &Context) -> Result<Exit, Failure> {
    let project = context.project(None)?;
    let mut exit = Exit::Ok;
    let mut workflows = Vec::new();
    for file in project.workflows().files() {
        match project.workflows().get(&file.id) {
            Ok((_, workflow)) => workflows.push((file.id.clone(), workflow)),
            Err(error) => {
                Failure::of_project(&error).print(context.output);
                exit = Exit::Invalid;
            }
        }
    }
    let values = workflows.iter().map(|(id, workflow)| {
        json!({"id": id, "title": workflow.name, "description": workflow.description,
            "inputs": workflow.interface_inputs.keys().collect::<Vec<_>>(),
            "outputs": workflow.interface_outputs.keys().collect::<Vec<_>>()})
    });
    match context.output {
        Output::Json => output::json(&values.collect::<Vec<_>>())?,
        Output::Jsonl => values.into_iter().try_for_each(|value| output::json(&value))?,
        Output::Text => {
            for (id, workflow) in &workflows {
                output::line(&format!("{id}\t{}", workflow.description.as_deref().unwrap_or_default()))?;
            }
        }
    }
    Ok(exit)
}

fn show(context: &Context, chosen: &Chosen) -> Result<Exit, Failure> {
    let Chosen { id, workflow, .. } = chosen;
    if context.output != Output::Text {
        output::json(&json!({"id": id, "title": workflow.name, "description": workflow.description,
            "workflow": workflow.to_value()}))?;
        return Ok(Exit::Ok);
    }
    output::line(&format!("{id} ({})", shown(&chosen.path).display()))?;
    if let Some(description) = &workflow.description {
        output::line(description)?;
    }
    for (heading, slots) in [("takes:", &workflow.interface_inputs), ("gives:", &workflow.interface_outputs)]
    {
        output::line(heading)?;
        for (name, slot) in slots {
            let required = if slot.is_required() { ", required" } else { "" };
            let about = slot.description().map(|text| format!(": {text}")).unwrap_or_default();
            output::line(&format!("  {name} ({}{required}){about}", slot.data_flow_type))?;
        }
    }
    output::line(&format!("{} nodes, {} edges", workflow.nodes.len(), workflow.edges.len()))?;
    Ok(Exit::Ok)
}

/// All problems: those of the plan, and what a model would miss.
fn problems(chosen: &Chosen, as_tool: bool) -> Vec<Problem> {
    let mut problems =
        chosen.in_world(|world| Plan::check(&chosen.workflow, chosen.project.catalog(), world));
    if as_tool {
        problems.extend(check_as_tool(&chosen.workflow));
    }
    problems
}

fn report(context: &Context, chosen: &Chosen, as_tool: bool) -> Result<Exit, Failure> {
    let real = |path: &Path| path.canonicalize().ok();
    let passed = chosen.project.passed_over().find(|passed| real(&passed.at.path) == real(&chosen.path));
    if let Some(passed) = passed {
        note!("warning[{}]: {}, so that no tool is made of it", passed.code, passed.at.message);
        note!("  --> {}", shown(&passed.at.path).display());
        note!("help: {}", passed.help);
    }
    let problems = problems(chosen, as_tool);
    let ok = Problem::are_warnings(&problems);
    if context.output == Output::Text {
        problems.iter().for_each(|problem| print_problem(chosen, problem));
        if ok {
            output::line(&format!("{}: ok", chosen.id))?;
        }
    } else {
        output::json(&json!({"ok": ok, "problems": problems}))?;
    }
    Ok(if ok { Exit::Ok } else { Exit::Invalid })
}

/// Prints a problem on stderr, as an error or a warning.
fn print_problem(chosen: &Chosen, problem: &Problem) {
    output::problem(&format!("{}, ", shown(&chosen.path).display()), problem, fix(problem.code));
}

/// Fix of a problem that has no suggestion.
fn fix(code: &str) -> Option<&'static str> {
    let fixes = [
        (ProblemCode::Cycle, "put what repeats into a `core:LoopZone`, or take one of the edges out"),
        (ProblemCode::MissingInput, "lead an edge to it, or give it a value in `inputValues`"),
        (ProblemCode::MissingInitial, "give the key an `initial` value, or lead an edge to it"),
        (ProblemCode::DuplicateInput, "take one of the edges out"),
        (ProblemCode::NeverRuns, "lead both sides into one slot, or set `first: true` at the node"),
        (ProblemCode::DuplicateNode, "give one of them another id"),
        (ProblemCode::UnknownType, "see `weft node list`"),
        (ProblemCode::UnknownTool, "see `weft tool list`"),
        (ProblemCode::UnknownModel, "name an entry [models.<id>] of weft.toml, or write one"),
        (ProblemCode::UnknownWorkflow, "see `weft workflow list`"),
        (ProblemCode::UnknownAgent, "see `weft agent list`"),
        (ProblemCode::UnknownBase, "name an entry [kb.<name>] of weft.toml, or write one"),
        (ProblemCode::SelfReference, "repeat work with a `core:LoopZone`"),
        (ProblemCode::MissingDescription, "a model chooses a tool by what its description says"),
    ];
    fixes.into_iter().find(|(known, _)| known.as_str() == code).map(|(_, fix)| fix)
}

fn export(context: &Context, chosen: &Chosen, format: ExportFormat) -> Result<Exit, Failure> {
    match (format, context.output) {
        (ExportFormat::Json, Output::Text) => output::line(chosen.workflow.to_json().trim_end())?,
        (ExportFormat::Json, _) => output::json(&chosen.workflow.to_value())?,
        (ExportFormat::Mermaid, Output::Text) => output::line(to_mermaid(&chosen.workflow).trim_end())?,
        (ExportFormat::Mermaid, _) => output::json(&json!({"mermaid": to_mermaid(&chosen.workflow)}))?,
    }
    Ok(Exit::Ok)
}

/// Prints the nodes in the order of their execution, each with the nodes it waits for. Problems go to stderr, and the
/// rest is
/// printed all the same.
fn graph(context: &Context, chosen: &Chosen) -> Result<Exit, Failure> {
    let analysis = chosen.in_world(|world| analyze(&chosen.workflow, world));
    let steps = analysis.graph.outline();
    let depth = steps.iter().map(|step| step.depth).max().unwrap_or(0);
    match context.output {
        Output::Text => {
            analysis.problems.iter().for_each(|problem| print_problem(chosen, problem));
            for step in &steps {
                let needs = if step.needs.is_empty() {
                    String::new()
                } else {
                    format!(" <- {}", step.needs.join(", "))
                };
                output::line(&format!("{}\t{} ({}){needs}", step.depth, step.path, step.node_type))?;
            }
        }
        Output::Json => {
            let cycles: Vec<&Vec<String>> = analysis
                .problems
                .iter()
                .filter(|problem| problem.is(ProblemCode::Cycle))
                .map(|problem| &problem.place.nodes)
                .collect();
            output::json(
                &json!({"nodes": steps, "depth": depth, "cycles": cycles, "problems": analysis.problems}),
            )?;
        }
        Output::Jsonl => steps.iter().try_for_each(output::json)?,
    }
    // Types of other systems do not keep a graph from being drawn.
    let foreign = |problem: &Problem| problem.is(ProblemCode::UnknownType);
    let is_whole =
        analysis.problems.iter().all(|problem| problem.severity != Severity::Error || foreign(problem));
    Ok(if is_whole { Exit::Ok } else { Exit::Invalid })
}

fn schema(context: &Context, chosen: &Chosen) -> Result<Exit, Failure> {
    let definition = definition_of(&chosen.id, &chosen.workflow)
        .map_err(|error| Failure::new(Exit::Invalid, error.code(), error.to_string()))?;
    let schema = json!({"name": definition.id, "description": definition.description,
        "parameters": definition.parameters});
    match context.output {
        Output::Text => output::pretty(&schema)?,
        Output::Json | Output::Jsonl => output::json(&schema)?,
    }
    Ok(Exit::Ok)
}

fn start(context: &Context, arguments: &WorkflowRunArguments) -> Result<Exit, Failure> {
    let chosen = Chosen::find(context, &arguments.workflow, arguments.script.clone())?;
    let planned = chosen.in_world(|world| Plan::in_world(&chosen.workflow, chosen.project.catalog(), world));
    if let Err(error) = planned {
        return refuse(context, &chosen, &error.problems);
    }
    let request = WorkflowRequest {
        inputs: inputs::typed(&arguments.inputs, &parameters_of(&chosen.workflow))?,
        values: inputs::context(&arguments.values)?,
        approval: mode_of(arguments.approve),
        workflow: Some((*chosen.workflow).clone()),
        id: chosen.id,
    };
    let runs = fixed(chosen.project);
    let ended = block_on(async {
        let run = runs.begin(request.into()).await?;
        follow::to_the_end(context.output, &runs, run).await
    })??;
    outcome::print(context.output, &ended)
}

/// A workflow that cannot run: its problems in the form of a run.
fn refuse(context: &Context, chosen: &Chosen, problems: &[Problem]) -> Result<Exit, Failure> {
    if context.output == Output::Text {
        problems.iter().for_each(|problem| print_problem(chosen, problem));
        return Ok(Exit::Invalid);
    }
    let message = Problem::messages(problems);
    Failure::new(Exit::Invalid, "invalid", message.clone())
        .at(&chosen.path, None, None)
        .print(context.output);
    // Lines are the events of a run, and there was none.
    if context.output == Output::Json {
        output::json(
            &json!({"status": "invalid", "outputs": {}, "error": {"kind": "invalid", "message": message},
            "problems": problems}),
        )?;
    }
    Ok(Exit::Invalid)
}
