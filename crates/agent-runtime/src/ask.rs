//! One question to the model, read while it is answered.

use std::sync::Arc;
use std::time::Duration;

use agent_types::{CallId, Clock, EventBody, EventLocation, Usage};
use futures::future::{Either, select};
use futures::{FutureExt, Stream, StreamExt};
use llm_provider::{LlmError, LlmEvent, LlmRequest, StandardResponse, retry_message};
use protocol_action::{Decoder, Event, NativeCall, Options, Parsed};
use tokio_util::sync::CancellationToken;
use tool_schema::ToolSet;

use crate::decide::finish_reason;
use crate::deliberate::DeliberationFault;
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
    /// What their ids begin with: the call that the agent answers, where it is one inside another.
    pub(crate) prefix: &'q str,
}

/// A reply, and what the reader made of it.
pub(crate) struct Answer {
    pub(crate) response: StandardResponse,
    pub(crate) parsed: Parsed,
}

/// Why there is no reply.
pub(crate) enum NoAnswer {
    /// There is a reason.
    Fault(DeliberationFault),
    /// The run is over.
    Cancelled,
}

/// What a question needs besides whoever answers it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AskContext<'r> {
    pub(crate) clock: &'r dyn Clock,
    pub(crate) cancel: &'r CancellationToken,
    /// Whoever answers ends by itself when the run is cancelled.
    pub(crate) winds_down: bool,
    /// The pieces are told as they come.
    pub(crate) tells_pieces: bool,
}

/// A reply as it comes.
pub(crate) trait Replies: Stream<Item = Result<LlmEvent, DeliberationFault>> + Unpin {}

impl<S: Stream<Item = Result<LlmEvent, DeliberationFault>> + Unpin> Replies for S {}

/// Reads a whole reply at once.
#[cfg(feature = "nodes")]
pub(crate) fn read_whole(tools: &Arc<ToolSet>, response: &StandardResponse) -> Parsed {
    let vocabulary: Arc<ToolSet> = Arc::clone(tools);
    let mut decoder = Decoder::new(vocabulary, Options::default());
    decoder.push(response.text.as_bytes()).for_each(drop);
    decoder.add_native(natives(response));
    decoder.finish(finish_reason(&response.finish))
}

/// The native calls of a reply, as its reader takes them.
fn natives(response: &StandardResponse) -> impl Iterator<Item = NativeCall> {
    let calls = response.tool_calls.iter();
    calls.map(|call| NativeCall { name: call.name.clone(), arguments: call.arguments.clone() })
}

/// The beginning of a request, as an event.
pub(crate) fn started(model: &str, request: &LlmRequest, digest: String) -> EventBody {
    EventBody::AgentLlmStarted { model: model.to_owned(), messages: request.messages.len(), digest }
}

/// Asks, and tells what comes as it comes. `reply` begins the answer; nothing of it happens before the beginning is told.
pub(crate) async fn ask<S: Replies>(
    room: AskContext<'_>,
    started: EventBody,
    reply: impl Future<Output = Result<S, DeliberationFault>>,
    question: &Question<'_>,
    trace: &Trace,
) -> Result<Answer, NoAnswer> {
    trace.emit(started);
    trace.emit(EventBody::AgentThinking {});
    let mut listener = ReplyDecoder::new(question, trace, room.tells_pieces);
    let reading = read(room, reply, &mut listener);
    let response = match select(std::pin::pin!(reading), std::pin::pin!(room.cancel.cancelled())).await {
        Either::Left((response, _)) => response.map_err(NoAnswer::Fault),
        Either::Right(((), reading)) => {
            if room.winds_down {
                // What it gives no longer counts.
                let _ = reading.await;
            }
            Err(NoAnswer::Cancelled)
        }
    };
    let response = match response {
        Ok(response) => response,
        Err(none) => {
            listener.flush();
            match none {
                NoAnswer::Fault(DeliberationFault::Waiting(_)) => {}
                NoAnswer::Fault(_) => trace.emit(unfinished("error")),
                NoAnswer::Cancelled => trace.emit(unfinished("cancelled")),
            }
            return Err(none);
        }
    };
    let parsed = listener.finish(&response);
    Ok(Answer { response, parsed })
}

/// The end of a request, as an event.
pub(crate) fn finished(Answer { response, parsed }: &Answer) -> EventBody {
    EventBody::AgentLlmFinished {
        text: response.text.clone(),
        reasoning: response.reasoning.clone().or_else(|| parsed.reasoning.clone()),
        tool_calls: (!response.tool_calls.is_empty())
            .then(|| serde_json::to_value(&response.tool_calls).unwrap_or_default()),
        finish: response.finish.as_str().to_owned(),
        usage: response.usage,
    }
}

/// Reads the stream to its end. Pieces that come close together are told together.
async fn read<S: Replies>(
    room: AskContext<'_>,
    reply: impl Future<Output = Result<S, DeliberationFault>>,
    listener: &mut ReplyDecoder<'_>,
) -> Result<StandardResponse, DeliberationFault> {
    let mut stream = reply.await?;
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
            return Err(LlmError::Stream { message: "it ended without an answer".into() }.into());
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
            merging.get_or_insert_with(|| room.clock.sleep(MERGE_FOR));
        } else {
            merging = None;
        }
    }
}

/// Reads the reply piece by piece and tells its deltas.
struct ReplyDecoder<'t> {
    decoder: Decoder,
    teller: DeltaEmitter<'t>,
    path: String,
    call: usize,
}

/// Tells deltas, those of one kind and place together.
struct DeltaEmitter<'t> {
    question: Question<'t>,
    trace: &'t Trace,
    tells: bool,
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

impl DeltaEmitter<'_> {
    fn tell(&mut self, piece: Delta) {
        if !self.tells {
            return;
        }
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
                let place =
                    EventLocation { call: Some(call_id(&self.question, index)), ..self.trace.place() };
                self.trace.emit_at(place, EventBody::AgentCallDelta { path, text });
            }
        }
    }
}

impl<'t> ReplyDecoder<'t> {
    fn new(question: &Question<'t>, trace: &'t Trace, tells: bool) -> Self {
        let vocabulary: Arc<ToolSet> = Arc::clone(question.tools);
        let decoder = Decoder::new(vocabulary, Options::default());
        let teller = DeltaEmitter { question: *question, trace, tells, offset: 0, waiting: None };
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
        self.decoder.add_native(natives(response));
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

/// The id of a call of a reply.
pub(crate) fn call_id(question: &Question<'_>, index: usize) -> CallId {
    let number = question.first_call + index as u64;
    CallId::new(format!("{}{number}", question.prefix))
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
