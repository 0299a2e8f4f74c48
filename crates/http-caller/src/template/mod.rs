//! Placeholders: `{name}`, `{a.b}`, `{$ctx.name}`, `{$secret.NAME}`, with `{{` and `}}` for braces.
//!
//! A template is parsed once, when it is loaded. What it is filled with is never parsed again.

mod filled;
mod json;
mod scope;
mod text;
mod url;

pub(crate) use filled::{Filler, as_text, inside};
pub(crate) use json::JsonTemplate;
pub use scope::Scope;
pub(crate) use text::{Part, TextTemplate, parse_with};
pub(crate) use url::{UrlTemplate, joined_list};
