//! One question to the model, read while it is answered.

use std::sync::Arc;
use std::time::Duration;

use agent_types::{Clock, EventBody, EventLocation, Usage, estimate_tokens};
use async_trait::async_trait;
use futures::future::{Either, select};
use futures::{FutureExt, Stream, StreamExt};
use llm_provider::{Finish, LlmError, LlmEvent, LlmRequest, ModelInfo, StandardResponse, retry_message};
use protocol_action::{Decoder, Event, FinishReason, NativeCall, Options, Parsed};
use tokio_util::sync::CancellationToken;
use tool_schema::ToolSet;

use super::deliberate::DeliberationFault;
use super::trace::Trace;
use crate::machine::CallIds;
use crate::resume::record_of_too_long;

/// Maximum delay of a piece of text that is merged with later ones, so that a fast model emits few events.
const MERGE_FOR: Duration = Duration::from_millis(33);

/// Longest text that is put together from pieces, in bytes.
const MERGE_BYTES: usize = 4 * 1024;

/// Context for reading a reply.
#[derive(Debug, Clone, Copy)]
pub struct Question<'q> {
    /// Tools of the reader.
    pub tools: &'q Arc<ToolSet>,
    /// Ids of its calls.
    pub ids: CallIds<'q>,
}

/// A reply, and what the reader made of it.
#[derive(Debug)]
pub struct Answer {
    /// The reply.
    pub response: StandardResponse,
    /// Its contents.
    pub parsed: Parsed,
    /// Text that the model wrote behind its native calls, before their results were known.
    pub dropped: Option<String>,
}

/// Reason for a missing reply.
#[derive(Debug)]
pub enum NoAnswer {
    /// There is a reason, and the text for the user that came before it.
    Fault(DeliberationFault, String),
    /// The run is over.
    Cancelled,
}

/// Context of a request besides its deliberator.
#[derive(Clone, Copy)]
pub struct AskContext<'r> {
    /// Clock of the run.
    pub clock: &'r dyn Clock,
    /// Ends the request.
    pub cancel: &'r CancellationToken,
    /// The deliberator ends on its own when the run is cancelled.
    pub winds_down: bool,
    /// The pieces are emitted as they come.
    pub emits_pieces: bool,
    /// Counts the tokens of a request that breaks off or is cancelled, which are estimated.
    pub count: &'r (dyn Fn(u64) -> Usage + Sync),
    /// A reply that continues behind its block is cut there. Absent where tokens are limited, as the server counts them
    /// only at the end.
    pub cuts: Option<CutCost<'r>>,
    /// Reader of the text beside the events.
    pub reader: Option<&'r dyn TextReader>,
}

/// Cost of a reply that is cut, which is estimated.
#[derive(Debug, Clone, Copy)]
pub struct CutCost<'r> {
    /// Tokens of the request.
    pub asked: u64,
    /// The model, whose prices count.
    pub model: &'r ModelInfo,
}

/// Reader of the text of a reply as it comes, as the model writes it, up to the end of its block.
#[async_trait]
pub trait TextReader: Sync {
    /// Takes the next piece; the reply waits for that.
    async fn read(&self, piece: &str);
}

impl std::fmt::Debug for AskContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { winds_down, emits_pieces, cuts, .. } = self;
        let mut fields = f.debug_struct("AskContext");
        fields.field("winds_down", winds_down).field("emits_pieces", emits_pieces).field("cuts", cuts);
        fields.finish_non_exhaustive()
    }
}

/// A reply as it comes.
pub trait Replies: Stream<Item = Result<LlmEvent, DeliberationFault>> + Unpin {}

impl<S: Stream<Item = Result<LlmEvent, DeliberationFault>> + Unpin> Replies for S {}

