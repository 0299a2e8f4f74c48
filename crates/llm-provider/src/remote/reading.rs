//! An answer as it comes from the socket.

use std::sync::Arc;

use agent_types::{Clock, ClockHold};
use reqwest::Response;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::answer::{Answer, End};
use super::decoder::{Decoder, Frame, Framing, TooLong};
use super::dialect::Dialect;
use super::fault::{Secret, error_beside, error_in, network_error, streamed_error};
use crate::{LlmError, LlmEvent, LlmRequest};

/// Most bytes of a body that is not a stream of events, and may still be an answer or an error.
const MAX_STRAY: usize = 16 << 20;

/// Most bytes of a body, whatever it holds: comments and repeated frames are bytes too.
const MAX_RECEIVED: usize = 128 << 20;

/// An answer that is being read.
pub(super) struct Reading {
    response: Option<Response>,
    decoder: Decoder,
    framing: Framing,
    dialect: Box<dyn Dialect>,
    answer: Answer,
    request: LlmRequest,
    /// Provider and model.
    source: String,
    /// The lines that are not events.
    stray: String,
    has_events: bool,
    /// Bytes that came.
    received: usize,
    /// The end, once everything before it has been emitted.
    end: Option<Result<(), LlmError>>,
    is_over: bool,
    secret: Secret,
    /// A virtual clock stands still while the connection is open.
    _busy: Option<ClockHold>,
}

impl Reading {
    pub(super) fn new(
        response: Response,
        framing: Framing,
        dialect: Box<dyn Dialect>,
        (request, source): (LlmRequest, String),
        secret: Secret,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        Self {
            response: Some(response),
            decoder: Decoder::new(framing),
            framing,
            dialect,
            answer: Answer::default(),
            request,
            source,
            stray: String::new(),
            has_events: false,
            received: 0,
            end: None,
            is_over: false,
            secret,
            _busy: clock.busy(),
        }
    }

    pub(super) async fn next(mut self) -> Option<(Result<LlmEvent, LlmError>, Self)> {
        if self.is_over {
            return None;
        }
        loop {
            if let Some(event) = self.answer.next() {
                return Some((Ok(event), self));
            }
            if let Some(end) = self.end.take() {
                let answer = std::mem::take(&mut self.answer);
                let end = end.map(|()| LlmEvent::Finished(answer.finish(&self.request, &self.source)));
                self.is_over = true;
                return Some((end.map_err(|error| self.secret.hide(error)), self));
            }
            let read = self.read().await;
            self.end = match read {
                Err(error) => Some(Err(error)),
                Ok(()) if self.answer.end() == End::Last => Some(Ok(())),
                Ok(()) => self.end,
            };
            if self.end.is_some() {
                // The connection is closed before the rest is emitted.
                self.response = None;
                self.dialect.end(&mut self.answer);
            }
        }
    }

    /// Reads what has come, or waits for more.
    async fn read(&mut self) -> Result<(), LlmError> {
        if let Some(frame) = self.decoder.next() {
            return self.take(frame);
        }
        let Some(response) = &mut self.response else { return self.closed() };
        match response.chunk().await {
            Ok(Some(bytes)) => {
                self.received = self.received.saturating_add(bytes.len());
                if self.received > MAX_RECEIVED {
                    return Err(Answer::too_long());
                }
                self.decoder.push(&bytes).map_err(too_long)
            }
            Ok(None) => {
                self.response = None;
                self.decoder.end().map_err(too_long)
            }
            // What the server said of the end counts, whatever becomes of the connection behind it.
            Err(_) if self.answer.end() == End::Told => {
                self.end = Some(Ok(()));
                Ok(())
            }
            Err(error) => Err(network_error(&error)),
        }
    }

    fn take(&mut self, frame: Frame) -> Result<(), LlmError> {
        match frame {
            Frame::Comment => self.answer.heartbeat(),
            Frame::Stray(line) => return self.take_stray(&line),
            Frame::Data { event, data } if data.trim().is_empty() && event != "error" => {
                self.answer.heartbeat();
            }
            Frame::Data { data, .. } if data.trim() == "[DONE]" => {
                self.has_events = true;
                self.answer.last();
            }
            Frame::Data { event, data } => match agent_types::read_json::<Value>(data.as_bytes()) {
                Ok(value) => {
                    self.has_events = true;
                    self.event(&event, &value)?;
                }
                Err(_) if event == "error" => return Err(streamed_error(&data.into())),
                Err(error) if serde_json::from_str::<IgnoredAny>(&data).is_ok() => {
                    return Err(LlmError::Stream { message: error.to_string() });
                }
                // An error may be written over several lines.
                Err(_) if self.framing == Framing::Lines && !self.has_events => {
                    return self.take_stray(&data);
                }
                Err(_) => {
                    return Err(LlmError::Stream { message: format!("a line is not an event: {data}") });
                }
            },
        }
        if self.answer.is_too_long() {
            return Err(Answer::too_long());
        }
        self.answer.keep_to(self.request.parameters.max_tokens.map(u64::from));
        Ok(())
    }

    fn event(&mut self, event: &str, value: &Value) -> Result<(), LlmError> {
        if event == "error" {
            return Err(streamed_error(value));
        }
        if let Some(error) = error_in(value) {
            return Err(error);
        }
        if !value.is_object() && !value.is_array() {
            return Err(LlmError::Stream { message: format!("a line is not an event: {value}") });
        }
        self.dialect.read(event, value, &mut self.answer)
    }

    fn take_stray(&mut self, line: &str) -> Result<(), LlmError> {
        if let Some(error) = serde_json::from_str::<Value>(line).ok().as_ref().and_then(error_in) {
            return Err(error);
        }
        if self.stray.len() + line.len() > MAX_STRAY {
            return Err(too_long(TooLong));
        }
        self.stray.push_str(line);
        self.stray.push('\n');
        Ok(())
    }

    /// The connection was closed.
    fn closed(&mut self) -> Result<(), LlmError> {
        let stray = std::mem::take(&mut self.stray);
        if !self.has_events && !stray.trim().is_empty() {
            // A body that is not a stream may be a whole answer, or an error.
            let Ok(value) = agent_types::read_json::<Value>(stray.as_bytes()) else {
                return Err(no_stream(&stray));
            };
            self.has_events = true;
            if let Some(error) = value.get(0).and_then(error_in) {
                return Err(error);
            }
            self.event("", &value)?;
            if self.answer.end() == End::Open {
                return Err(error_beside(&value).unwrap_or_else(|| no_stream(&stray)));
            }
        }
        match self.answer.end() {
            End::Open if stray.trim().is_empty() => {
                Err(LlmError::Stream { message: "it ended before its last event".into() })
            }
            End::Open => {
                Err(LlmError::Stream { message: format!("it ended before its last event: {}", stray.trim()) })
            }
            End::Told | End::Last => {
                self.end = Some(Ok(()));
                Ok(())
            }
        }
    }
}

fn too_long(_: TooLong) -> LlmError {
    LlmError::Stream { message: "it holds an event that is too long".into() }
}

fn no_stream(body: &str) -> LlmError {
    LlmError::Stream { message: format!("the body is not a stream of events: {}", body.trim()) }
}
