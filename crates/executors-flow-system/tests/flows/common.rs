//! A server that remembers what it was asked, and an orchestrator around a scripted model.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agent_runtime::{Agent, AgentProfile, ApprovalMode, Exchange, Language};
use agent_types::{Clock, EventBody, EventSubscription, Recorder, RunId, SystemClock, TraceEvent};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use executors_flow_system::{
    FlowsBuilder, FlowsFile, Handled, Handlers, MemorySessions, Orchestrator, SeatAction, SessionStore,
    ToolLookup, TurnContext, UserMessage,
};
use http_caller::{HttpCaller, NetworkPolicy};
use llm_provider::{LlmProvider, ScriptedModel};
use serde_json::{Value, json};
use tool_registry::{Services, Snapshot};

/// A request as the server saw it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

#[derive(Debug, Default)]
struct Inner {
    asked: Vec<Asked>,
    answers: VecDeque<(u16, Value)>,
}

/// A server on a socket of its own. Answers are given in order; the last one is given again and again.
#[derive(Debug, Clone)]
pub(crate) struct Stub {
    pub(crate) address: SocketAddr,
    inner: Arc<Mutex<Inner>>,
    /// Requests that the client gave up before they were answered.
    pub(crate) dropped: Arc<AtomicUsize>,
    /// Holds back the answers until a permit is added.
    pub(crate) gate: Arc<tokio::sync::Semaphore>,
}

struct Waiting(Arc<AtomicUsize>, bool);

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.1 {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Stub {
    pub(crate) async fn new(answers: &[(u16, Value)]) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let inner = Inner { answers: answers.iter().cloned().collect(), ..Inner::default() };
        let stub = Self {
            address: listener.local_addr().unwrap(),
            inner: Arc::new(Mutex::new(inner)),
            dropped: Arc::default(),
            gate: Arc::new(tokio::sync::Semaphore::new(tokio::sync::Semaphore::MAX_PERMITS)),
        };
        let app = Router::new().fallback(answer).with_state(stub.clone());
        #[expect(clippy::disallowed_methods, reason = "the server ends with the test's runtime")]
        tokio::spawn(async move { axum::serve(listener, app).await });
        stub
    }

    /// A stub that answers only when its gate opens.
    pub(crate) async fn shut(answers: &[(u16, Value)]) -> Self {
        let stub = Self::new(answers).await;
        stub.gate.forget_permits(tokio::sync::Semaphore::MAX_PERMITS);
        stub
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.inner.lock().unwrap().asked.clone()
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.path).collect()
    }

    pub(crate) fn caller(&self) -> HttpCaller {
        let host = self.address.to_string().parse().unwrap();
        HttpCaller::builder(NetworkPolicy::public_only().allowing([host])).build()
    }
}

async fn answer(
    State(stub): State<Stub>,
    method: Method,
    uri: Uri,
    body: Bytes,
) -> (StatusCode, axum::Json<Value>) {
    let asked = Asked {
        method: method.to_string(),
        path: uri.path().to_owned(),
        query: uri.query().unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    };
    let answer = {
        let mut inner = stub.inner.lock().unwrap();
        inner.asked.push(asked);
        let answer = inner.answers.front().cloned();
        if inner.answers.len() > 1 {
            inner.answers.pop_front();
        }
        answer
    };
    let mut waiting = Waiting(Arc::clone(&stub.dropped), false);
    stub.gate.acquire().await.unwrap().forget();
    waiting.1 = true;
    let (status, body) = answer.unwrap_or((404, json!("nothing here")));
    (StatusCode::from_u16(status).unwrap(), axum::Json(body))
}

/// Parts of an orchestrator.
pub(crate) struct Setup {
    pub(crate) file: Value,
    pub(crate) script: Vec<Value>,
    pub(crate) caller: Option<HttpCaller>,
    pub(crate) handlers: Handlers,
    pub(crate) services: Services,
    pub(crate) tools: Snapshot,
    pub(crate) language: Language,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) store: Arc<dyn SessionStore>,
}

impl Setup {
    pub(crate) fn new(file: Value) -> Self {
        Self {
            file,
            script: Vec::new(),
            caller: None,
            handlers: Handlers::default(),
            services: Services::new(),
            tools: Snapshot::default(),
            language: Language::En,
            clock: Arc::new(SystemClock),
            store: MemorySessions::new(),
        }
    }

    /// The model says these, in order.
    pub(crate) fn says(mut self, texts: &[&str]) -> Self {
        self.script.extend(texts.iter().map(|text| json!({"text": text})));
        self
    }

    pub(crate) fn with(mut self, stub: &Stub) -> Self {
        self.caller = Some(stub.caller());
        self
    }

