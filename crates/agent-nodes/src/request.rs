//! `agent:LlmApiRequest`: one request to a model that may call tools.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use agent_types::{BudgetKey, OBSERVATION_PREFIX, ObservationCode, Usage};
use async_trait::async_trait;
use futures::StreamExt;
use llm_provider::recorded::{digest_of, record_of_whole};
use llm_provider::{
    LlmError, LlmProvider, LlmRequest, Message, ModelParameters, ModelSource, StandardResponse,
};
use protocol_action::Parsed;
use serde_json::{Map, Value};
use tool_registry::{DynamicTools, Snapshot, Tool};
use tool_schema::{Catalogue, ToolSet};
use workflow_engine::{Inputs, Node, NodeContext, NodeError, Outputs, Prepared, Problem};
use workflow_model::{DataFlowType, NodeDefinition};

use crate::agent_env::AgentEnv;
use crate::chat::{self, Said};
use crate::define::{any, list, made, object, read, setting, text};
use crate::sink::NodeSink;
use agent_runtime::driver::ask::{
    Answer, AskContext, CutCost, NoAnswer, Question, TextReader, ask, estimated, finished, started,
};
use agent_runtime::driver::stop::{is_cut_safe, stop_at};
use agent_runtime::machine::{CALLS_PER_DECISION, CallIds};
use agent_runtime::prompt::constraint::GrammarConstraint;
use agent_runtime::prompt::injection_guard::UntrustedTexts;
use agent_runtime::prompt::text::{Protocol, direct, lang, specs, system_text};
use agent_runtime::resume::{RunLog, record_of_cost};
use agent_runtime::{AgentProfile, Language};
use agent_runtime::{DeliberationFault, ReplyStream, replayed};

/// The output that has the reply as it comes.
const TEXT: &str = "text";

/// Sends messages to a model, teaches it tools, and gives its reply, whole and as it comes.
pub(crate) struct LlmApiRequest(NodeDefinition);

/// The settings.
#[derive(Debug, Default)]
pub(crate) struct LlmRequestConfig {
    profile: Option<String>,
    prompt: Option<String>,
    parameters: ModelParameters,
    max_calls: usize,
    more: Option<DynamicTools>,
}

/// Settings of a node that asks a model.
pub(crate) fn with_settings(definition: NodeDefinition) -> NodeDefinition {
    definition
        .config("profileId", setting(DataFlowType::String, "entry of the model; absent means the default one"))
        .config("prompt", setting(DataFlowType::String, "message of the user behind the others, unless it is among them"))
        .config("parameters", setting(DataFlowType::Object, "settings of the request, such as `temperature`"))
        .config(
            "maxToolCalls",
            setting(DataFlowType::Integer, "calls that one reply may make; those beyond are refused")
                .with_default(CALLS_PER_DECISION),
        )
        .config(
            "dynamicTools",
            setting(
                DataFlowType::Object,
                "tools that this request offers more: {toolIds, descriptionTemplate?} with {toolName} and {toolDescription}",
            ),
        )
}

impl LlmRequestConfig {
    pub(crate) fn read(config: &Map<String, Value>, faults: &mut Vec<Problem>) -> Self {
        Self {
            profile: read(config, "profileId", faults),
            prompt: read(config, "prompt", faults),
            parameters: read(config, "parameters", faults).unwrap_or_default(),
            max_calls: read(config, "maxToolCalls", faults).unwrap_or(CALLS_PER_DECISION),
            more: dynamic_tools(config, faults),
        }
    }

    /// The tools of the request: those that are given and those that it offers more.
    pub(crate) fn tools(&self, env: &AgentEnv<'_>, given: Snapshot) -> Result<Offering, NodeError> {
        let Some(more) = &self.more else { return Ok(Offering { given, more: Snapshot::default() }) };
        let more = env.dynamic(more)?;
        let is_new = |tool: &&Tool| given.get(tool.id().as_str()).is_none();
        let more = Snapshot::new(more.tools().filter(is_new).cloned());
        Ok(Offering { more: more.map_err(|error| NodeError::fatal(error.to_string()))?, given })
    }