/// Reads a whole reply at once.
pub fn read_whole(tools: &Arc<ToolSet>, response: &StandardResponse) -> Parsed {
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
pub fn started(model: &str, request: &LlmRequest, digest: String) -> EventBody {
    EventBody::AgentLlmStarted { model: model.to_owned(), messages: request.messages.len(), digest }
}

/// Requests a reply and emits its pieces as they come. `reply` starts the request, whose beginning is emitted before.
pub async fn ask<S: Replies>(
    context: AskContext<'_>,
    reply: impl Future<Output = Result<S, DeliberationFault>>,
    question: &Question<'_>,
    trace: &Trace,
) -> Result<Answer, NoAnswer> {
    trace.emit(EventBody::AgentThinking {});
    let mut decoder = ReplyDecoder::new(question, trace, context.emits_pieces);
    let reading = read(context, reply, &mut decoder);
    let response = match select(std::pin::pin!(reading), std::pin::pin!(context.cancel.cancelled())).await {
        Either::Left((response, _)) => response.map_err(|fault| NoAnswer::Fault(fault, String::new())),
        Either::Right(((), reading)) => {
            if context.winds_down {
                // What it gives no longer counts.
                let _ = reading.await;
            }
            Err(NoAnswer::Cancelled)
        }
    };
    let mut response = match response {
        Ok(response) => response,
        Err(none) => {
            return Err(match none {
                NoAnswer::Fault(fault @ DeliberationFault::Waiting(_), shown) => {
                    decoder.flush();
                    NoAnswer::Fault(fault, shown)
                }
                NoAnswer::Fault(fault, _) => {
                    let usage = decoder.usage(context.count);
                    let shown = decoder.cut();
                    let ended = unfinished("error", &shown, usage);
                    match &fault {
                        DeliberationFault::Llm(LlmError::ContextTooLong { window, .. }) => {
                            trace.emit_kept(ended, || record_of_too_long(*window));
                        }
                        _ => trace.emit(ended),
                    }
                    NoAnswer::Fault(fault, shown)
                }
                NoAnswer::Cancelled => {
                    decoder.flush();
                    let usage = decoder.usage(context.count);
                    trace.emit(unfinished("cancelled", "", usage));
                    NoAnswer::Cancelled
                }
            });
        }
    };
    let dropped = decoder.drop_behind_calls(&mut response);
    decoder.end(&response);
    if let Some(reader) = context.reader {
        reader.read(decoder.settled_piece()).await;
    }
    let parsed = decoder.decoder.finish(finish_reason(&response.finish));
    Ok(Answer { response, parsed, dropped })
}

/// The end of a request, as an event.
pub fn finished(Answer { response, parsed, dropped }: &Answer) -> EventBody {
    EventBody::AgentLlmFinished {
        text: response.text.clone(),
        reasoning: response.reasoning.clone().or_else(|| parsed.reasoning.clone()),
        tool_calls: (!response.tool_calls.is_empty())
            .then(|| Arc::new(serde_json::to_value(&response.tool_calls).unwrap_or_default())),
        finish: response.finish.as_str().to_owned(),
        usage: response.usage,
        dropped: dropped.clone(),
    }
}

/// Reads the stream to its end. Pieces that arrive close together are merged.
async fn read<S: Replies>(
    context: AskContext<'_>,
    reply: impl Future<Output = Result<S, DeliberationFault>>,
    decoder: &mut ReplyDecoder<'_>,
) -> Result<StandardResponse, DeliberationFault> {
    let mut stream = reply.await?;
    let mut merging = None;
    loop {
        // What is there already is read before time is looked at.
        let event = match stream.next().now_or_never() {
            Some(event) => event,
            None => match merging.take() {
                None => match context.cuts.filter(|_| decoder.is_made_up) {
                    Some(cost) => return Ok(decoder.cut_response(cost)),
                    None => stream.next().await,
                },
                Some(pause) => match select(stream.next(), pause).await {
                    Either::Left((event, pause)) => {
                        merging = Some(pause);
                        event
                    }
                    Either::Right(((), _)) => {
                        decoder.flush();
                        continue;
                    }
                },
            },
        };
        let Some(event) = event else {
            return Err(LlmError::Stream { message: "it ended without an answer".into() }.into());
        };
        match event? {
            LlmEvent::Text(text) => {
                decoder.text(&text);
                if let Some(reader) = context.reader {
                    reader.read(decoder.settled_piece()).await;
                }
            }
            LlmEvent::Reasoning(text) => decoder.reasoning(text),
            LlmEvent::ToolCall { index, arguments, .. } => decoder.native(index, arguments),
            LlmEvent::Heartbeat => {}
            LlmEvent::Unread { message } => decoder.unread(message),
            LlmEvent::Retrying { attempt, delay, error } => decoder.retrying(attempt, delay, &error),
            LlmEvent::Finished(response) => return Ok(response),
        }
        if decoder.is_merging() {
            merging.get_or_insert_with(|| context.clock.sleep(MERGE_FOR));
        } else {
            merging = None;
        }
    }
}

/// Reads the reply piece by piece and emits its deltas.
struct ReplyDecoder<'t> {
    decoder: Decoder,
    emitter: DeltaEmitter<'t>,
    path: String,
    call: usize,
    /// The block has ended: what stands behind it is not for the user.
    is_behind_block: bool,
    /// Bytes that have come.
    came: usize,
    /// Bytes of the text that its reader has.
    read: usize,
    /// Something stands behind the block.
    is_made_up: bool,
    /// A native call has begun: text behind it is not for the user either, and is kept here.
    behind_call: Option<String>,
    reasoning: String,
}

