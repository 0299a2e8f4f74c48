//! Checks of `weft doctor`, each after the ones that it depends on.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use agent_triggers::TriggerKind;
use llm_provider::{ModelConfig, ModelError, ModelSource};
use serde_json::json;
use tool_registry::files::PassedOver;
use tool_registry::{BrokenTool, Reach};
use url::Url;
use weft_project::{Project, ProjectError};
use workflow_engine::Plan;

use super::super::Context;
use super::Finding;
use crate::failure::{Exit, Failure, shown};

/// Time limit for an address to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Key of the value that is written to check that the store is writable.
const TRIAL: &str = "doctor";

pub(super) fn all(context: &Context) -> Vec<Finding> {
    let project = match context.project(None) {
        Ok(project) => project,
        Err(failure) => return vec![Finding::wrong("project", failure)],
    };
    let mut findings =
        vec![Finding::well("project", shown(project.root()).join("weft.toml").display().to_string())];
    findings.extend(models(&project));
    findings.extend(mcp_servers(&project));
    findings.extend(passed_over(&project));
    findings.extend(lookalikes(&project));
    findings.extend(workflows(&project));
    findings.extend(tools(&project));
    findings.extend(agents(&project));
    findings.extend(triggers(&project));
    findings.extend(flows(&project));
    findings.extend(widgets(&project));
    findings.extend(channels(&project));
    findings.extend(
        project.refused_secrets().iter().map(|fault| {
            Finding::warning(format!("secret {}", fault.secret.name), Failure::of_secret(fault))
        }),
    );
    findings.push(store(&project));
    findings.push(port(&project));
    findings
}

fn models(project: &Project) -> Vec<Finding> {
    let entries = &project.settings().models;
    let mut findings: Vec<Finding> = entries
        .iter()
        .map(|(name, config)| model(name, config, project.models().model(Some(name)).map(|_| ())))
        .collect();
    if !entries.contains_key("default") {
        findings.push(match (project.models().model(None), ModelConfig::from_env()) {
            (Ok(_), Some(config)) => model("default (from the environment)", &config, Ok(())),
            (Ok(_), None) => {
                let script = project.settings().script.as_deref().unwrap_or("a script");
                Finding::well("model default", format!("replies are played from {script}"))
            }
            (Err(error), _) if project.agents().next().is_none() => {
                Finding::warning("model default", of_model(&error))
            }
            (Err(error), _) => Finding::wrong("model default", of_model(&error)),
        });
    }
    findings
}

/// Checks that a model has its key, and that the address named by its entry answers. The key itself is never shown, and
/// hosted models are not called.
fn model(name: &str, config: &ModelConfig, made: Result<(), ModelError>) -> Finding {
    let what = format!("model {name}");
    if let Err(error) = made {
        return Finding::wrong(what, of_model(&error));
    }
    let key = if config.secret().is_some() { "its key is set" } else { "it needs no key" };
    // A model that was made has an address, if any, that can be read.
    let Some(url) = config.base_url.as_deref().and_then(|url| Url::parse(url).ok()) else {
        return Finding::well(what, format!("{}, {key}", config.model));
    };
    let shown = without_secrets(url.clone());
    match reached(&url) {
        Ok(()) => Finding::well(what, format!("{} at {shown}, {key}", config.model)),
        Err(message) => Finding::wrong(
            what,
            Failure::new(Exit::Unreachable, "unreachable", format!("{shown} cannot be reached: {message}"))
                .with_help("start that server, or fix `base_url`"),
        ),
    }
}

fn of_model(error: &ModelError) -> Failure {
    Failure::new(Exit::Configuration, error.code(), error.to_string()).with_help(error.help())
}

/// An address that is safe to print: without a password and without the query, which may hold a key.
fn without_secrets(mut url: Url) -> String {
    url.set_query(None);
    // Addresses that have no user have nothing to take away.
    let _ = url.set_password(None).and_then(|()| url.set_username(""));
    url.to_string()
}

