//! Placeholders: `{name}`, `{name*}`, `{a.b}`, `{$ctx.name}`, `{$secret.NAME}`, with `{{` and `}}` for braces.
//!
//! A template is parsed once, when it is loaded. What it is filled with is never parsed again.

mod filled;
mod json;
mod scope;
mod style;
mod text;
mod url;

pub(crate) use filled::{Filler, as_text, inside};
pub(crate) use json::JsonTemplate;
pub use scope::Scope;
pub(crate) use scope::Source;
pub(crate) use style::{form_pairs, in_query, simple, styled_pairs};
pub(crate) use text::{Part, TextTemplate, parse_with};
pub(crate) use url::UrlTemplate;