    /// Returns `true` when tools are offered in the provider's native form.
    pub(crate) fn is_native(&self, ctx: &NodeContext, env: &AgentEnv<'_>) -> Result<bool, NodeError> {
        // A deliberator returns text, and calls are read from it.
        Ok(model(ctx, self.profile.as_deref())?.info().native_tools && !env.in_turn)
    }
}

/// The model of an entry, or the default one.
pub(crate) fn model(ctx: &NodeContext, profile: Option<&str>) -> Result<Arc<dyn LlmProvider>, NodeError> {
    let found = ctx.required_service::<dyn ModelSource>()?.model(profile);
    found.map_err(|error| NodeError::fatal(format!("{error}; {}", error.help())).with_code("no_model"))
}

/// The tools that a request offers more; the placeholders of its template are checked.
fn dynamic_tools(config: &Map<String, Value>, faults: &mut Vec<Problem>) -> Option<DynamicTools> {
    let more: DynamicTools = read(config, "dynamicTools", faults)?;
    for unknown in more.unknown_placeholders() {
        let message = format!(
            "`descriptionTemplate`: `{{{unknown}}}` is not a placeholder; write {{toolName}} or {{toolDescription}}"
        );
        faults.push(Problem::setting("dynamicTools", message));
    }
    Some(more)
}

/// The tools of one request.
pub(crate) struct Offering {
    given: Snapshot,
    /// Those that only this request offers.
    more: Snapshot,
}

impl Offering {
    /// Tools that a prompt describes.
    pub(crate) fn taught(&self) -> Snapshot {
        self.given.clone()
    }

    fn all(&self) -> Result<Snapshot, NodeError> {
        let all = Snapshot::new(self.given.tools().chain(self.more.tools()).cloned());
        all.map_err(|error| NodeError::fatal(error.to_string()))
    }

    /// Adds the description of the tools before the messages, unless they contain it already. Returns the tools
    /// that are offered in the provider's native form.
    fn teach(
        &self,
        messages: &mut Vec<Said>,
        profile: &AgentProfile,
        native: bool,
    ) -> Result<Vec<agent_types::ToolSpec>, NodeError> {
        let all = self.all()?;
        if all.is_empty() {
            return Ok(Vec::new());
        }
        let lesson = |tools: &Snapshot, language, protocol| {
            let bare = AgentProfile {
                language: Some(language),
                skill_workflow_ids_inventory: profile.skill_workflow_ids_inventory.clone(),
                ..AgentProfile::default()
            };
            system_text(&bare, tools, protocol)
        };
        let contains = |text: &str| messages.iter().any(|said| said.message.text().contains(text));
        let own = profile.language.unwrap_or_default();
        let is_taught = |language: &Language| contains(&lesson(&self.given, *language, Protocol::Text));
        // The author of the prompt chose the language.
        let taught = [own, Language::En, Language::Zh].into_iter().find(is_taught);
        let taught = taught.filter(|_| !self.given.is_empty());
        if native && taught.is_none() {
            insert(messages, &lesson(&all, own, Protocol::Native));
            return Ok(specs(&all, own));
        }
        let text = match taught {
            None => lesson(&all, own, Protocol::Text),
            Some(_) if self.more.is_empty() => String::new(),
            Some(language) => {
                let catalogue = Catalogue::new(lang(language));
                let offered = direct(&self.more).filter_map(|tool| tool.offered().ok());
                offered.fold(catalogue, Catalogue::tool).render()
            }
        };
        if !text.is_empty() && !contains(&text) {
            insert(messages, &text);
        }
        Ok(Vec::new())
    }
}

/// Adds to the instructions that stand first, or puts some there.
fn insert(messages: &mut Vec<Said>, text: &str) {
    if text.is_empty() {
        return;
    }
    match messages.first_mut() {
        Some(Said { message: Message::System { text: own }, .. }) => own.extend(["\n\n", text]),
        Some(_) | None => messages.insert(0, Said::system(text.to_owned())),
    }
}