/// Checks that a server listens at an address. Behind a proxy of the environment the result is unknown.
fn reached(url: &Url) -> Result<(), String> {
    let proxies = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    if proxies.iter().any(|variable| std::env::var_os(variable).is_some()) {
        return Ok(());
    }
    let mut last = "the name has no address".to_owned();
    for address in url.socket_addrs(|| None).map_err(|error| error.to_string())? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(_) => return Ok(()),
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

fn lookalikes(project: &Project) -> Vec<Finding> {
    let pairs = project.lookalikes(Reach::Remote).into_iter();
    let alike = pairs.map(|(id, like)| {
        let failure = Failure::new(Exit::Invalid, "lookalike", format!("`{id}` looks like `{like}`"));
        Finding::warning(
            format!("id {id}"),
            failure.with_help("rename one, so that it is not taken for the other"),
        )
    });
    alike.collect()
}

fn mcp_servers(project: &Project) -> Vec<Finding> {
    if project.settings().mcp.is_empty() {
        return Vec::new();
    }
    let clients = match project.mcp() {
        Ok(clients) => clients,
        Err(error) => return vec![Finding::wrong("mcp", error.into())],
    };
    let look = |server: &str| {
        let what = format!("mcp server {server}");
        let failure = |broken: BrokenTool| Failure::from(ProjectError::from(broken));
        let tools = match clients.tools(server) {
            Ok(tools) => tools,
            Err(error) => return vec![Finding::wrong(what, failure(error.into()))],
        };
        let faults = clients.faults(server).unwrap_or_default();
        let faults = faults.into_iter().map(|fault| Finding::warning(what.clone(), failure(fault.into())));
        std::iter::once(Finding::well(what.clone(), counted(tools.len(), "tool"))).chain(faults).collect()
    };
    clients.names().flat_map(look).collect()
}

/// Files that were found and are not loaded.
fn passed_over(project: &Project) -> Vec<Finding> {
    let finding = |passed: PassedOver| {
        let failure = Failure::new(Exit::Invalid, passed.code, passed.at.message);
        let failure = failure.at(&passed.at.path, passed.at.line, passed.at.column);
        Finding::warning("passed over", failure.with_help(passed.help))
    };
    project.passed_over().cloned().chain(project.providers().passed_over()).map(finding).collect()
}

fn workflows(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut good = 0;
    for file in project.workflows().files() {
        let what = format!("workflow {}", file.id);
        let workflow = match project.workflows().get(&file.id) {
            Ok((_, workflow)) => workflow,
            Err(error) => {
                findings.push(Finding::wrong(what, error.into()));
                continue;
            }
        };
        let planned = project
            .in_world(&file.id, &workflow, |world| Plan::in_world(&workflow, project.catalog(), world));
        match planned {
            Ok(_) => good += 1,
            Err(error) => {
                let failure = Failure::of_problems(&error.problems)
                    .at(&file.path, None, None)
                    .with_help(format!("weft workflow check {}", file.id));
                findings.push(Finding::wrong(what, failure));
            }
        }
    }
    findings.insert(0, Finding::well("workflows", counted(good, "workflow")));
    findings
}

fn tools(project: &Project) -> Vec<Finding> {
    let providers = project.providers();
    let mut findings = vec![Finding::well("tool files", counted(providers.in_files().len(), "tool"))];
    findings.extend(providers.list(Reach::Local).into_iter().filter_map(Result::err).map(|broken| {
        let what = format!("tool {}", broken.id.as_deref().unwrap_or("file"));
        Finding::wrong(what, ProjectError::from(broken).into())
    }));
    findings
}

fn triggers(project: &Project) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        project.broken_triggers().into_iter().map(|error| Finding::wrong("triggers", error.into())).collect();
    let good = project.triggers().count();
    if good > 0 {
        findings.push(Finding::well("triggers", counted(good, "trigger")));
    }
    let missing = |id: &str, name: &str| {
        let message = format!("the secret `{name}` of `{id}` is not set");
        let failure = Failure::new(Exit::Configuration, "missing_secret", message);
        Finding::warning("triggers", failure.with_help(format!("set {name} in the environment")))
    };
    for entry in project.triggers() {
        let TriggerKind::Webhook(webhook) = &entry.trigger.kind else { continue };
        let unset =
            webhook.secrets().filter(|name| !std::env::var(name).is_ok_and(|value| !value.is_empty()));
        findings.extend(unset.map(|name| missing(&entry.trigger.id, name)));
    }
    findings
}

