//! A request, filled and ready to be sent.

use bytes::Bytes;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use reqwest::{Method, Url};
use serde_json::Value;

use crate::auth::Credential;
use crate::body::form_pairs;
use crate::encode;
use crate::endpoint::{Endpoint, QueryTemplate};
use crate::error::HttpError;
use crate::template::{Filler, TextTemplate, as_text, joined_list};

/// Headers that say nothing of who asks: they alone go to another origin.
pub(crate) const PLAIN_HEADERS: [HeaderName; 4] = [ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT];

/// A request, filled.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
}

impl Endpoint {
    /// Fills every part.
    pub(crate) fn fill(&self, filler: &Filler<'_>) -> Result<Request, HttpError> {
        let mut pairs = Vec::new();
        for (name, template) in &self.query {
            pairs.extend(query_pairs(name, template, filler)?);
        }
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*;q=0.5"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("weft/", env!("CARGO_PKG_VERSION"))));
        if let Some(media) = self.body.as_ref().and_then(crate::body::BodyTemplate::media) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
        }
        for (name, template) in &self.headers {
            if let Some(value) = header_text(template, filler)? {
                headers.insert(name.clone(), header_value(name, &value)?);
            }
        }
        match self.auth.as_ref().map(|auth| auth.fill(filler)).transpose()? {
            Some(Credential::Header(name, value)) => {
                let mut value = header_value(&name, &value)?;
                value.set_sensitive(true);
                headers.insert(name, value);
            }
            Some(Credential::Pair(pair)) => pairs.push(pair),
            None => {}
        }
        // Last, so that nothing can ask for more than is read.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let body = self.body.as_ref().map(|body| body.fill(filler)).transpose()?.flatten();
        Ok(Request { method: self.method.clone(), url: self.url.fill(filler, pairs)?, headers, body })
    }
}

fn query_pairs(name: &str, template: &QueryTemplate, filler: &Filler<'_>) -> Result<Vec<String>, HttpError> {
    match template {
        QueryTemplate::One(text) => {
            let value = filler.text(text, |value| joined_list(value, str::to_owned))?;
            let encoded = match (value, text.only()) {
                // The commas between the items of a list stay commas.
                (Some(_), Some(source)) => {
                    filler.value(source)?.map(|value| joined_list(&value, encode::component))
                }
                (Some(value), None) => Some(encode::component(&value)),
                (None, _) => None,
            };
            Ok(encoded.map(|value| format!("{name}={value}")).into_iter().collect())
        }
        QueryTemplate::Each(items) => {
            let mut pairs = Vec::new();
            for item in items {
                pairs.extend(item.fill(filler)?.iter().flat_map(|value: &Value| form_pairs(name, value)));
            }
            Ok(pairs)
        }
    }
}

fn header_text(template: &TextTemplate, filler: &Filler<'_>) -> Result<Option<String>, HttpError> {
    filler.text(template, |value| match value {
        Value::Array(_) => joined_list(value, str::to_owned),
        value => as_text(value),
    })
}

/// A value that stays on its line.
fn header_value(name: &HeaderName, value: &str) -> Result<HeaderValue, HttpError> {
    let bad = || HttpError::BadHeaderValue { name: name.to_string() };
    if value.chars().any(char::is_control) {
        return Err(bad());
    }
    HeaderValue::from_bytes(value.as_bytes()).map_err(|_| bad())
}
