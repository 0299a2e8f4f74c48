//! Credentials of a call, from secrets only.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{AUTHORIZATION, HeaderName};

use crate::config::{AuthConfig, ProblemCode};
use crate::encode;
use crate::endpoint::Checker;
use crate::error::HttpError;
use crate::secret::Secret;
use crate::template::{Filler, Scope, TextTemplate, as_text};

/// Authentication of a call.
#[derive(Debug, Clone)]
pub(crate) enum Auth {
    Bearer(TextTemplate),
    Basic {
        username: TextTemplate,
        password: TextTemplate,
    },
    Header(HeaderName, TextTemplate),
    /// The name is encoded.
    Query(String, TextTemplate),
}

/// Credential that a call carries.
pub(crate) enum Credential {
    Header(HeaderName, String),
    Pair(String),
}

impl Auth {
    pub(crate) fn parse(checker: &mut Checker, config: &AuthConfig, scope: &Scope) -> Option<Self> {
        let scope = scope.credentials();
        let mut credential = |path: &str, text: &str| {
            let template = checker.take(path, TextTemplate::parse(text, &scope))?;
            if template.sources().next().is_none() {
                checker.fault(
                    path,
                    ProblemCode::SecretInFile,
                    "a credential is written out; use {$secret.NAME}",
                );
                return None;
            }
            Some(template)
        };
        match config {
            AuthConfig::Bearer { token } => credential("auth.token", token).map(Self::Bearer),
            AuthConfig::Basic { username, password } => {
                let password = credential("auth.password", password);
                let username = checker.take("auth.username", TextTemplate::parse(username, &scope));
                Some(Self::Basic { username: username?, password: password? })
            }
            AuthConfig::Header { name, value } => {
                let value = credential("auth.value", value);
                Some(Self::Header(checker.header_name("auth.name", name)?, value?))
            }
            AuthConfig::Query { name, value } => {
                Some(Self::Query(encode::component(name), credential("auth.value", value)?))
            }
        }
    }

    /// Encoded name of the pair that it adds to the query.
    pub(crate) fn pair_name(&self) -> Option<&str> {
        match self {
            Self::Query(name, _) => Some(name),
            Self::Bearer(_) | Self::Basic { .. } | Self::Header(..) => None,
        }
    }

    pub(crate) fn fill(&self, filler: &Filler<'_>) -> Result<Credential, HttpError> {
        let text =
            |template| filler.text(template, |_, value| Ok(as_text(value))).map(Option::unwrap_or_default);
        Ok(match self {
            Self::Bearer(token) => Credential::Header(AUTHORIZATION, format!("Bearer {}", text(token)?)),
            Self::Basic { username, password } => {
                let encoded = STANDARD.encode(format!("{}:{}", text(username)?, text(password)?));
                filler.mask.register(&Secret::new(encoded.as_str()));
                Credential::Header(AUTHORIZATION, format!("Basic {encoded}"))
            }
            Self::Header(name, value) => Credential::Header(name.clone(), text(value)?),
            Self::Query(name, value) => {
                Credential::Pair(format!("{name}={}", encode::component(&text(value)?)))
            }
        })
    }
}
