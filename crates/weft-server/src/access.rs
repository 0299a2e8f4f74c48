//! Access checks: the Host and the Origin of a request, and its token.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use weft_project::{PublicUrl, ServerSettings};

use crate::app::App;
use crate::connection::Connection;
use crate::openai;
use crate::problem::Problem;
use crate::token::Token;
use crate::widget::Limits;

/// Content security policy of the page: it may load from and connect to this server alone.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers that every answer has.
const ALWAYS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Names that the server answers to, and pages that may ask.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    bound: SocketAddr,
    hosts: Vec<String>,
    origins: Vec<String>,
    token: Option<Token>,
    /// Messages of users of embedded chats.
    pub(crate) limits: Arc<Limits>,
}

/// Checks that a client must pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    /// Nothing: the page's files, and what kind of server this is.
    Open,
    /// The token, in a header.
    Token,
    /// The token, in the first message of the socket.
    Hello,
}

impl Access {
    pub(crate) fn new(bound: SocketAddr, settings: &ServerSettings, token: Option<Token>) -> Self {
        let lower = |texts: &[String]| -> Vec<String> {
            texts.iter().map(|text| text.to_ascii_lowercase()).collect()
        };
        let public = settings.public_url.as_ref().map(PublicUrl::host);
        Self {
            bound,
            hosts: lower(&settings.hosts).into_iter().chain(public).collect(),
            origins: lower(&settings.origins),
            token,
            limits: Arc::default(),
        }
    }

    /// Returns `true` when a text is the token, or none is required.
    pub(crate) fn opens(&self, given: Option<&str>) -> bool {
        match (&self.token, given) {
            (None, _) => true,
            (Some(token), Some(given)) => token.is(given),
            (Some(_), None) => false,
        }
    }

    /// Refuses a name that is not ours, as a page has whose name was made to point here.
    fn check_host(&self, request: &Request) -> Result<String, Problem> {
        let refused = |host: &str| {
            Problem::new(
                StatusCode::FORBIDDEN,
                "host_refused",
                format!("this server does not answer to the name `{host}`"),
            )
            .with_help("add the name to `hosts` in [server] of weft.toml")
        };
        let text =
            request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let in_target = request.uri().authority();
        let host: Authority = text.parse().map_err(|_| refused(text))?;
        for authority in in_target.into_iter().chain([&host]) {
            if !self.answers_to(authority) {
                return Err(refused(authority.as_str()));
            }
        }
        Ok(text.to_ascii_lowercase())
    }

    fn answers_to(&self, authority: &Authority) -> bool {
        let name = authority.host().to_ascii_lowercase();
        let listed = |text: &str| self.hosts.iter().any(|host| host == text);
        if listed(&name) || listed(&authority.as_str().to_ascii_lowercase()) {
            return true;
        }
        if authority.as_str().contains('@')
            || authority.port_u16().is_some_and(|port| port != self.bound.port())
        {
            return false;
        }
        let bound = self.bound.ip();
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match address {
            // A name can be made to point anywhere, an address cannot.
            Ok(address) => !bound.is_loopback() || address.is_loopback(),
            Err(_) => name == "localhost" && (bound.is_loopback() || bound.is_unspecified()),
        }
    }

    /// Returns `true` when a page of this origin may write here, or open a socket.
    fn admits(&self, origin: &str, host: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        let own = |scheme: &str| origin.strip_prefix(scheme).is_some_and(|rest| rest == host);
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let is_behind_proxy = self.hosts.iter().any(|listed| listed == host || listed == name);
        own("http://") || (is_behind_proxy && own("https://")) || self.is_listed(&origin)
    }

    fn is_listed(&self, origin: &str) -> bool {
        lists(&self.origins, origin)
    }

    /// Refuses a page of another origin that is listed neither in the settings nor in `more`.
    pub(crate) fn check_page(&self, headers: &HeaderMap, more: &[String]) -> Result<(), Problem> {
        let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let is_admitted =
            |origin: &str| self.admits(origin, &host.to_ascii_lowercase()) || lists(more, origin);
        if origin.to_str().is_ok_and(is_admitted) {
            return Ok(());
        }
        let shown = String::from_utf8_lossy(origin.as_bytes()).into_owned();
        let detail = format!("pages of `{shown}` may not use this server");
        Err(Problem::new(StatusCode::FORBIDDEN, "origin_refused", detail)
            .with_help("add the origin to `origins` in [server] of weft.toml"))
    }

