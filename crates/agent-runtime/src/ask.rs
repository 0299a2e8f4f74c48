//! One question to the model, read while it is answered.

use std::sync::Arc;

use agent_types::{EventBody, Place, Usage};
use futures::StreamExt;
use futures::future::{Either, select};
use llm_provider::{LlmError, LlmEvent, LlmProvider, LlmRequest, StandardResponse, retry_message};
use protocol_action::{Decoder, Event, NativeCall, Options, Parsed};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use tool_schema::ToolSet;

use crate::decide::finish_reason;
use crate::driver::Trace;

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

/// Asks, and tells what comes as it comes. Ids of calls count on from `first_call`.
pub(crate) async fn ask(
    model: &dyn LlmProvider,
    request: LlmRequest,
    tools: &Arc<ToolSet>,
    trace: &Trace,
    cancel: &CancellationToken,
    first_call: u64,
) -> Result<Answer, NoAnswer> {
    trace.emit(EventBody::AgentLlmStarted {
        model: model.info().name.clone(),
        messages: request.messages.len(),
        digest: digest(&request),
    });
    trace.emit(EventBody::AgentThinking {});
    let mut listener = Listener::new(tools, trace, first_call);
    let reading = async {
        let mut stream = model.stream(request).await?;
        while let Some(event) = stream.next().await {
            match event? {
                LlmEvent::Text(text) => listener.text(&text),
                LlmEvent::Reasoning(text) => trace.emit(EventBody::AgentReasoningDelta { text }),
                LlmEvent::ToolCall { index, arguments, .. } => listener.native(index, arguments),
                LlmEvent::Heartbeat => {}
                LlmEvent::Retrying { attempt, delay, error } => trace.emit(EventBody::AgentWarning {
                    kind: "llm_retry".into(),
                    message: retry_message(attempt, delay, &error),
                }),
                LlmEvent::Finished(response) => return Ok(response),
            }
        }
        Err(LlmError::Stream { message: "it ended without an answer".into() })
    };
    let response = match select(std::pin::pin!(reading), std::pin::pin!(cancel.cancelled())).await {
        Either::Left((Ok(response), _)) => response,
        Either::Left((Err(error), _)) => {
            trace.emit(unfinished("error"));
            return Err(NoAnswer::Llm(error));
        }
        Either::Right(((), _)) => {
            trace.emit(unfinished("cancelled"));
            return Err(NoAnswer::Cancelled);
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

/// A short name for the messages of a request, equal where they are equal.
fn digest(request: &LlmRequest) -> String {
    let mut hash = Sha256::new();
    for message in &request.messages {
        hash.update((message.text().len() as u64).to_le_bytes());
        hash.update(message.text());
    }
    format!("{:x}", hash.finalize()).split_off(48)
}

/// Reads the reply piece by piece and tells its deltas.
struct Listener<'t> {
    decoder: Decoder,
    trace: &'t Trace,
    offset: u64,
    first_call: u64,
    path: String,
    call: usize,
}

impl<'t> Listener<'t> {
    fn new(tools: &Arc<ToolSet>, trace: &'t Trace, first_call: u64) -> Self {
        let vocabulary: Arc<ToolSet> = Arc::clone(tools);
        let decoder = Decoder::new(vocabulary, Options::default());
        Self { decoder, trace, offset: 0, first_call, path: String::new(), call: 0 }
    }

    fn text(&mut self, piece: &str) {
        let Self { decoder, trace, offset, first_call, path, call } = self;
        let place = |index: usize| Place { call: Some(call_id(*first_call, index)), ..trace.place() };
        for event in decoder.push(piece.as_bytes()) {
            match event {
                Event::Text { text } => {
                    trace.emit(EventBody::AgentTextDelta { offset: *offset, text: text.to_owned() });
                    *offset += text.len() as u64;
                }
                Event::Reasoning { text } => {
                    trace.emit(EventBody::AgentReasoningDelta { text: text.to_owned() });
                }
                Event::ParamStart { call: index, path: name } => {
                    *call = index;
                    name.clone_into(path);
                }
                Event::ParamDelta { text } => trace.emit_at(
                    place(*call),
                    EventBody::AgentCallDelta { path: path.clone(), text: text.to_owned() },
                ),
                _ => {}
            }
        }
    }

    fn native(&self, index: usize, arguments: String) {
        if !arguments.is_empty() {
            let place = Place { call: Some(call_id(self.first_call, index)), ..self.trace.place() };
            self.trace.emit_at(place, EventBody::AgentCallDelta { path: String::new(), text: arguments });
        }
    }

    fn finish(mut self, response: &StandardResponse) -> Parsed {
        let natives = response.tool_calls.iter();
        self.decoder.add_native(
            natives.map(|call| NativeCall { name: call.name.clone(), arguments: call.arguments.clone() }),
        );
        let finish = finish_reason(&response.finish);
        let (trace, offset) = (self.trace, &mut self.offset);
        for event in self.decoder.close(finish) {
            if let Event::Text { text } = event {
                trace.emit(EventBody::AgentTextDelta { offset: *offset, text: text.to_owned() });
                *offset += text.len() as u64;
            }
        }
        self.decoder.finish(finish)
    }
}

fn call_id(first: u64, index: usize) -> agent_types::CallId {
    agent_types::CallId::new(format!("c{}", first + index as u64))
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