/// Emits deltas; those of the same kind and location are merged.
struct DeltaEmitter<'t> {
    question: Question<'t>,
    trace: &'t Trace,
    enabled: bool,
    offset: u64,
    waiting: Option<Delta>,
}

/// Piece that may be merged with later ones.
#[derive(Debug, PartialEq, Eq)]
enum Delta {
    Text(String),
    Reasoning(String),
    Call { index: usize, path: String, text: String },
}

impl DeltaEmitter<'_> {
    fn emit(&mut self, piece: Delta) {
        if !self.enabled {
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
                let place = EventLocation { call: Some(self.question.ids.at(index)), ..self.trace.place() };
                self.trace.emit_at(place, EventBody::AgentCallDelta { path, text });
            }
        }
    }
}

impl<'t> ReplyDecoder<'t> {
    fn new(question: &Question<'t>, trace: &'t Trace, enabled: bool) -> Self {
        let vocabulary: Arc<ToolSet> = Arc::clone(question.tools);
        let decoder = Decoder::new(vocabulary, Options::default());
        let emitter = DeltaEmitter { question: *question, trace, enabled, offset: 0, waiting: None };
        let (path, reasoning) = (String::new(), String::new());
        Self {
            decoder,
            emitter,
            path,
            call: 0,
            is_behind_block: false,
            is_made_up: false,
            behind_call: None,
            reasoning,
            came: 0,
            read: 0,
        }
    }

    fn is_merging(&self) -> bool {
        self.emitter.waiting.is_some()
    }

    fn flush(&mut self) {
        self.emitter.flush();
    }

    /// Tokens of a request that ends here, if anything of its answer has come.
    fn usage(&self, count: &(dyn Fn(u64) -> Usage + Sync)) -> Usage {
        match self.came {
            0 => Usage::default(),
            came => count(came.div_ceil(4) as u64),
        }
    }

    fn text(&mut self, piece: &str) {
        self.came += piece.len();
        let Self { decoder, emitter, path, call, is_behind_block, is_made_up, behind_call, .. } = self;
        if let Some(behind) = behind_call {
            return behind.push_str(piece);
        }
        for event in decoder.push(piece.as_bytes()) {
            match event {
                Event::BlockEnd => *is_behind_block = true,
                Event::Text { text } if *is_behind_block => *is_made_up |= !text.trim().is_empty(),
                Event::Text { text } => emitter.emit(Delta::Text(text.to_owned())),
                Event::Reasoning { text } => emitter.emit(Delta::Reasoning(text.to_owned())),
                Event::ParamStart { call: index, path: name } => {
                    *call = index;
                    name.clone_into(path);
                }
                Event::ParamDelta { text } => {
                    emitter.emit(Delta::Call { index: *call, path: path.clone(), text: text.to_owned() });
                }
                _ => {}
            }
        }
    }

    /// The settled text that the reader of the text does not have.
    fn settled_piece(&mut self) -> &str {
        let settled = self.decoder.settled_text();
        let read = std::mem::replace(&mut self.read, settled.len());
        settled.get(read..).unwrap_or_default()
    }

