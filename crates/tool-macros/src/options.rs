//! Options in `#[tool(…)]`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::{LitInt, LitStr, Path, Result};

/// Words without a value: annotations, and how a call answers.
const FLAGS: [&str; 6] = ["read_only", "effect", "idempotent", "open_world", "long_running", "quick"];

/// Keys with a value.
const KEYS: [&str; 8] =
    ["name", "title", "timeout", "result_limit", "concurrency", "approval", "visibility", "crate"];

/// The options of one tool.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) result_limit: Option<LitInt>,
    pub(crate) concurrency: Option<LitInt>,
    pub(crate) approval: Option<&'static str>,
    pub(crate) visibility: Option<&'static str>,
    pub(crate) krate: Option<Path>,
    flags: Vec<&'static str>,
}

impl Options {
    pub(crate) fn read(attributes: TokenStream) -> Result<Self> {
        let mut options = Self::default();
        syn::meta::parser(|meta| options.parse_option(&meta)).parse2(attributes)?;
        Ok(options)
    }

    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    fn parse_option(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        if let Some(flag) = FLAGS.into_iter().find(|flag| *flag == name) {
            self.flags.push(flag);
            return Ok(());
        }
        match name.as_str() {
            "name" => self.name = Some(text(meta)?.value()),
            "title" => self.title = Some(text(meta)?.value()),
            "timeout" => self.timeout_ms = Some(milliseconds(&text(meta)?)?),
            "result_limit" => self.result_limit = Some(meta.value()?.parse()?),
            "concurrency" => self.concurrency = Some(meta.value()?.parse()?),
            "approval" => self.approval = Some(one_of(&text(meta)?, &["auto", "ask", "never"])?),
            "visibility" => {
                self.visibility = Some(one_of(&text(meta)?, &["direct", "discoverable", "hidden"])?);
            }
            "crate" => self.krate = Some(meta.value()?.parse()?),
            _ => {
                let known = FLAGS.iter().chain(&KEYS).copied().collect::<Vec<_>>().join(", ");
                return Err(meta.error(format!("`{name}` is not an option of a tool; options are {known}")));
            }
        }
        Ok(())
    }
}

fn text(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    meta.value()?.parse()
}

fn one_of(text: &LitStr, members: &[&'static str]) -> Result<&'static str> {
    let value = text.value();
    let found = members.iter().find(|member| **member == value);
    found.copied().ok_or_else(|| syn::Error::new(text.span(), format!("one of {}", members.join(", "))))
}

/// `500ms`, `5s`, `2m`, `1h`.
fn milliseconds(text: &LitStr) -> Result<u64> {
    let value = text.value();
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let unit = match value[digits..].trim() {
        "ms" => Some(1),
        "s" => Some(1000),
        "m" | "min" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let number = value[..digits].parse::<u64>().ok();
    let product = number.zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
    product
        .filter(|ms| *ms > 0)
        .ok_or_else(|| syn::Error::new(text.span(), "a time such as `500ms`, `5s`, `2m` or `1h`"))
}

/// The crate that the user depends on, whatever they call it.
pub(crate) fn crate_path(given: Option<&Path>) -> Result<TokenStream> {
    use proc_macro_crate::{FoundCrate, crate_name};
    if let Some(path) = given {
        return Ok(quote!(#path));
    }
    let named = |found: FoundCrate, own: &str| match found {
        FoundCrate::Itself => syn::Ident::new(own, Span::call_site()),
        FoundCrate::Name(name) => syn::Ident::new(&name, Span::call_site()),
    };
    if let Ok(found) = crate_name("tool-registry") {
        let name = named(found, "tool_registry");
        return Ok(quote!(::#name));
    }
    if let Ok(found) = crate_name("agent-runtime") {
        let name = named(found, "agent_runtime");
        return Ok(quote!(::#name::__tool_registry));
    }
    Err(syn::Error::new(
        Span::call_site(),
        "neither tool-registry nor agent-runtime is a dependency; name the crate with `crate = path`",
    ))
}