/// A reply, and what the reader made of it.
pub(crate) struct Replied {
    pub(crate) response: StandardResponse,
    pub(crate) parsed: Parsed,
    /// Offered tools.
    pub(crate) tools: Snapshot,
    /// The same for the reader.
    pub(crate) set: Arc<ToolSet>,
    /// Calls that it may make.
    pub(crate) max_calls: usize,
    /// Places of calls that were found to stand in foreign texts.
    pub(crate) echoes: HashSet<usize>,
    /// Foreign texts among the messages that look like calls.
    pub(crate) suspects: UntrustedTexts,
    /// Prefix of the ids of its calls.
    pub(crate) prefix: String,
    /// Form in which the tools were offered.
    pub(crate) protocol: Protocol,
    /// The last message says that a call was not read.
    pub(crate) was_unread: bool,
}

/// Returns `true` for results that are the observation of a call that was not read, and nothing else.
fn is_unread_note(results: &str) -> bool {
    let mut observations = results.lines().filter_map(|line| line.strip_prefix(OBSERVATION_PREFIX));
    let is_unread = |text: &str| text.trim_start().starts_with(ObservationCode::UnreadCall.beginning());
    observations.next().is_some_and(is_unread) && observations.next().is_none()
}

/// Members of a reply as a value: the tools were offered natively; the last observation reported an unread call.
pub(crate) const NATIVE: &str = "native";
pub(crate) const AFTER_UNREAD: &str = "afterUnread";

impl Replied {
    /// It as the value that other nodes read: the reply, what was offered, and what was noticed.
    fn value(&self) -> Value {
        let mut value = serde_json::to_value(&self.response).unwrap_or_default();
        value["role"] = "assistant".into();
        value["tools"] = self.tools.tools().map(|tool| tool.id().as_str()).collect();
        value["maxToolCalls"] = self.max_calls.into();
        value["callPrefix"] = self.prefix.as_str().into();
        for (name, holds) in [(NATIVE, self.protocol == Protocol::Native), (AFTER_UNREAD, self.was_unread)] {
            if holds {
                value[name] = true.into();
            }
        }
        let written = |at: &usize| {
            let span = self.parsed.calls[*at].span;
            let is_text = self.parsed.calls[*at].dialect != protocol_action::Dialect::Native;
            is_text
                && self
                    .response
                    .text
                    .get(span.start..span.end)
                    .is_some_and(|text| self.suspects.contains(text))
        };
        let echoes: Vec<usize> = (0..self.parsed.calls.len()).filter(written).collect();
        if !echoes.is_empty() {
            value["echoes"] = echoes.into();
        }
        value
    }
}

/// Asks the model. The reply goes to the stream output of that name while it comes.
pub(crate) async fn request(
    ctx: &NodeContext,
    env: &AgentEnv<'_>,
    llm: &LlmRequestConfig,
    mut messages: Vec<Said>,
    offering: &Offering,
) -> Result<Replied, NodeError> {
    let model = model(ctx, llm.profile.as_deref())?;
    let profile = env.profile();
    let specs = offering.teach(&mut messages, &profile, llm.is_native(ctx, env)?)?;
    if let Some(prompt) = llm.prompt.as_deref().filter(|prompt| !prompt.is_empty())
        && !messages.iter().any(|said| said.says(prompt) || said.message.text() == prompt)
    {
        messages.push(Said::user(prompt, Vec::new()));
    }
    let mut suspects = UntrustedTexts::default();
    // A call that was not read is the model's own.
    let foreign = messages.iter().filter_map(Said::foreign).filter(|text| !is_unread_note(text));
    foreign.for_each(|text| suspects.note(text));
    let protocol = if specs.is_empty() { Protocol::Text } else { Protocol::Native };
    let was_unread = messages.last().and_then(Said::foreign).is_some_and(is_unread_note);
    let tools = offering.all()?;
    let set = Arc::new(tools.tool_set().map_err(|error| NodeError::fatal(error.to_string()))?);
    let sent: Vec<Message> = messages.into_iter().map(|said| said.message).collect();
    let grammar = if specs.is_empty() {
        GrammarConstraint::new(model.info(), &tools)
    } else {
        GrammarConstraint::default()
    };
    let mut request = LlmRequest::new(sent)
        .with_tools(specs)
        .with_parameters(llm.parameters.clone())
        .with_constraint(grammar.constraint);
    request.stop_at = stop_at(protocol, &tools);
    let Answer { response, parsed, .. } = answer(ctx, env, &*model, request, &set).await?;
    let (prefix, max_calls, echoes) = (env.call_prefix(), llm.max_calls, HashSet::new());
    Ok(Replied { response, parsed, tools, set, max_calls, echoes, suspects, prefix, protocol, was_unread })
}

