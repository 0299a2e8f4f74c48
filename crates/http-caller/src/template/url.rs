//! A URL with placeholders in its path and query. Scheme, host and port are fixed when it is loaded.

use agent_types::Problem;
use reqwest::Url;

use super::filled::Filler;
use super::scope::Scope;
use super::style::{in_query, simple};
use super::text::{Part, TextTemplate, parse_with};
use crate::config::ProblemCode;
use crate::encode;
use crate::error::HttpError;

/// A name and a value of the query; both may be written by hand in percent-encoding.
#[derive(Debug, Clone)]
struct Pair {
    /// The name with its `=`, as it stands in the URL.
    name: String,
    value: TextTemplate,
}

/// A URL, parsed into what no value can change and what values fill.
#[derive(Debug, Clone)]
pub(crate) struct UrlTemplate {
    base: Url,
    segments: Vec<TextTemplate>,
    pairs: Vec<Pair>,
}

impl UrlTemplate {
    pub(crate) fn parse(text: &str, scope: &Scope) -> Result<Self, Problem> {
        let end = authority_end(text)?;
        let parts = TextTemplate::parse(text, scope)?.0;
        let first = match parts.first() {
            Some(Part::Literal(literal)) => literal.as_str(),
            Some(Part::Value(_)) | None => return Err(in_authority()),
        };
        let base = Self::base(text, &first[..end])?;
        let mut rest = vec![Part::Literal(first[end..].to_owned())];
        rest.extend(parts.into_iter().skip(1));
        let (rest, fragment) = split_once(rest, '#');
        if fragment.iter().flatten().any(|part| matches!(part, Part::Value(_))) {
            return Err(bad_url(text, "text after `#` is not sent, so it cannot hold a placeholder"));
        }
        let (path, query) = split_once(rest, '?');
        let segments: Vec<TextTemplate> = split(path, '/').into_iter().skip(1).map(TextTemplate).collect();
        for source in segments.iter().flat_map(TextTemplate::sources) {
            if !scope.is_always_there(source) {
                let message = "a parameter in the path must be required, or have a default".to_owned();
                return Err(Problem::error(ProblemCode::OptionalInPath, message));
            }
        }
        let pairs = query.map_or_else(Vec::new, |query| split(query, '&'));
        let pairs = pairs.into_iter().filter(|pair| !pair.is_empty()).map(|pair| Pair::parse(text, pair));
        Ok(Self { base, segments, pairs: pairs.collect::<Result<_, _>>()? })
    }

    /// Scheme, host and port.
    fn base(text: &str, origin: &str) -> Result<Url, Problem> {
        let url = match Url::parse(origin) {
            Ok(url) => url,
            Err(error) => {
                let whole = Url::parse(text).ok().filter(|url| !matches!(url.scheme(), "http" | "https"));
                return Err(whole.map_or_else(|| bad_url(text, &error.to_string()), |url| bad_scheme(&url)));
            }
        };
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad_scheme(&url));
        }
        if !url.username().is_empty() || url.password().is_some() {
            let message = "the URL holds a user or password; use `auth`".to_owned();
            return Err(Problem::error(ProblemCode::SecretInFile, message));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(bad_url(text, "it has no host"));
        }
        Ok(url)
    }

    /// Names of the pairs that the URL itself writes, encoded.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.pairs.iter().map(|pair| pair.name.trim_end_matches('='))
    }

    /// The URL without path and query.
    pub(crate) fn origin(&self) -> &Url {
        &self.base
    }

    /// Fills path and query; `more` are further pairs, encoded.
    pub(crate) fn fill(&self, filler: &Filler<'_>, more: Vec<String>) -> Result<Url, HttpError> {
        let mut path = String::new();
        for segment in &self.segments {
            let filled = filler.text(segment, |source, value| simple(source, value, encode::component))?;
            let filled = filled.ok_or_else(|| HttpError::bad_argument("a value in the path is absent"))?;
            path.push('/');
            path.push_str(&checked_segment(segment, filled)?);
        }
        let mut pairs = Vec::new();
        for pair in &self.pairs {
            let value = filler.text(&pair.value, |_, value| in_query(value, encode::component))?;
            pairs.extend(value.map(|value| format!("{}{value}", pair.name)));
        }
        pairs.extend(more);
        let mut url = self.base.clone();
        url.set_path(&path);
        let query = pairs.join("&");
        url.set_query((!query.is_empty()).then_some(&query));
        Ok(url)
    }
}

