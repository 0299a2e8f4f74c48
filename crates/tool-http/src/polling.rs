//! Work of a server that continues after its answer: where it is polled, and when it is done.

use std::future::Future;
use std::time::Duration;

use http_caller::{
    AuthConfig, CallConfig, CallValues, Endpoint, EndpointConfig, HttpAnswer, HttpCaller, HttpError,
    JsonQuery, ResponseConfig, Scope,
};
use serde_json::{Map, Value, json};
use tool_registry::{ToolContext, ToolError, ToolErrorKind};

use crate::async_config::AsyncConfig;
use crate::error::HttpToolError;
use crate::failure::tool_error;
use crate::file::HttpToolFile;
use crate::progress::{Progress, check_repeat, lenient, query};

/// Pause between two requests where neither the file nor the server names one, in milliseconds.
const INTERVAL_MS: u64 = 2000;

/// Shortest pause that a server may ask for.
const SHORTEST: Duration = Duration::from_millis(250);

/// Polling of a tool.
#[derive(Debug, Clone)]
pub(crate) struct Polling {
    place: Option<JsonQuery>,
    interval: Duration,
    pub(crate) limit: Duration,
    progress: Progress,
    auth: Option<AuthConfig>,
    response: ResponseConfig,
    timeout_ms: Option<u64>,
}

impl Polling {
    pub(crate) fn new(config: &AsyncConfig, file: &HttpToolFile) -> Result<Self, HttpToolError> {
        Ok(Self {
            place: config.poll.as_deref().map(|text| query(text, "poll")).transpose()?,
            interval: Duration::from_millis(config.interval_ms.unwrap_or(INTERVAL_MS)),
            limit: config.limit(),
            progress: Progress::new(config)?,
            auth: file.auth.clone(),
            response: file.response.clone().unwrap_or_default(),
            timeout_ms: file.endpoint.timeout_ms,
        })
    }

    /// The result of the work that a request starts; of work that another process started, what it stored is polled.
    pub(crate) async fn result(
        &self,
        endpoint: &Endpoint,
        caller: &HttpCaller,
        start: impl Future<Output = Result<HttpAnswer, HttpError>> + Send,
        cx: &ToolContext,
    ) -> Result<HttpAnswer, ToolError> {
        if let Some(place) = cx.saved.as_deref().and_then(|saved| saved.get("poll")?.as_str()) {
            return self.poll(place, self.interval, (endpoint, caller), cx).await;
        }
        check_repeat(endpoint, cx)?;
        let answer = start.await.map_err(|error| tool_error(&error))?;
        if !self.progress.continues(&answer)? {
            return answer.shaped(endpoint).map_err(|error| tool_error(&error));
        }
        let place = self.place(&answer, &endpoint.origin())?;
        cx.save(&json!({"poll": place}));
        self.poll(&place, self.pause(&answer), (endpoint, caller), cx).await
    }

    /// Polls until the work is done.
    async fn poll(
        &self,
        place: &str,
        first: Duration,
        (started, caller): (&Endpoint, &HttpCaller),
        cx: &ToolContext,
    ) -> Result<HttpAnswer, ToolError> {
        let endpoint = self.endpoint(place, &started.origin())?;
        let (unshaped, none) = (endpoint.unshaped(), Map::new());
        let mut pause = first;
        let begun = cx.clock.elapsed();
        loop {
            let left = self.limit.saturating_sub(cx.clock.elapsed().saturating_sub(begun));
            cx.clock.sleep(pause.min(left.max(SHORTEST))).await;
            let values = CallValues { arguments: &none, context: &cx.values };
            pause = match caller.call(&unshaped, values).await {
                Ok(answer) if self.progress.continues(&answer)? => self.pause(&answer),
                Ok(answer) => return answer.shaped(&endpoint).map_err(|error| tool_error(&error)),
                // The server may be back before the limit.
                Err(error) if error.is_retryable() => self.interval,
                Err(error) => return Err(tool_error(&error)),
            };
        }
    }