/// The answer of the log, or a new one.
pub(crate) async fn answer(
    ctx: &NodeContext,
    env: &AgentEnv<'_>,
    model: &dyn LlmProvider,
    request: LlmRequest,
    set: &Arc<ToolSet>,
) -> Result<Answer, NodeError> {
    answer_within(ctx, env, &log_of(ctx, env), (model, request), set).await
}

/// The log of a start of the node, from which its requests take their answers in order.
pub(crate) fn log_of(ctx: &NodeContext, env: &AgentEnv<'_>) -> RequestLog {
    let sink = NodeSink::new(ctx, env, None);
    RequestLog { log: sink.log(false, HashMap::new()), sink }
}

/// The log of the requests of one start.
pub(crate) struct RequestLog {
    sink: Arc<NodeSink>,
    log: Arc<RunLog>,
}

/// The next answer of the log, or a new one.
pub(crate) async fn answer_within(
    ctx: &NodeContext,
    env: &AgentEnv<'_>,
    RequestLog { sink, log }: &RequestLog,
    (model, request): (&dyn LlmProvider, LlmRequest),
    set: &Arc<ToolSet>,
) -> Result<Answer, NodeError> {
    let budget = env.budget();
    for key in [BudgetKey::Tokens, BudgetKey::CostMicros] {
        if let Some(spent) = budget.spent(key) {
            return Err(over(&spent));
        }
    }
    let trace = sink.trace(Arc::clone(log));
    let known = log.next_reply();
    let is_known = known.is_some();
    let beginning = started(&model.info().name, &request, digest_of(&request.messages));
    if ctx.sink().persister().is_some() {
        trace.emit_kept(beginning, || record_of_whole(&request));
    } else {
        trace.emit(beginning);
    }
    let asked = request.tokens() as u64;
    let protocol = if request.tools.is_empty() { Protocol::Text } else { Protocol::Native };
    let output = ctx.has_stream(TEXT).then_some(TextOutput(ctx));
    let reply = async {
        let stream: ReplyStream = if let Some((response, _)) = known {
            replayed(response)
        } else {
            log.resume();
            log.durable().await?;
            let stream = model.stream(request).await?;
            Box::pin(stream.map(|event| event.map_err(DeliberationFault::from)))
        };
        Ok(stream.inspect(|_| ctx.heartbeat()))
    };
    let prefix = env.call_prefix();
    let question = Question { tools: set, ids: CallIds { first: 1, prefix: &prefix } };
    let (clock, cancel) = (&**ctx.clock(), ctx.cancel_token());
    let count_broken = |written: u64| {
        let usage = estimated(asked, written, model.info());
        count(ctx, model, usage, is_known);
        usage
    };
    let room = AskContext {
        clock,
        cancel,
        winds_down: false,
        emits_pieces: !env.in_turn,
        count: &count_broken,
        cuts: is_cut_safe(model.info(), protocol, &budget).then_some(CutCost { asked, model: model.info() }),
        reader: output.as_ref().map(|output| output as &dyn TextReader),
    };
    let answer = ask(room, reply, &question, &trace).await.map_err(|none| failed(model, none))?;
    trace.emit_kept(finished(&answer), || record_of_cost(0));
    log.resume_with_news();
    count(ctx, model, answer.response.usage, is_known);
    if output.is_some() {
        ctx.mark(TEXT, answer.response.finish.as_str()).await?;
    }
    Ok(answer)
}

/// Stream output of a node, which has the text of the reply as it comes.
struct TextOutput<'n>(&'n NodeContext);

