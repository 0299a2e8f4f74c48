//! A request, filled and ready to be sent.

use bytes::Bytes;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use reqwest::{Method, Url};
use serde_json::Value;

use crate::auth::Credential;
use crate::encode;
use crate::endpoint::{Endpoint, QueryTemplate};
use crate::error::HttpError;
use crate::template::{Filler, TextTemplate, form_pairs, in_query, simple, styled_pairs};

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
            pairs.extend(self.query_pairs(name, template, filler)?);
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
        if self.body.is_some() && body.is_none() {
            headers.remove(CONTENT_TYPE);
        }
        Ok(Request { method: self.method.clone(), url: self.url.fill(filler, pairs)?, headers, body })
    }

    fn query_pairs(
        &self,
        name: &str,
        template: &QueryTemplate,
        filler: &Filler<'_>,
    ) -> Result<Vec<String>, HttpError> {
        match template {
            QueryTemplate::One(text) => {
                // The commas between the items of a list stay commas where the list is all of the value.
                let is_whole = text.only().is_some();
                let encode = |text: &str| if is_whole { encode::component(text) } else { text.to_owned() };
                let value = filler.text(text, |_, value| in_query(value, encode))?;
                let encoded = value.map(|value| if is_whole { value } else { encode::component(&value) });
                Ok(encoded.map(|value| format!("{name}={value}")).into_iter().collect())
            }
            QueryTemplate::Each(items) => {
                let mut pairs = Vec::new();
                for item in items {
                    pairs.extend(item.fill(filler)?.iter().flat_map(|value: &Value| form_pairs(name, value)));
                }
                Ok(pairs)
            }
            QueryTemplate::Styled(source, style, explode) => {
                let Some(value) = filler.value(source)? else { return Ok(Vec::new()) };
                let is_taken = |member: &str| self.is_own_name(member);
                styled_pairs(name, &value, (*style, *explode), is_taken)
            }
        }
    }

    /// Returns `true` for the encoded name of a pair that the file writes itself.
    fn is_own_name(&self, name: &str) -> bool {
        let in_file =
            self.query.iter().any(|(own, _)| own == name) || self.url.names().any(|own| own == name);
        in_file || self.auth.as_ref().is_some_and(|auth| auth.pair_name() == Some(name))
    }
}

fn header_text(template: &TextTemplate, filler: &Filler<'_>) -> Result<Option<String>, HttpError> {
    filler.text(template, |source, value| simple(source, value, str::to_owned))
}

/// A value that stays on its line.
fn header_value(name: &HeaderName, value: &str) -> Result<HeaderValue, HttpError> {
    let bad = || HttpError::BadHeaderValue { name: name.to_string() };
    if value.chars().any(char::is_control) {
        return Err(bad());
    }
    HeaderValue::from_bytes(value.as_bytes()).map_err(|_| bad())
}