    /// The address to poll.
    fn place(&self, answer: &HttpAnswer, origin: &str) -> Result<String, ToolError> {
        let named = match &self.place {
            Some(path) => {
                let body = lenient(&answer.body);
                path.all(&body).ok().and_then(|found| Some(found.first()?.as_str()?.to_owned()))
            }
            None => answer.headers.get("location").and_then(Value::as_str).map(str::to_owned),
        };
        match named {
            Some(place) if place.starts_with("https://") || place.starts_with("http://") => Ok(place),
            Some(place) if place.starts_with('/') && !place.starts_with("//") => {
                Ok(format!("{origin}{place}"))
            }
            Some(_) | None => {
                let message = "the server accepted the work and names no address to poll";
                Err(ToolError::new(ToolErrorKind::Failed, message).with_code("http_no_poll"))
            }
        }
    }

    /// The pause that an answer asks for.
    fn pause(&self, answer: &HttpAnswer) -> Duration {
        self.pause_after(answer.headers.get("retry-after").and_then(Value::as_str))
    }

    fn pause_after(&self, named: Option<&str>) -> Duration {
        let seconds = named.and_then(|seconds| seconds.trim().parse().ok());
        seconds.map_or(self.interval, |seconds| Duration::from_secs(seconds).max(SHORTEST))
    }

    /// The request that polls an address which the server named. Credentials stay with the origin of the tool's endpoint.
    fn endpoint(&self, place: &str, origin: &str) -> Result<Endpoint, ToolError> {
        let url = place.replace('{', "{{").replace('}', "}}");
        let endpoint = EndpointConfig { url, timeout_ms: self.timeout_ms, ..EndpointConfig::default() };
        let mut config = CallConfig { endpoint, auth: None, retry: None, response: self.response.clone() };
        let parsed = |config: &CallConfig| {
            Endpoint::new(config, &Scope::new(&json!({}), &[])).map_err(|error| refused(&error.to_string()))
        };
        let plain = parsed(&config)?;
        if origin.starts_with("https:") && !plain.origin().starts_with("https:") {
            return Err(refused("it is not encrypted, and the tool's endpoint is"));
        }
        if plain.origin() != origin {
            return Ok(plain);
        }
        config.auth.clone_from(&self.auth);
        parsed(&config)
    }
}

fn refused(reason: &str) -> ToolError {
    let message = format!("the server names an address that cannot be polled: {reason}");
    ToolError::new(ToolErrorKind::Failed, message).with_code("http_no_poll")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polling() -> Polling {
        let file = json!({"name": "t", "description": "d", "endpoint": {"url": "https://a.test/x"},
            "auth": {"type": "bearer", "token": "{$secret.T}"}});
        Polling::new(&AsyncConfig::default(), &HttpToolFile::from_json(&file.to_string()).unwrap()).unwrap()
    }

    #[test]
    fn credentials_stay_with_the_origin() {
        let polling = polling();
        let has_auth = |place: &str, origin: &str| {
            let endpoint = polling.endpoint(place, origin).map_err(|error| error.message_for_model);
            endpoint.map(|endpoint| format!("{endpoint:?}").contains("auth: Some"))
        };
        for (place, origin, expected) in [
            ("https://a.test/1", "https://a.test", true),
            ("https://a.test:443/1", "https://a.test", true),
            ("https://a.test:444/1", "https://a.test", false),
            ("https://b.test/1", "https://a.test", false),
            ("http://a.test/1", "http://a.test", true),
            ("https://a.test/1", "http://a.test", false),
        ] {
            assert_eq!(has_auth(place, origin), Ok(expected), "{place} {origin}");
        }
        let error = has_auth("http://a.test/1", "https://a.test").unwrap_err();
        assert_eq!(
            error,
            "the server names an address that cannot be polled: it is not encrypted, and the tool's endpoint is"
        );
    }

    #[test]
    fn a_server_that_asks_for_no_pause_gets_one() {
        for (named, expected) in [(None, 2000), (Some("soon"), 2000), (Some("0"), 250), (Some(" 3 "), 3000)] {
            assert_eq!(polling().pause_after(named), Duration::from_millis(expected), "{named:?}");
        }
    }
}