    fn reasoning(&mut self, text: String) {
        self.came += text.len();
        self.reasoning.push_str(&text);
        self.emitter.emit(Delta::Reasoning(text));
    }

    fn retrying(&mut self, attempt: u32, delay: Duration, error: &LlmError) {
        self.emitter.flush();
        self.emitter.trace.emit(EventBody::AgentWarning {
            kind: "llm_retry".into(),
            message: retry_message(attempt, delay, error),
        });
    }

    fn unread(&mut self, message: String) {
        self.emitter.flush();
        self.emitter.trace.emit(EventBody::AgentWarning { kind: "llm_unread".into(), message });
    }

    fn native(&mut self, index: usize, arguments: String) {
        self.came += arguments.len();
        self.behind_call.get_or_insert_default();
        if !arguments.is_empty() {
            self.emitter.emit(Delta::Call { index, path: String::new(), text: arguments });
        }
    }

    /// The reply up to here, whose rest the server need not write.
    fn cut_response(&self, CutCost { asked, model }: CutCost<'_>) -> StandardResponse {
        let text = self.decoder.text().to_owned();
        let written = estimate_tokens(&text) + estimate_tokens(&self.reasoning);
        StandardResponse {
            usage: estimated(asked, u64::try_from(written).unwrap_or(u64::MAX), model),
            reasoning: Some(self.reasoning.clone()).filter(|reasoning| !reasoning.is_empty()),
            text,
            ..StandardResponse::default()
        }
    }

    /// Takes the text behind native calls out of a reply.
    fn drop_behind_calls(&mut self, response: &mut StandardResponse) -> Option<String> {
        let behind = self.behind_call.take().filter(|behind| !behind.is_empty())?;
        let kept = response.text.strip_suffix(behind.as_str())?.len();
        response.text.truncate(kept);
        Some(behind).filter(|behind| !behind.trim().is_empty())
    }

    fn end(&mut self, response: &StandardResponse) {
        self.decoder.add_native(natives(response));
        self.close(finish_reason(&response.finish));
    }

    /// The text for the user of a reply that broke off.
    fn cut(mut self) -> String {
        self.close(FinishReason::Length);
        let parsed = self.decoder.finish(FinishReason::Length);
        let text = if self.is_behind_block { parsed.text_before } else { parsed.text };
        text.trim().to_owned()
    }

    fn close(&mut self, finish: FinishReason) {
        for event in self.decoder.close(finish) {
            match event {
                Event::BlockEnd => self.is_behind_block = true,
                Event::Text { text } if !self.is_behind_block => {
                    self.emitter.emit(Delta::Text(text.to_owned()));
                }
                _ => {}
            }
        }
        self.emitter.flush();
    }
}

/// Estimated usage with its cost.
pub fn estimated(asked: u64, written: u64, model: &ModelInfo) -> Usage {
    let mut usage = Usage::new(asked, written).as_estimate();
    usage.cost_micros = model.cost_micros(usage);
    usage
}

/// Finish reason for the reader of the reply.
fn finish_reason(finish: &Finish) -> FinishReason {
    match finish {
        Finish::Length => FinishReason::Length,
        Finish::ContentFilter | Finish::Other(_) => FinishReason::ContentFilter,
        Finish::ToolCalls => FinishReason::ToolCalls,
        Finish::Stop => FinishReason::Stop,
    }
}

/// The end of a request that gave no answer; what was written until then stands in the deltas.
fn unfinished(finish: &str, shown: &str, usage: Usage) -> EventBody {
    EventBody::AgentLlmFinished {
        text: shown.to_owned(),
        reasoning: None,
        tool_calls: None,
        finish: finish.to_owned(),
        usage,
        dropped: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_estimated_has_its_cost() {
        let mut model = ModelInfo::default();
        (model.price_in, model.price_out) = (Some(2.0), Some(10.0));
        let usage = estimated(100, 7, &model);
        assert_eq!((usage.total, usage.cost_micros, usage.estimated), (107, 270, true));
    }
}