/// Finds the start of path, query or fragment, before placeholders are resolved.
fn authority_end(text: &str) -> Result<usize, Problem> {
    if text.contains('\\') {
        return Err(bad_url(text, "a backslash is not a separator"));
    }
    let parts: Vec<Part<()>> = parse_with(text, |_| Ok(()))?;
    let first = match parts.first() {
        Some(Part::Literal(literal)) => literal.as_str(),
        Some(Part::Value(())) => return Err(in_authority()),
        None => return Err(bad_url(text, "it is empty")),
    };
    let after_scheme = match first.find("://") {
        Some(at) => at + 3,
        None if parts.len() > 1 => return Err(in_authority()),
        None => {
            return Err(match Url::parse(text) {
                Ok(url) => bad_scheme(&url),
                Err(_) => bad_url(text, "it has no scheme; write https://…"),
            });
        }
    };
    match first[after_scheme..].find(['/', '?', '#']) {
        Some(at) => Ok(after_scheme + at),
        None if parts.len() > 1 => Err(in_authority()),
        None => Ok(first.len()),
    }
}

impl Pair {
    fn parse(text: &str, parts: Vec<Part>) -> Result<Self, Problem> {
        let (name, value) = split_once(parts, '=');
        let mut written = String::new();
        for part in name {
            match part {
                Part::Literal(literal) => written.push_str(&literal),
                Part::Value(_) => {
                    return Err(bad_url(text, "the name of a query pair cannot hold a placeholder"));
                }
            }
        }
        if value.is_some() {
            written.push('=');
        }
        Ok(Self { name: written, value: TextTemplate(value.unwrap_or_default()) })
    }
}

/// Refuses a segment that values made empty, or into a step through the path.
fn checked_segment(template: &TextTemplate, segment: String) -> Result<String, HttpError> {
    if template.sources().next().is_none() {
        return Ok(segment);
    }
    // Readers of URLs take `%2e` for a point.
    match segment.replace("%2e", ".").replace("%2E", ".").as_str() {
        "" => Err(HttpError::bad_argument("a part of the path would be empty")),
        "." | ".." => Err(HttpError::bad_argument(format!("`{segment}` may not stand alone in the path"))),
        _ => Ok(segment),
    }
}

/// Splits at the first `separator` that the file itself writes.
fn split_once(parts: Vec<Part>, separator: char) -> (Vec<Part>, Option<Vec<Part>>) {
    let mut before = Vec::new();
    let mut rest = parts.into_iter();
    while let Some(part) = rest.next() {
        if let Part::Literal(literal) = &part
            && let Some((left, right)) = literal.split_once(separator)
        {
            push(&mut before, left);
            let mut after = Vec::new();
            push(&mut after, right);
            after.extend(rest);
            return (before, Some(after));
        }
        before.push(part);
    }
    (before, None)
}

/// Splits at every `separator` that the file itself writes.
fn split(parts: Vec<Part>, separator: char) -> Vec<Vec<Part>> {
    let mut pieces = vec![Vec::new()];
    for part in parts {
        match part {
            Part::Literal(literal) => {
                for (index, piece) in literal.split(separator).enumerate() {
                    if index > 0 {
                        pieces.push(Vec::new());
                    }
                    if let Some(last) = pieces.last_mut() {
                        push(last, piece);
                    }
                }
            }
            Part::Value(_) => {
                if let Some(last) = pieces.last_mut() {
                    last.push(part);
                }
            }
        }
    }
    pieces
}

fn push(parts: &mut Vec<Part>, literal: &str) {
    if !literal.is_empty() {
        parts.push(Part::Literal(literal.to_owned()));
    }
}

fn in_authority() -> Problem {
    let message = "scheme, host and port cannot hold a placeholder".to_owned();
    Problem::error(ProblemCode::TemplateInAuthority, message)
}

fn bad_scheme(url: &Url) -> Problem {
    let message = format!("`{}` is not a scheme for requests; use https or http", url.scheme());
    Problem::error(ProblemCode::BadScheme, message)
}

fn bad_url(text: &str, why: &str) -> Problem {
    Problem::error(ProblemCode::BadUrl, format!("`{text}` is not a valid URL: {why}"))
}
