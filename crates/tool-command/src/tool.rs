//! The tool of a file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_types::{Annotations, Problem, ToolDefinition, ToolId};
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tool_registry::files::is_safe_id;
use tool_registry::{
    Tool, ToolContext, ToolError, ToolErrorKind, ToolHandler, ToolKind, ToolOutput, ToolSettings,
};
use tool_schema::{OfferedParameters, no_parameters};

use crate::argument::{Argument, Names, filled};
use crate::covered::CoveredFiles;
use crate::environment::{Environment, Filled};
use crate::error::CommandToolError;
use crate::file::{CommandToolFile, OutputFormat};
use crate::policy::CommandPolicy;
use crate::run::{CommandEnd, CommandFault, CommandRun, find_program};

/// Kind of command tools.
pub const COMMAND: ToolKind = ToolKind::foreign("command");

/// Namespace of their ids.
pub(crate) const NAMESPACE: &str = "command";

/// Time limit where the file has none.
const TIMEOUT_MS: u64 = 30_000;

/// Limit of the output where the file has none, in KiB.
const MAX_OUTPUT_KIB: u32 = 256;

/// Bytes of the error output that are shown, before they are cut to what a model reads.
const MAX_ERRORS: usize = 4 * 1024;

/// Forms of a secret are at most so many times as long as it is.
const FORM: usize = 6;

/// Standard input of a program.
#[derive(Debug, Clone)]
enum Stdin {
    Json,
    None,
    Value(String),
}

impl Stdin {
    fn parse(file: &CommandToolFile, is_filled: bool, names: Names<'_>) -> Result<Self, Problem> {
        match file.stdin.as_deref() {
            Some("json") => Ok(Self::Json),
            None if !is_filled => Ok(Self::Json),
            Some("none") | None => Ok(Self::None),
            Some(text) => match Argument::parse(text, names, "stdin")? {
                Argument::Filled { before, name, after } if before.is_empty() && after.is_empty() => {
                    Ok(Self::Value(name))
                }
                Argument::Filled { .. } | Argument::Literal(_) => Err(Problem::error(
                    "command_placeholder",
                    "it is `json`, `none` or one placeholder such as `{text}`",
                )
                .path("stdin")),
            },
        }
    }

    fn bytes(&self, arguments: &Map<String, Value>) -> Vec<u8> {
        match self {
            Self::Json => Value::Object(arguments.clone()).to_string().into_bytes(),
            Self::None => Vec::new(),
            Self::Value(name) => match arguments.get(name) {
                None | Some(Value::Null) => Vec::new(),
                Some(Value::String(text)) => text.clone().into_bytes(),
                Some(other) => other.to_string().into_bytes(),
            },
        }
    }
}

/// The tool of a file. A call is an effect that needs approval, unless the file is `read_only`.
///
/// # Errors
/// Whatever keeps it from being called: everything is checked here, not at the call.
pub fn command_tool(file: &CommandToolFile, policy: &CommandPolicy) -> Result<Tool, CommandToolError> {
    let id: ToolId = format!("{NAMESPACE}:{}", file.name).parse()?;
    let declared = file.parameters.clone().unwrap_or_else(no_parameters);
    let OfferedParameters { schema, defaults, .. } = OfferedParameters::new(declared.clone(), &[])?;
    let call = CommandCall::new(file, &declared, defaults, policy)?;
    let mut definition = ToolDefinition::new(id, file.description.as_str(), schema);
    definition.defaults.clone_from(&call.defaults);
    definition.annotations = Annotations {
        read_only: file.read_only,
        effect: !file.read_only,
        idempotent: file.read_only,
        open_world: true,
    };
    let timeout = Duration::from_millis(file.timeout_ms.unwrap_or(TIMEOUT_MS));
    let settings = ToolSettings::default().with_timeout(timeout);
    let parts = parts(file, &call.covered);
    Ok(Tool::new(definition, COMMAND, call).with_settings(settings).with_parts(parts).checked()?)
}

