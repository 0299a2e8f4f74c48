//! The requests of a client.
#![expect(deprecated, reason = "clients of today still know logging and subscriptions of that form")]

use std::collections::BTreeSet;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CompletionInfo,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams, Prompt,
    PromptMessage, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Reference, Resource,
    ResourceUpdatedNotificationParam, Role, ServerCapabilities, ServerConfig, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tool_registry::ToolError;
use tool_schema::{SchemaDialect, render};

use super::{McpServer, PromptInfo, ResourceInfo, ResourceTemplate, Speaker, call};
use crate::content;

fn refused(error: ToolError) -> ErrorData {
    ErrorData::internal_error(error.message_for_model, None)
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities =
            ServerCapabilities::builder().enable_tools().enable_logging().enable_completions().build();
        let changes = Some(self.shared.changes.is_some());
        if let Some(tools) = &mut capabilities.tools {
            tools.list_changed = changes;
        }
        if self.shared.prompts.is_some() {
            capabilities.prompts = Some(rmcp::model::PromptsCapability::default());
        }
        if let Some(prompts) = &mut capabilities.prompts {
            prompts.list_changed = changes;
        }
        if self.shared.resources.is_some() {
            capabilities.resources = Some(rmcp::model::ResourcesCapability::default());
        }
        if let Some(resources) = &mut capabilities.resources {
            (resources.list_changed, resources.subscribe) = (changes, Some(true));
        }
        let info = ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("weft", env!("CARGO_PKG_VERSION")));
        match &self.shared.instructions {
            Some(text) => info.with_instructions(text.as_str()),
            None => info,
        }
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.shared.tools.snapshot();
        let forms = tools.tools().map(|tool| render(tool.definition(), SchemaDialect::Mcp));
        // A tool that the protocol cannot describe is not offered.
        let tools = forms.filter_map(|form| {
            let read = serde_json::from_value(form);
            read.inspect_err(|error| log::warn!("a tool is not offered over MCP: {error}")).ok()
        });
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        call::call(self, request, context).await.map(CallToolResponse::from)
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = self.shared.prompts.as_ref().map(|source| source.prompts()).unwrap_or_default();
        Ok(ListPromptsResult::with_all_items(prompts.into_iter().map(prompt_of).collect()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let name = request.name;
        let none = || ErrorData::invalid_params(format!("Unknown prompt: {name}"), None);
        let source = self.shared.prompts.as_ref().ok_or_else(none)?;
        let about = source.prompts().into_iter().find(|prompt| prompt.name == name).ok_or_else(none)?;
        let arguments = request.arguments.unwrap_or_default();
        let is_missing = |name: &str| !arguments.contains_key(name);
        if let Some(missing) = about.arguments.iter().find(|own| own.required && is_missing(&own.name)) {
            let message = format!("Missing argument: {}", missing.name);
            return Err(ErrorData::invalid_params(message, None));
        }
        let messages = source.prompt(&name, &arguments).await.map_err(refused)?.ok_or_else(none)?;
        let messages = messages.into_iter().map(|message| {
            let role = match message.speaker {
                Speaker::User => Role::User,
                Speaker::Assistant => Role::Assistant,
            };
            PromptMessage::new(role, content::block(&message.part))
        });
        let mut result = GetPromptResult::new(messages.collect());
        result.description = about.description;
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = match &self.shared.resources {
            Some(source) => source.resources().await.map_err(refused)?,
            None => Vec::new(),
        };
        Ok(ListResourcesResult::with_all_items(resources.into_iter().map(resource_of).collect()))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = self.shared.resources.as_ref().map(|source| source.templates()).unwrap_or_default();
        Ok(ListResourceTemplatesResult::with_all_items(templates.into_iter().map(template_of).collect()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let none = || ErrorData::resource_not_found(format!("unknown resource {}", request.uri), None);
        let source = self.shared.resources.as_ref().ok_or_else(none)?;
        let part = source.read(&request.uri).await.map_err(refused)?.ok_or_else(none)?;
        let contents = content::resource(&part).ok_or_else(none)?;
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let (name, beginning) = (&request.argument.name, &request.argument.value);
        let mut values = match &request.r#ref {
            Reference::Prompt(prompt) => {
                self.shared.prompts.as_ref().map(|source| source.complete(&prompt.name, name, beginning))
            }
            Reference::Resource(template) => {
                self.shared.resources.as_ref().map(|source| source.complete(&template.uri, name, beginning))
            }
            _ => None,
        }
        .unwrap_or_default();
        let total = values.len();
        values.truncate(CompletionInfo::MAX_VALUES);
        let is_more = total > values.len();
        let total = u32::try_from(total).ok();
        CompletionInfo::with_pagination(values, total, is_more)
            .map(CompleteResult::new)
            .map_err(|error| ErrorData::internal_error(error, None))
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *self.session.level.lock() = Some(request.level.into());
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.session.subscribed.lock().insert(request.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.session.subscribed.lock().remove(&request.uri);
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let Some(mut changes) = self.shared.changes.clone() else { return };
        let (peer, session) = (context.peer, Arc::downgrade(&self.session));
        let (has_prompts, has_resources) = (self.shared.prompts.is_some(), self.shared.resources.is_some());
        self.session.tasks.spawn(async move {
            while changes.changed().await.is_ok() && !peer.is_transport_closed() {
                let Some(session) = session.upgrade() else { return };
                let subscribed: BTreeSet<String> = session.subscribed.lock().iter().cloned().collect();
                drop(session);
                if notify_changes(&peer, has_prompts, has_resources, subscribed).await.is_err() {
                    return;
                }
            }
        });
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.shared.changes.as_ref().map(|_| requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let Some(mut changes) = self.shared.changes.clone() else { return Ok(()) };
        let accepted = context.accepted().clone();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                changed = changes.changed() => if changed.is_err() { return Ok(()) },
            }
            let sink = context.sink();
            let mut sent = Ok(());
            if accepted.tools_list_changed == Some(true) {
                sent = sent.and(sink.notify_tool_list_changed().await);
            }
            if accepted.prompts_list_changed == Some(true) {
                sent = sent.and(sink.notify_prompt_list_changed().await);
            }
            if accepted.resources_list_changed == Some(true) {
                sent = sent.and(sink.notify_resource_list_changed().await);
            }
            for uri in accepted.resource_subscriptions.iter().flatten() {
                sent = sent.and(sink.notify_resource_updated(uri.as_str()).await);
            }
            if sent.is_err() {
                return Ok(());
            }
        }
    }
}

/// Notifies a client of older protocol versions that lists may have changed.
async fn notify_changes(
    peer: &Peer<RoleServer>,
    has_prompts: bool,
    has_resources: bool,
    subscribed: BTreeSet<String>,
) -> Result<(), rmcp::ServiceError> {
    peer.notify_tool_list_changed().await?;
    if has_prompts {
        peer.notify_prompt_list_changed().await?;
    }
    if has_resources {
        peer.notify_resource_list_changed().await?;
    }
    for uri in subscribed {
        peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await?;
    }
    Ok(())
}

fn prompt_of(info: PromptInfo) -> Prompt {
    let PromptInfo { name, title, description, arguments } = info;
    let arguments = arguments.into_iter().map(|argument| {
        let own = rmcp::model::PromptArgument::new(argument.name).with_required(argument.required);
        match argument.description {
            Some(description) => own.with_description(description),
            None => own,
        }
    });
    let arguments: Vec<_> = arguments.collect();
    let prompt = Prompt::new(name, description, (!arguments.is_empty()).then_some(arguments));
    match title {
        Some(title) => prompt.with_title(title),
        None => prompt,
    }
}

fn resource_of(info: ResourceInfo) -> Resource {
    let mut resource = Resource::new(info.uri, info.name);
    (resource.description, resource.mime_type) = (info.description, info.mime);
    resource
}

fn template_of(template: ResourceTemplate) -> rmcp::model::ResourceTemplate {
    rmcp::model::ResourceTemplate::new(template.uri_template, template.name)
        .with_description(template.description)
        .with_mime_type(template.mime)
}
