//! One question to the model, read while it is answered.

use std::sync::Arc;
use std::time::Duration;

use agent_types::{CallId, EventBody, Place, Usage};
use futures::future::{Either, select};
use futures::{FutureExt, StreamExt};
use llm_provider::{LlmError, LlmEvent, LlmRequest, StandardResponse, retry_message};
use protocol_action::{Decoder, Event, NativeCall, Options, Parsed};
use tool_schema::ToolSet;

use crate::decide::finish_reason;
use crate::driver::Driver;
use crate::trace::Trace;

/// Longest time that a piece of text waits for more, so that a fast model makes few events.
const MERGE_FOR: Duration = Duration::from_millis(33);

/// Longest text that is put together from pieces, in bytes.
const MERGE_BYTES: usize = 4 * 1024;

/// What a reply is read against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'q> {
    pub(crate) tools: &'q Arc<ToolSet>,
    /// Ids of calls count on from here.
    pub(crate) first_call: u64,
    /// The call that the agent answers, where it is one inside another.
    pub(crate) inside: Option<&'q CallId>,
    /// A short name for the messages of the request.
    pub(crate) digest: &'q str,
}

/// A reply, and what the reader made of it.
pub(crate) struct Answer {
    pub(crate) response: StandardResponse,
    pub(crate) parsed: Parsed,
}

/// Why there is no reply.
pub(crate) enum NoAnswer {
    /// The model failed.
    Llm(LlmError),
    /// The run is over.
    Cancelled,
}

/// Asks, and tells what comes as it comes.
pub(crate) async fn ask(
    driver: &Driver,
    request: LlmRequest,
    question: &Question<'_>,
    trace: &Trace,
) -> Result<Answer, NoAnswer> {
    trace.emit(EventBody::AgentLlmStarted {
        model: driver.model.info().name.clone(),
        messages: request.messages.len(),
        digest: question.digest.to_owned(),
    });
    trace.emit(EventBody::AgentThinking {});
    let mut listener = Listener::new(question, trace);
    let reading = read(driver, request, &mut listener);
    let response = match select(std::pin::pin!(reading), std::pin::pin!(driver.cancel.cancelled())).await {
        Either::Left((response, _)) => response.map_err(NoAnswer::Llm),
        Either::Right(((), _)) => Err(NoAnswer::Cancelled),
    };
    let response = match response {
        Ok(response) => response,
        Err(none) => {
            listener.flush();
            trace.emit(unfinished(match none {
                NoAnswer::Llm(_) => "error",
                NoAnswer::Cancelled => "cancelled",
            }));
            return Err(none);
        }
    };
    let parsed = listener.finish(&response);
    trace.emit(EventBody::AgentLlmFinished {
        text: response.text.clone(),
        reasoning: response.reasoning.clone().or_else(|| parsed.reasoning.clone()),
        tool_calls: (!response.tool_calls.is_empty())
            .then(|| serde_json::to_value(&response.tool_calls).unwrap_or_default()),
        finish: response.finish.as_str().to_owned(),
        usage: response.usage,
    });
    Ok(Answer { response, parsed })
}

/// Reads the stream to its end. Pieces that come close together are told together.
async fn read(
    driver: &Driver,
    request: LlmRequest,
    listener: &mut Listener<'_>,
) -> Result<StandardResponse, LlmError> {
    let mut stream = driver.model.stream(request).await?;
    let mut merging = None;
    loop {
        // What is there already is read before time is looked at.
        let event = match stream.next().now_or_never() {
            Some(event) => event,
            None => match merging.take() {
                None => stream.next().await,
                Some(pause) => match select(stream.next(), pause).await {
                    Either::Left((event, pause)) => {
                        merging = Some(pause);
                        event
                    }
                    Either::Right(((), _)) => {
                        listener.flush();
                        continue;
                    }
                },
            },
        };
        let Some(event) = event else {
            return Err(LlmError::Stream { message: "it ended without an answer".into() });
        };
        match event? {
            LlmEvent::Text(text) => listener.text(&text),
            LlmEvent::Reasoning(text) => listener.reasoning(text),
            LlmEvent::ToolCall { index, arguments, .. } => listener.native(index, arguments),
            LlmEvent::Heartbeat => {}
            LlmEvent::Retrying { attempt, delay, error } => listener.retrying(attempt, delay, &error),
            LlmEvent::Finished(response) => return Ok(response),
        }
        if listener.is_merging() {
            merging.get_or_insert_with(|| driver.clock.sleep(MERGE_FOR));
        } else {
            merging = None;
        }
    }
}

/// Reads the reply piece by piece and tells its deltas.
struct Listener<'t> {
    decoder: Decoder,
    teller: Teller<'t>,
    path: String,
    call: usize,
}