/// Part of the files that a call runs, by name.
pub(crate) const FILES: &str = "files";

/// Parts of what a call does: the keys of the file, and the digests of the files that it runs.
fn parts(file: &CommandToolFile, covered: &CoveredFiles) -> Vec<(String, Value)> {
    let shown = ["command", "stdin", "cwd", "env", "env_from", "read_only"];
    let all = json!(file);
    let mut parts: Vec<(String, Value)> =
        shown.iter().filter_map(|key| Some(((*key).to_owned(), all.get(key)?.clone()))).collect();
    if !covered.digests().is_empty() {
        parts.push((FILES.to_owned(), json!(covered.digests())));
    }
    parts
}

struct CommandCall {
    program: String,
    arguments: Vec<Argument>,
    covered: Arc<CoveredFiles>,
    stdin: Stdin,
    root: PathBuf,
    cwd: Option<String>,
    environment: Environment,
    defaults: Map<String, Value>,
    output: OutputFormat,
    max_output: usize,
}

impl CommandCall {
    fn new(
        file: &CommandToolFile,
        declared: &Value,
        defaults: Map<String, Value>,
        policy: &CommandPolicy,
    ) -> Result<Self, CommandToolError> {
        let mut problems = Vec::new();
        let Some(program) = file.command.first().filter(|program| !program.is_empty()).cloned() else {
            let problem = Problem::error("bad_command_file", "it names no program").path("command");
            return Err(CommandToolError::Invalid(vec![problem]));
        };
        if !policy.allows(&program) {
            return Err(CommandToolError::NotAllowed { program });
        }
        let names = Names(declared);
        let mut arguments = Vec::new();
        for (at, text) in file.command.iter().enumerate().skip(1) {
            match Argument::parse(text, names, &format!("command.{at}")) {
                Ok(argument) => arguments.push(argument),
                Err(problem) => problems.push(problem),
            }
        }
        let is_filled = arguments.iter().any(Argument::is_filled);
        let stdin = Stdin::parse(file, is_filled, names).unwrap_or_else(|problem| {
            problems.push(problem);
            Stdin::None
        });
        if let Some(cwd) = file.cwd.as_deref().filter(|cwd| !is_safe_id(cwd)) {
            let message = format!("`{cwd}` is not a folder inside the project");
            problems.push(Problem::error("command_folder", message).path("cwd"));
        }
        let environment = Environment::new(file, &program, policy, &mut problems)?;
        if !problems.is_empty() {
            return Err(CommandToolError::Invalid(problems));
        }
        let max_output = usize::try_from(file.max_output_kib.unwrap_or(MAX_OUTPUT_KIB)).unwrap_or(usize::MAX);
        let (root, cwd) = (policy.root().to_owned(), file.cwd.clone());
        let (output, max_output) = (file.output, max_output.saturating_mul(1024));
        let folder = cwd.as_ref().map_or_else(|| root.clone(), |cwd| root.join(cwd));
        let covered = CoveredFiles::new(&root, &folder, &program, &arguments, file.read_only).into();
        Ok(Self { program, arguments, covered, stdin, root, cwd, environment, defaults, output, max_output })
    }

    /// The working folder, which a link cannot lead out of the project.
    fn folder(&self) -> Result<PathBuf, ToolError> {
        let Some(cwd) = &self.cwd else { return Ok(self.root.clone()) };
        let real = |path: PathBuf| path.canonicalize().ok();
        let (folder, root) = (real(self.root.join(cwd)), real(self.root.clone()));
        let inside = folder.filter(|folder| root.is_some_and(|root| folder.starts_with(root)));
        inside.filter(|folder| folder.is_dir()).ok_or_else(|| {
            let message = format!("`{cwd}` is not a folder inside the project");
            ToolError::new(ToolErrorKind::Refused, message).with_code("command_folder")
        })
    }