#[async_trait]
impl TextReader for TextOutput<'_> {
    async fn read(&self, piece: &str) {
        if !piece.is_empty() {
            // That there is such an output was looked at before.
            let _ = self.0.chunk(TEXT, piece).await;
        }
    }
}

/// Counts a reply, in the run and in the budget.
fn count(ctx: &NodeContext, model: &dyn LlmProvider, usage: Usage, is_known: bool) {
    ctx.add_usage(usage);
    if let Some(budget) = ctx.budget().filter(|_| !is_known) {
        budget.add(BudgetKey::CostMicros, model.info().cost_micros(usage));
    }
}

/// Failure of a node with an exhausted budget.
pub(crate) fn over(spent: &agent_types::BudgetExceeded) -> NodeError {
    NodeError::fatal(spent.to_string())
        .with_kind(agent_types::NodeErrorKind::BudgetExceeded)
        .with_code(spent.key.as_str())
}

fn failed(model: &dyn LlmProvider, none: NoAnswer) -> NodeError {
    match none {
        NoAnswer::Cancelled => NodeError::fatal("the run was cancelled").with_code("cancelled"),
        NoAnswer::Fault(DeliberationFault::Llm(error), _) => {
            let refused = matches!(error, LlmError::Authentication { .. });
            let code = if refused { "llm_authentication" } else { "llm_failed" };
            NodeError::new(model.info().describe(&error)).with_code(code)
        }
        NoAnswer::Fault(fault, _) => NodeError::new(fault.to_string()).with_code(fault.code()),
    }
}

/// The ids of a list of tools, each an id or a value with one.
pub(crate) fn ids_of(tools: &Value) -> Vec<String> {
    let items = tools.as_array().map(Vec::as_slice).unwrap_or_default();
    let id = |item: &Value| item.as_str().or_else(|| item.get("id")?.as_str()).map(str::to_owned);
    items.iter().filter_map(id).collect()
}

/// Tools that a node receives by an edge; otherwise all allowed ones, if they are declared.
pub(crate) fn given(env: &AgentEnv<'_>, inputs: &Inputs) -> Result<Snapshot, NodeError> {
    match inputs.get("tools") {
        Some(tools) => env.tools(Some(&ids_of(tools))),
        None if env.has_tools() => env.tools(None),
        None => Ok(Snapshot::default()),
    }
}

impl LlmApiRequest {
    pub(crate) fn new() -> Self {
        let definition = NodeDefinition::new(
            "agent:LlmApiRequest",
            "Sends messages to a language model, which may call tools, and gives its reply.",
        )
        .input(
            "messages",
            any("messages {role, content}, or a text; required without the setting `prompt`")
                .with_category("ChatHistory"),
        )
        .input(
            "tools",
            list("tools that the model may call; absent means those that the agent or the workflow allows")
                .optional(),
        )
        .output(
            "response",
            object("the reply: {text, reasoning?, tool_calls?, usage, finish}").with_category("LlmOutput"),
        )
        .output(
            TEXT,
            text("the text as it comes, as the model writes it, up to the end of its calls")
                .stream()
                .with_category("StreamChunk"),
        );
        Self(with_settings(definition))
    }
}

#[async_trait]
impl Node for LlmApiRequest {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    fn prepare(&self, config: &Map<String, Value>) -> Result<Prepared, Vec<Problem>> {
        let mut faults = Vec::new();
        let llm = LlmRequestConfig::read(config, &mut faults);
        if faults.is_empty() { Ok(Prepared::new(llm)) } else { Err(faults) }
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let llm: &LlmRequestConfig = made(&ctx)?;
        let env = AgentEnv::new(&ctx);
        let offering = llm.tools(&env, given(&env, &inputs)?)?;
        let messages = match inputs.get("messages") {
            None if llm.prompt.is_some() => Vec::new(),
            Some(_) | None => chat::read(inputs.required("messages")?)?,
        };
        let replied = request(&ctx, &env, llm, messages, &offering).await?;
        Ok(Outputs::value(replied.value()))
    }
}