    fn check(&self, request: &Request) -> Result<(), Problem> {
        self.check_host(request)?;
        let headers = request.headers();
        let gate = gate(request.uri().path());
        let is_write = !matches!(*request.method(), Method::GET | Method::HEAD);
        if is_write || gate == Gate::Hello {
            self.check_page(headers, &[])?;
        }
        let given = bearer(headers);
        match gate {
            Gate::Open | Gate::Hello => Ok(()),
            Gate::Token if self.opens(given) => Ok(()),
            Gate::Token => Err(Self::no_token(given.is_some())),
        }
    }

    fn no_token(is_wrong: bool) -> Problem {
        let (code, detail) = if is_wrong {
            ("bad_token", "the token is not that of this server")
        } else {
            ("token_required", "a token is needed: `Authorization: Bearer …`")
        };
        Problem::new(StatusCode::UNAUTHORIZED, code, detail)
            .with_help("the token stands behind `#token=` in the line that `weft serve` printed")
    }

    /// The headers by which a browser lets a page of another origin see the answer.
    fn share(&self, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
        let Some(origin) = origin.filter(|origin| origin.to_str().is_ok_and(|origin| self.is_listed(origin)))
        else {
            return;
        };
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        let shown = HeaderValue::from_static("etag, mcp-session-id");
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, shown);
        headers.insert(
            HeaderName::from_static("cross-origin-resource-policy"),
            HeaderValue::from_static("cross-origin"),
        );
    }

    /// The answer to a browser that asks whether a page may ask.
    fn preflight(&self, request: &Request) -> Option<Response> {
        let headers = request.headers();
        let asks = request.method() == Method::OPTIONS
            && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        let origin = headers.get(header::ORIGIN).filter(|_| asks)?;
        if !origin.to_str().is_ok_and(|origin| self.is_listed(origin)) {
            return None;
        }
        let mut response = StatusCode::NO_CONTENT.into_response();
        let answer = response.headers_mut();
        answer
            .insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT, DELETE"));
        answer.insert(
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static(
                "authorization, content-type, if-match, if-none-match, last-event-id, mcp-protocol-version, mcp-session-id",
            ),
        );
        answer.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        Some(response)
    }
}

/// Returns `true` for an origin of a list.
fn lists(origins: &[String], origin: &str) -> bool {
    origins.iter().any(|listed| listed.trim_end_matches('/').eq_ignore_ascii_case(origin))
}

fn gate(path: &str) -> Gate {
    let is_below =
        |root: &str| path == root || path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
    match path {
        "/api/meta" => Gate::Open,
        "/ws" => Gate::Hello,
        _ if ["/api", "/v1", "/mcp"].into_iter().any(is_below) => Gate::Token,
        _ => Gate::Open,
    }
}