    fn fault(&self, fault: &CommandFault) -> ToolError {
        let (program, fact) = (&self.program, fault.to_string());
        let fact = fact.strip_prefix("the program").unwrap_or(&fact);
        let error =
            ToolError::new(ToolErrorKind::Failed, format!("`{program}`{fact}")).with_code(fault.code());
        match fault {
            CommandFault::Missing => {
                error.with_detail("install it, or write its path from the project's folder")
            }
            CommandFault::TooLong { .. } => error.with_detail("raise `max_output_kib`, or let it write less"),
            CommandFault::Io(_) => error,
        }
    }

    /// Checks the files that the call runs, on a thread that may wait for the disk.
    async fn check_files(&self) -> Result<(), ToolError> {
        let (covered, program) = (Arc::clone(&self.covered), self.program.clone());
        let checked = tokio::task::spawn_blocking(move || covered.check(&program)).await;
        checked.map_err(|error| {
            let failed = ToolError::failed("the files of the command cannot be read");
            failed.with_code("command_failed").with_detail(error.to_string())
        })?
    }

    fn answer(
        &self,
        ended: &CommandEnd,
        Filled { masks, longest, .. }: &Filled,
    ) -> Result<ToolOutput, ToolError> {
        let text = |bytes: &[u8]| masks.mask(&String::from_utf8_lossy(bytes)).into_owned();
        if !ended.status.success() {
            let errors = text(&ended.errors);
            // Where the beginning was cut off, the end of a secret may stand there, which no mask finds.
            let begin = if ended.errors_cut { errors.len().min(longest * FORM) } else { 0 };
            let errors = &errors[errors.ceil_char_boundary(begin)..];
            let said = if errors.trim().is_empty() { text(&ended.output) } else { errors.to_owned() };
            let (program, status) = (&self.program, ended.status);
            let message = format!("`{program}` failed ({status}): {}", tail(said.trim()));
            return Err(ToolError::failed(message).with_code("command_failed"));
        }
        let output = text(&ended.output);
        // Programs end their last line, and a value has none.
        let output =
            output.strip_suffix('\n').map_or(&*output, |output| output.trim_end_matches('\r')).to_owned();
        let value = || agent_types::read_json::<Value>(output.as_bytes());
        match self.output {
            OutputFormat::Text => Ok(ToolOutput::Text(output)),
            OutputFormat::Auto => Ok(match value() {
                Ok(value) if value.is_object() || value.is_array() => ToolOutput::Json(value),
                Ok(_) | Err(_) => ToolOutput::Text(output),
            }),
            OutputFormat::Json => value().map(ToolOutput::Json).map_err(|error| {
                let message = format!("`{}` wrote something else than JSON: {error}", self.program);
                ToolError::new(ToolErrorKind::Failed, message).with_code("command_bad_output")
            }),
        }
    }
}

/// The last of a text.
fn tail(text: &str) -> &str {
    const MOST: usize = 2000;
    &text[text.ceil_char_boundary(text.len().saturating_sub(MOST))..]
}

#[async_trait]
impl ToolHandler for CommandCall {
    async fn call(
        &self,
        mut arguments: Map<String, Value>,
        _: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        for (name, value) in &self.defaults {
            arguments.entry(name.as_str()).or_insert_with(|| value.clone());
        }
        let mut filled_environment = self.environment.filled()?;
        let program = find_program(&self.program, &self.root);
        let run = CommandRun {
            program: program.ok_or_else(|| self.fault(&CommandFault::Missing))?,
            arguments: filled(&self.arguments, &arguments)?,
            folder: self.folder()?,
            variables: std::mem::take(&mut filled_environment.variables),
            input: self.stdin.bytes(&arguments),
            max_output: self.max_output,
            max_errors: MAX_ERRORS + FORM * filled_environment.longest,
        };
        self.check_files().await?;
        let ended = run.run().await.map_err(|fault| self.fault(&fault))?;
        self.answer(&ended, &filled_environment)
    }
}