/// Tells deltas, those of one kind and place together.
struct Teller<'t> {
    question: Question<'t>,
    trace: &'t Trace,
    offset: u64,
    waiting: Option<Delta>,
}

/// A piece that waits for more.
#[derive(Debug, PartialEq, Eq)]
enum Delta {
    Text(String),
    Reasoning(String),
    Call { index: usize, path: String, text: String },
}

impl Teller<'_> {
    fn tell(&mut self, piece: Delta) {
        match (&mut self.waiting, piece) {
            (Some(Delta::Text(text)), Delta::Text(more))
            | (Some(Delta::Reasoning(text)), Delta::Reasoning(more)) => text.push_str(&more),
            (Some(Delta::Call { index, path, text }), Delta::Call { index: at, path: name, text: more })
                if *index == at && *path == name =>
            {
                text.push_str(&more);
            }
            (_, piece) => {
                self.flush();
                self.waiting = Some(piece);
            }
        }
        let is_long = matches!(&self.waiting, Some(Delta::Text(text) | Delta::Reasoning(text)
            | Delta::Call { text, .. }) if text.len() >= MERGE_BYTES);
        if is_long {
            self.flush();
        }
    }

    fn flush(&mut self) {
        match self.waiting.take() {
            None => {}
            Some(Delta::Text(text)) => {
                let length = text.len() as u64;
                self.trace.emit(EventBody::AgentTextDelta { offset: self.offset, text });
                self.offset += length;
            }
            Some(Delta::Reasoning(text)) => self.trace.emit(EventBody::AgentReasoningDelta { text }),
            Some(Delta::Call { index, path, text }) => {
                let place = Place { call: Some(call_id(&self.question, index)), ..self.trace.place() };
                self.trace.emit_at(place, EventBody::AgentCallDelta { path, text });
            }
        }
    }
}

impl<'t> Listener<'t> {
    fn new(question: &Question<'t>, trace: &'t Trace) -> Self {
        let vocabulary: Arc<ToolSet> = Arc::clone(question.tools);
        let decoder = Decoder::new(vocabulary, Options::default());
        let teller = Teller { question: *question, trace, offset: 0, waiting: None };
        Self { decoder, teller, path: String::new(), call: 0 }
    }

    fn is_merging(&self) -> bool {
        self.teller.waiting.is_some()
    }

    fn flush(&mut self) {
        self.teller.flush();
    }

    fn text(&mut self, piece: &str) {
        let Self { decoder, teller, path, call } = self;
        for event in decoder.push(piece.as_bytes()) {
            match event {
                Event::Text { text } => teller.tell(Delta::Text(text.to_owned())),
                Event::Reasoning { text } => teller.tell(Delta::Reasoning(text.to_owned())),
                Event::ParamStart { call: index, path: name } => {
                    *call = index;
                    name.clone_into(path);
                }
                Event::ParamDelta { text } => {
                    teller.tell(Delta::Call { index: *call, path: path.clone(), text: text.to_owned() });
                }
                _ => {}
            }
        }
    }

    fn reasoning(&mut self, text: String) {
        self.teller.tell(Delta::Reasoning(text));
    }

    fn retrying(&mut self, attempt: u32, delay: Duration, error: &LlmError) {
        self.teller.flush();
        self.teller.trace.emit(EventBody::AgentWarning {
            kind: "llm_retry".into(),
            message: retry_message(attempt, delay, error),
        });
    }

    fn native(&mut self, index: usize, arguments: String) {
        if !arguments.is_empty() {
            self.teller.tell(Delta::Call { index, path: String::new(), text: arguments });
        }
    }

    fn finish(mut self, response: &StandardResponse) -> Parsed {
        let natives = response.tool_calls.iter();
        self.decoder.add_native(
            natives.map(|call| NativeCall { name: call.name.clone(), arguments: call.arguments.clone() }),
        );
        let finish = finish_reason(&response.finish);
        for event in self.decoder.close(finish) {
            if let Event::Text { text } = event {
                self.teller.tell(Delta::Text(text.to_owned()));
            }
        }
        self.teller.flush();
        self.decoder.finish(finish)
    }
}

/// The id of a call of a reply. Calls of an agent inside a call are named by that call.
pub(crate) fn call_id(question: &Question<'_>, index: usize) -> CallId {
    let number = question.first_call + index as u64;
    match question.inside {
        Some(outer) => CallId::new(format!("{outer}.{number}")),
        None => CallId::new(format!("c{number}")),
    }
}

/// The end of a request that gave no answer; what was written until then stands in the deltas.
fn unfinished(finish: &str) -> EventBody {
    EventBody::AgentLlmFinished {
        text: String::new(),
        reasoning: None,
        tool_calls: None,
        finish: finish.to_owned(),
        usage: Usage::default(),
    }
}
