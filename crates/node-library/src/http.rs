//! One HTTP request.

use agent_types::{ContextValues, NodeErrorKind};
use async_trait::async_trait;
use http_caller::{CallConfig, CallValues, Endpoint, HttpCaller, HttpError, Scope};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use workflow_engine::{Inputs, Node, NodeCatalog, NodeContext, NodeError, Outputs, Prepared, Problem};
use workflow_model::{DataFlowType, NodeDefinition, SlotDefinition};

use crate::define::{any, made, setting};

pub(crate) fn register(catalog: &mut NodeCatalog) {
    catalog.register(Http::new());
}

/// Fills an endpoint with values and sends it through the one client of the program.
struct Http(NodeDefinition);

impl Http {
    fn new() -> Self {
        let object = |description: &str| SlotDefinition::new(DataFlowType::Object, description);
        let definition = NodeDefinition::new(
            "core:Http",
            "Sends an HTTP request and gives its answer. A status from 400 fails the node. GET, HEAD and OPTIONS only read; other methods count as an effect, unless the node says `\"effect\": false`.",
        )
        .input("values", object("the values for the placeholders, by name"))
        .output("body", any("the body: JSON where it is JSON, else a text"))
        .output("status", SlotDefinition::new(DataFlowType::Integer, "the status"))
        .output("headers", object("the headers, names in small letters"))
        .config(
            "endpoint",
            setting(DataFlowType::Object, "`{url, method, headers, query_params, body, timeout_ms}` as in a tool file").required(),
        )
        .config("auth", setting(DataFlowType::Object, "credentials, as in a tool file"))
        .config("retry", setting(DataFlowType::Object, "`{max, backoff_ms}`, for methods that may be repeated"))
        .config("response", setting(DataFlowType::Object, "`{select, template, max_bytes}`, as in a tool file"))
        .effect();
        Self(definition)
    }
}

#[async_trait]
impl Node for Http {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    fn prepare(&self, config: &Map<String, Value>) -> Result<Prepared, Vec<Problem>> {
        endpoint(config).map(Prepared::new)
    }

    fn has_effect(&self, config: &Map<String, Value>) -> bool {
        // `prepare` reports settings that do not make a request.
        endpoint(config).map_or(true, |endpoint| !endpoint.is_read_only())
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let caller = ctx.required_service::<HttpCaller>()?;
        let context = ctx.service::<ContextValues>();
        let none = Map::new();
        let arguments = match inputs.get("values").map(|values| &**values) {
            Some(Value::Object(values)) => values,
            None | Some(Value::Null) => &none,
            Some(other) => return Err(NodeError::fatal(format!("`values` must be an object, got {other}"))),
        };
        let values =
            CallValues { arguments, context: context.as_deref().map_or(&none, |context| &context.0) };
        let answer = caller.call(made::<Endpoint>(&ctx)?, values).await.map_err(|error| failure(&error))?;
        for message in answer.warnings {
            ctx.progress(message, None, None);
        }
        Ok(Outputs::named("body", answer.body)
            .with("status", answer.status)
            .with("headers", Value::Object(answer.headers)))
    }
}

/// The request that the settings describe.
fn endpoint(config: &Map<String, Value>) -> Result<Endpoint, Vec<Problem>> {
    let endpoint = part(config, "endpoint")?;
    let endpoint = endpoint.ok_or_else(|| vec![Problem::setting("endpoint", "this setting is required")])?;
    let call = CallConfig {
        endpoint,
        auth: part(config, "auth")?,
        retry: part(config, "retry")?,
        response: part(config, "response")?.unwrap_or_default(),
    };
    Endpoint::new(&call, &Scope::open()).map_err(|error| {
        let fault = |problem: &Problem| {
            let key = problem.value_path().split('.').next().unwrap_or("endpoint");
            let message = format!("{}: {}", problem.place, problem.message);
            Problem::setting(key, message).suggest(problem.suggest.as_deref())
        };
        error.problems.iter().map(fault).collect::<Vec<_>>()
    })
}

/// A part of the settings in its own form.
fn part<T: DeserializeOwned>(config: &Map<String, Value>, key: &str) -> Result<Option<T>, Vec<Problem>> {
    let value = config.get(key).filter(|value| !value.is_null()).cloned();
    value
        .map(serde_json::from_value)
        .transpose()
        .map_err(|error| vec![Problem::setting(key, error.to_string())])
}

fn failure(error: &HttpError) -> NodeError {
    let failure = if error.is_retryable() {
        NodeError::new(error.to_string())
    } else {
        NodeError::fatal(error.to_string())
    };
    let failure = failure.with_code(error.code());
    match error {
        HttpError::Timeout { .. } => failure.with_kind(NodeErrorKind::Timeout),
        _ => failure,
    }
}