fn agents(project: &Project) -> Vec<Finding> {
    let mut findings: Vec<Finding> = project
        .broken_agents()
        .iter()
        .map(|broken| Finding::wrong("agent", Failure::of_file(broken)))
        .collect();
    for file in project.agents() {
        let id = &file.profile.id;
        let what = format!("agent {id}");
        let ignored = file.ignored_names().map(|message| Failure::of_ignored_name(file, message));
        findings.extend(ignored.map(|failure| Finding::warning(what.clone(), failure)));
        let faults = project.faults_of(file).unwrap_or_default();
        if !faults.is_empty() {
            findings.extend(faults.into_iter().map(|fault| Finding::wrong(what.clone(), fault.into())));
            continue;
        }
        findings.push(match project.agent(id).and_then(|_| Ok(project.tools_of(file)?.tools().count())) {
            Ok(tools) => Finding::well(what, counted(tools, "tool")),
            Err(error) => Finding::wrong(what, error.into()),
        });
    }
    if findings.is_empty() {
        findings.push(Finding::well("agents", "none; the built-in one answers `weft chat`"));
    }
    findings
}

fn flows(project: &Project) -> Option<Finding> {
    match project.flows().and_then(|flows| project.flows_agent().map(|_| flows)) {
        Ok(None) => None,
        Ok(Some(flows)) => Some(match flows.warnings() {
            [] => Finding::well("flows.json", "ok"),
            [first, ..] => Finding::warning(
                "flows.json",
                Failure::new(Exit::Invalid, first.code, first.message.clone()).with_help("weft flow check"),
            ),
        }),
        Err(error) => Some(Finding::wrong("flows.json", error.into())),
    }
}

/// Embedded chats: the agent of each exists.
fn widgets(project: &Project) -> Vec<Finding> {
    let widgets = project.settings().widgets.iter();
    let checked = widgets.map(|(name, widget)| {
        let shown = match widget.origins.len() {
            0 => "a page of its own".to_owned(),
            origins => counted(origins, "origin"),
        };
        with_agent(project, format!("widget {name}"), &widget.agent, || Ok(shown))
    });
    checked.collect()
}

/// Channels: the agent of each exists, its secret is set, and its address is one.
fn channels(project: &Project) -> Vec<Finding> {
    let channels = project.settings().channels.iter();
    let checked = channels.map(|(name, settings)| {
        with_agent(project, format!("channel {name}"), &settings.agent, || {
            project.channel(name).map_err(|error| {
                Failure::new(Exit::Invalid, error.code(), error.to_string())
                    .with_help(format!("[channels.{name}] in weft.toml, and the variable of its secret"))
            })?;
            Ok(settings.to.as_ref().map_or("nothing is sent".to_owned(), |to| format!("sends to {to}")))
        })
    });
    checked.collect()
}

/// Finding about an entry of the settings that names an agent.
fn with_agent(
    project: &Project,
    what: String,
    agent: &str,
    check: impl FnOnce() -> Result<String, Failure>,
) -> Finding {
    let is_of_flows = || project.flows_agent().ok() == Some(agent);
    match project.agent_file(agent) {
        Err(error) if !is_of_flows() => Finding::wrong(what, error.into()),
        Ok(_) | Err(_) => match check() {
            Ok(shown) => Finding::well(what, shown),
            Err(failure) => Finding::wrong(what, failure),
        },
    }
}

fn store(project: &Project) -> Finding {
    let path = project.root().join(&project.settings().store.path);
    let tried = project.store().and_then(|store| {
        let Some(store) = store else { return Ok(()) };
        store.put(TRIAL, Some(&json!(true)));
        store.flush()?;
        store.put(TRIAL, None);
        store.flush()
    });
    match tried {
        Ok(()) => Finding::well("store", format!("{} can be written", shown(&path).display())),
        Err(error) => Finding::wrong("store", Failure::of_store(&error)),
    }
}

fn port(project: &Project) -> Finding {
    let server = &project.settings().server;
    let address = SocketAddr::new(server.host, server.port);
    match TcpListener::bind(address) {
        Ok(_) => Finding::well("server", format!("{address} is free")),
        Err(error) => Finding::warning(
            "server",
            Failure::new(Exit::Failed, "address_in_use", format!("{address} cannot be bound: {error}"))
                .with_help("`weft serve` may be at work already; `weft serve --port 0` takes a free port"),
        ),
    }
}

fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}