/// The token of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Lets a request in or refuses it, and gives every answer its headers.
pub(crate) async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let path = request.uri().path().to_owned();
    let mut response = match app.access.check_host(&request).map(|_| app.access.preflight(&request)) {
        Ok(Some(answer)) => answer,
        Ok(None) | Err(_) => match app.access.check(&request) {
            Ok(()) => {
                if let Some(connection) = request.extensions().get::<Arc<Connection>>()
                    && gate(&path) == Gate::Token
                {
                    connection.is_known();
                }
                next.run(request).await
            }
            Err(problem) if openai::is_below(&path) => openai::refusal(&problem),
            Err(problem) => problem.into_response(),
        },
    };
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if gate(&path) != Gate::Open {
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    app.access.share(origin.as_ref(), headers);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(bound: &str, change: impl FnOnce(&mut ServerSettings)) -> Access {
        let mut settings = ServerSettings::default();
        change(&mut settings);
        Access::new(bound.parse().unwrap(), &settings, Token::new("0123456789abcdef"))
    }

    fn request(method: &str, target: &str, headers: &[(&str, &str)]) -> Request {
        let mut request = http::Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(axum::body::Body::empty()).unwrap()
    }

    #[track_caller]
    fn check(access: &Access, method: &str, target: &str, headers: &[(&str, &str)], expected: &str) {
        let got = access.check(&request(method, target, headers));
        let got = got.map_or_else(|problem| problem.code.clone().into_owned(), |()| "ok".to_owned());
        assert_eq!(got, expected, "{method} {target} {headers:?}");
    }

    const TOKEN: (&str, &str) = ("authorization", "Bearer 0123456789abcdef");

    #[test]
    fn s53_names_that_are_not_ours_are_refused() {
        let local = access("127.0.0.1:8080", |_| {});
        for host in ["127.0.0.1:8080", "localhost:8080", "LOCALHOST:8080", "[::1]:8080", "localhost"] {
            check(&local, "GET", "/api/runs", &[("host", host), TOKEN], "ok");
        }
        for host in [
            "evil.test",
            "evil.test:8080",
            "localhost.evil.test:8080",
            "localhost:81",
            "10.0.0.1:8080",
            "user@localhost:8080",
            "0177.0.0.1:8080",
            "localhost.:8080",
            "",
            "a b",
        ] {
            check(&local, "GET", "/", &[("host", host), TOKEN], "host_refused");
        }
        check(&local, "GET", "/", &[], "host_refused");
        check(&local, "GET", "http://evil.test/", &[("host", "localhost:8080")], "host_refused");
        let open = access("0.0.0.0:80", |settings| settings.hosts = vec!["weft.example".into()]);
        check(&open, "GET", "/", &[("host", "192.168.1.7")], "ok");
        check(&open, "GET", "/", &[("host", "weft.example")], "ok");
        check(&open, "GET", "/", &[("host", "evil.test")], "host_refused");
    }

    #[test]
    fn s53_origins_that_are_not_ours_may_neither_write_nor_open_sockets() {
        let local =
            access("127.0.0.1:8080", |settings| settings.origins = vec!["http://localhost:5173".into()]);
        let host = ("host", "localhost:8080");
        for origin in ["http://localhost:8080", "http://localhost:5173"] {
            check(&local, "POST", "/api/runs", &[host, TOKEN, ("origin", origin)], "ok");
            check(&local, "GET", "/ws", &[host, ("origin", origin)], "ok");
        }
        for origin in [
            "https://evil.test",
            "null",
            "http://localhost.evil.test",
            "http://localhost:8080.evil.test",
            "https://localhost:8080",
            "http://localhost:1",
            "http://127.0.0.1:8080",
        ] {
            check(&local, "POST", "/api/runs", &[host, TOKEN, ("origin", origin)], "origin_refused");
            check(&local, "GET", "/ws", &[host, ("origin", origin)], "origin_refused");
            check(
                &local,
                "DELETE",
                "/api/agents/a/tools/b",
                &[host, TOKEN, ("origin", origin)],
                "origin_refused",
            );
        }
    }

    #[test]
    fn s52_everything_but_the_page_wants_the_token() {
        let local = access("127.0.0.1:8080", |_| {});
        let host = ("host", "localhost:8080");
        for open in ["/", "/index.html", "/api/meta", "/nothing"] {
            check(&local, "GET", open, &[host], "ok");
        }
        for path in ["/api/runs", "/api", "/v1/models", "/mcp", "/mcp/x", "/api/openapi.json"] {
            check(&local, "GET", path, &[host], "token_required");
            check(&local, "GET", &format!("{path}?token=0123456789abcdef"), &[host], "token_required");
            check(&local, "GET", path, &[host, ("authorization", "Bearer 0123456789abcdeX")], "bad_token");
            check(
                &local,
                "GET",
                path,
                &[host, ("authorization", "Basic 0123456789abcdef")],
                "token_required",
            );
            check(&local, "GET", path, &[host, TOKEN], "ok");
        }
        // Who sends no Origin is no browser, and the token decides.
        check(&local, "POST", "/api/runs", &[host], "token_required");
        check(&local, "POST", "/api/runs", &[host, TOKEN], "ok");
    }
}
