//! A checked endpoint: what a file says of a request, parsed once.

use std::time::Duration;

use agent_types::Problem;
use reqwest::Method;
use reqwest::header::HeaderName;
use serde_json::Value;

use crate::auth::Auth;
use crate::body::BodyTemplate;
use crate::config::{
    AuthConfig, DEFAULT_TIMEOUT_MS, EndpointConfig, ProblemCode, QueryStyle, QueryValue, ResponseConfig,
    RetryConfig,
};
use crate::encode;
use crate::response::ResponseShape;
use crate::template::{JsonTemplate, Scope, Source, TextTemplate, UrlTemplate};

/// Most attempts after the first.
const MAX_RETRIES: u32 = 10;

/// Headers that the client sets itself, or that belong to the connection.
const OWN_HEADERS: [&str; 10] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "accept-encoding",
];

/// Everything that a file says of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallConfig {
    /// Target and contents of the request.
    pub endpoint: EndpointConfig,
    /// Authentication of the call.
    pub auth: Option<AuthConfig>,
    /// Retries of the call.
    pub retry: Option<RetryConfig>,
    /// Handling of the answer.
    pub response: ResponseConfig,
}

/// Faults of an endpoint, all at once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
#[non_exhaustive]
pub struct ConfigError {
    /// All problems.
    pub problems: Vec<Problem>,
}

/// An endpoint, checked and parsed. [`HttpCaller::call`](crate::HttpCaller::call) fills it.
///
/// ```
/// use http_caller::{CallConfig, Endpoint, EndpointConfig, Scope};
/// use serde_json::json;
///
/// let endpoint = |url: &str| CallConfig {
///     endpoint: EndpointConfig { url: url.into(), ..EndpointConfig::default() },
///     ..CallConfig::default()
/// };
/// let parameters = json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]});
/// let scope = Scope::new(&parameters, &[]);
/// assert!(Endpoint::new(&endpoint("https://api.test/users/{id}"), &scope).is_ok());
/// let error = Endpoint::new(&endpoint("https://{id}/users"), &scope).unwrap_err();
/// assert_eq!(error.problems[0].code, "template_in_authority");
/// ```
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub(crate) method: Method,
    pub(crate) url: UrlTemplate,
    pub(crate) query: Vec<(String, QueryTemplate)>,
    pub(crate) headers: Vec<(HeaderName, TextTemplate)>,
    pub(crate) body: Option<BodyTemplate>,
    pub(crate) auth: Option<Auth>,
    pub(crate) retry: Option<RetryConfig>,
    pub(crate) response: ResponseShape,
    pub(crate) timeout: Duration,
    /// The status of an answer counts alone.
    pub(crate) hands_over: bool,
}

/// Values of one name in the query.
#[derive(Debug, Clone)]
pub(crate) enum QueryTemplate {
    /// One pair.
    One(TextTemplate),
    /// A pair for each item.
    Each(Vec<JsonTemplate>),
    /// A list or an object in a style; the truth value is `explode`.
    Styled(Source, QueryStyle, bool),
}

impl Endpoint {
    /// Checks and parses the configuration; the scope holds the names that placeholders may use.
    ///
    /// # Errors
    /// All faults at once, each with its location.
    pub fn new(config: &CallConfig, scope: &Scope) -> Result<Self, ConfigError> {
        let mut checker = Checker { problems: Vec::new() };
        let endpoint = checker.endpoint(config, scope);
        match endpoint {
            Some(endpoint) if checker.problems.is_empty() => Ok(endpoint),
            Some(_) | None => Err(ConfigError { problems: checker.problems }),
        }
    }

    /// The method, in capitals.
    #[must_use]
    pub fn method(&self) -> &str {
        self.method.as_str()
    }

    /// Returns `true` for a method without side effects: `GET`, `HEAD` and `OPTIONS`.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.method.is_safe()
    }

    /// Returns `true` when a repeated call has the effect of a single one.
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        self.method.is_idempotent()
    }

    /// Scheme, host and port, which no argument changes.
    #[must_use]
    pub fn origin(&self) -> String {
        self.url.origin().origin().ascii_serialization()
    }

    /// The same endpoint, whose answers stay as the server gives them.
    #[must_use]
    pub fn unshaped(&self) -> Self {
        Self { response: self.response.unshaped(), ..self.clone() }
    }

    /// The same endpoint for something that is handed over: a status between 200 and 299 is all that counts, whatever the
    /// body. A redirect is a failure, since what is handed over would not go with it.
    #[must_use]
    pub fn handing_over(&self) -> Self {
        Self { hands_over: true, ..self.clone() }
    }

    /// Longest time of a whole call.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }
}

/// Gathers what is wrong.
pub(crate) struct Checker {
    problems: Vec<Problem>,
}

impl Checker {
    pub(crate) fn fault(&mut self, path: &str, code: ProblemCode, message: impl Into<String>) {
        self.problems.push(Problem::error(code, message).path(path));
    }