    pub(crate) fn build(self) -> World {
        let file = FlowsFile::from_value(self.file).unwrap_or_else(|error| panic!("{error}"));
        let mut builder = FlowsBuilder::new(&file)
            .tools(&self.tools as &dyn ToolLookup)
            .handlers(self.handlers)
            .services(self.services);
        if let Some(caller) = self.caller {
            builder = builder.caller(caller);
        }
        let flows = builder.build().unwrap_or_else(|error| panic!("{error}"));
        let lines: Vec<String> = self.script.iter().map(Value::to_string).collect();
        let model = ScriptedModel::from_jsonl(&lines.join("\n")).unwrap().with_clock(Arc::clone(&self.clock));
        let model: Arc<dyn LlmProvider> = Arc::new(model);
        let mut profile = AgentProfile::new("desk");
        profile.language = Some(self.language);
        let offered = flows.offered(&model, profile.language).unwrap();
        let tools = Snapshot::new(self.tools.tools().cloned().chain(offered)).unwrap();
        let agent = Agent::from_profile(profile, model, tools).with_approval(ApprovalMode::All);
        let orchestrator =
            Orchestrator::new(flows, agent, Arc::clone(&self.store)).with_clock(Arc::clone(&self.clock));
        World { orchestrator, store: self.store, clock: self.clock }
    }
}

pub(crate) struct World {
    pub(crate) orchestrator: Orchestrator,
    pub(crate) store: Arc<dyn SessionStore>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Result of a message, with its events.
pub(crate) struct Observed {
    pub(crate) handled: Handled,
    pub(crate) events: Vec<TraceEvent>,
}

impl Observed {
    pub(crate) fn names(&self) -> Vec<String> {
        self.events.iter().map(|event| event.body.name().to_owned()).collect()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.names().iter().any(|own| own == name)
    }

    pub(crate) fn count(&self, is_meant: impl Fn(&EventBody) -> bool) -> usize {
        self.events.iter().filter(|event| is_meant(&event.body)).count()
    }

    pub(crate) fn llm_calls(&self) -> usize {
        self.count(|body| matches!(body, EventBody::AgentLlmStarted { .. }))
    }

    pub(crate) fn text(&self) -> Option<&str> {
        self.handled.text.as_deref()
    }
}

impl World {
    pub(crate) fn turn_context(&self) -> (TurnContext, EventSubscription) {
        let recorder = Recorder::new(RunId::generate(), Arc::clone(&self.clock));
        let subscription = recorder.subscribe(10_000);
        (TurnContext::new(recorder), subscription)
    }

    pub(crate) async fn say(&self, session: &str, message: impl Into<UserMessage>) -> Observed {
        let (cx, subscription) = self.turn_context();
        let entered = self.orchestrator.enter(session).await.unwrap();
        let handled = entered.handle(message.into(), cx).await.unwrap();
        Observed { handled, events: events(subscription) }
    }

    pub(crate) async fn fire(&self, session: &str) -> Option<Observed> {
        let (cx, subscription) = self.turn_context();
        let handled = self.orchestrator.enter(session).await.unwrap().fire(cx).await.unwrap()?;
        Some(Observed { handled, events: events(subscription) })
    }

    /// An action of a person, or the code of the refusal.
    pub(crate) async fn act(&self, session: &str, action: SeatAction) -> Result<(), &'static str> {
        let done = self.orchestrator.act(session, "ann", &action).await;
        done.map(drop).map_err(|error| error.code())
    }

    pub(crate) async fn history(&self, session: &str) -> Vec<Exchange> {
        self.store.load(session).await.unwrap().history()
    }

    /// Messages of users in a session, as its agent knows them.
    pub(crate) async fn heard(&self, session: &str) -> Vec<String> {
        let texts = self.history(session).await.into_iter().filter_map(|exchange| match exchange {
            Exchange::User { text, .. } => Some(text),
            _ => None,
        });
        texts.collect()
    }
}

pub(crate) fn events(mut subscription: EventSubscription) -> Vec<TraceEvent> {
    let events = weft_harness::events(&mut subscription);
    let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>(), "numbers have no holes");
    let is_end = |event: &&TraceEvent| {
        matches!(event.body, EventBody::RunFinished { .. } | EventBody::RunWaiting { .. })
    };
    assert_eq!(events.iter().filter(is_end).count(), 1, "a run has one end");
    assert!(events.last().as_ref().is_some_and(is_end), "and nothing behind it");
    assert_eq!(events.iter().filter(|event| matches!(event.body, EventBody::RunStarted { .. })).count(), 1);
    events
}