    /// The value, or none with the fault noted.
    pub(crate) fn take<T>(&mut self, path: &str, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|refused| self.problems.push(refused.path(path))).ok()
    }

    fn endpoint(&mut self, config: &CallConfig, scope: &Scope) -> Option<Endpoint> {
        let CallConfig { endpoint, auth, retry, response } = config;
        let method = self.method(endpoint);
        let parsed = UrlTemplate::parse(&endpoint.url, scope);
        let url = self.take("endpoint.url", parsed);
        let query = endpoint.query_params.iter().map(|(name, value)| self.query(name, value, scope));
        let query = query.collect::<Vec<_>>().into_iter().flatten().collect();
        let headers = endpoint.headers.iter().map(|(name, value)| self.header(name, value, scope));
        let headers: Vec<_> = headers.collect::<Vec<_>>().into_iter().flatten().collect();
        let body =
            endpoint.body.as_ref().map(|body| BodyTemplate::parse(self, body, &endpoint.headers, scope));
        let auth = auth.as_ref().map(|auth| Auth::parse(self, auth, scope));
        let response = ResponseShape::parse(self, response);
        if let (Some(method), Some(retry)) = (&method, retry) {
            if !method.is_idempotent() {
                let message = format!("a {method} may not be repeated, so it has no retry");
                self.fault("retry", ProblemCode::BadRetry, message);
            }
            if retry.max > MAX_RETRIES {
                self.fault("retry.max", ProblemCode::BadLimit, format!("at most {MAX_RETRIES}"));
            }
        }
        if endpoint.timeout_ms == Some(0) {
            self.fault("endpoint.timeout_ms", ProblemCode::BadLimit, "at least 1");
        }
        Some(Endpoint {
            method: method?,
            url: url?,
            query,
            headers,
            body: match body {
                Some(body) => Some(body?),
                None => None,
            },
            auth: match auth {
                Some(auth) => Some(auth?),
                None => None,
            },
            retry: *retry,
            response: response?,
            timeout: Duration::from_millis(endpoint.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS)),
            hands_over: false,
        })
    }

    fn method(&mut self, endpoint: &EndpointConfig) -> Option<Method> {
        let named = endpoint.method.as_deref().map(str::to_ascii_uppercase);
        let method = match named.as_deref() {
            None if endpoint.body.is_some() => Method::POST,
            None | Some("GET") => Method::GET,
            Some("HEAD") => Method::HEAD,
            Some("OPTIONS") => Method::OPTIONS,
            Some("POST") => Method::POST,
            Some("PUT") => Method::PUT,
            Some("PATCH") => Method::PATCH,
            Some("DELETE") => Method::DELETE,
            Some(other) => {
                let message = format!("`{other}` is not one of GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE");
                self.fault("endpoint.method", ProblemCode::BadMethod, message);
                return None;
            }
        };
        if endpoint.body.is_some() && method == Method::HEAD {
            let message = format!("a {method} has no body; use query_params, or another method");
            self.fault("endpoint.method", ProblemCode::BadMethod, message);
            return None;
        }
        Some(method)
    }

    fn query(&mut self, name: &str, value: &QueryValue, scope: &Scope) -> Option<(String, QueryTemplate)> {
        let path = format!("endpoint.query_params.{name}");
        let template = match value {
            QueryValue::One(Value::String(text)) => {
                QueryTemplate::One(self.take(&path, TextTemplate::parse(text, scope))?)
            }
            QueryValue::Styled(styled) => {
                let template = self.take(&path, TextTemplate::parse(&styled.value, scope))?;
                let Some(source) = template.only() else {
                    let message = "the value of a style is one placeholder: {name}";
                    self.fault(&path, ProblemCode::BadTemplate, message);
                    return None;
                };
                let explode = styled.explode.unwrap_or(styled.style == QueryStyle::Form);
                QueryTemplate::Styled(source.clone(), styled.style, explode)
            }
            QueryValue::One(value) => QueryTemplate::Each(vec![JsonTemplate::Fixed(value.clone())]),
            QueryValue::Each(items) => {
                let items = items.iter().map(|item| self.take(&path, JsonTemplate::parse(item, scope)));
                QueryTemplate::Each(items.collect::<Option<_>>()?)
            }
        };
        Some((encode::component(name), template))
    }

    pub(crate) fn header_name(&mut self, path: &str, name: &str) -> Option<HeaderName> {
        let parsed = HeaderName::from_bytes(name.as_bytes()).ok();
        let Some(parsed) = parsed else {
            self.fault(path, ProblemCode::BadHeader, format!("`{name}` is not a valid header name"));
            return None;
        };
        if OWN_HEADERS.contains(&parsed.as_str()) || parsed.as_str().starts_with("proxy-") {
            self.fault(path, ProblemCode::BadHeader, format!("`{name}` is set by the client itself"));
            return None;
        }
        Some(parsed)
    }

    fn header(&mut self, name: &str, value: &str, scope: &Scope) -> Option<(HeaderName, TextTemplate)> {
        let path = format!("endpoint.headers.{name}");
        let parsed = self.header_name(&path, name)?;
        if value.chars().any(char::is_control) {
            self.fault(&path, ProblemCode::BadHeader, "the value holds a line break or a control character");
            return None;
        }
        let template = self.take(&path, TextTemplate::parse(value, scope))?;
        let writes_credential = matches!(parsed.as_str(), "authorization" | "cookie" | "x-api-key");
        if writes_credential && template.sources().next().is_none() {
            self.fault(&path, ProblemCode::SecretInFile, "a credential is written out; use {$secret.NAME}");
            return None;
        }
        Some((parsed, template))
    }
}
