//! `#[tool]` on a function.
//!
//! It refuses what it cannot turn into a tool that a model can use: a function without a comment, a parameter without a name, generics.
//! What it writes names only the crate that the user depends on (`tool-registry`, else `agent-runtime`), under whatever name.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod comment;
mod expand;
mod options;
mod parameter;

use proc_macro::TokenStream;

/// Makes a tool of a function, which itself stays as it is.
///
/// The comment is the description; a line ``* `name` - text`` in it describes a parameter, as does a comment on the parameter.
/// `name = "…"` is the id (the function's name unless given), `title`, `timeout = "5s"`, `result_limit` (bytes), `concurrency`,
/// `approval = "auto|ask|never"`, `visibility = "direct|discoverable|hidden"`, and the words `read_only`, `effect`, `idempotent`,
/// `open_world`, `long_running`, `quick` say how it is treated. `crate = path` names the crate where it is not found by itself.
///
/// Parameters are what the model gives: any type that is `Deserialize` and `JsonSchema`; `Option` is one that may be absent.
/// `#[arg(default = 5, range = 1..=9, choices("a", "b"), name = "type")]` says more. A `Dep<T>` comes from the context and a
/// `&ToolContext` is the context: the model sees neither.
///
/// The result is anything that is `Serialize`, a `Result` of it, or a stream (`impl Stream<Item = …>`), whose pieces are shown while they come.
/// A function that is not async runs on a thread where it may block; with `quick` it promises not to block, and runs in
/// place.
///
/// Behind the attribute, `tool!(path)` names the tool of a function, as long as one tool is in sight; several are named by
/// `tools![path, …]` of the crate that re-exports this, wherever they are.
#[proc_macro_attribute]
pub fn tool(attributes: TokenStream, item: TokenStream) -> TokenStream {
    match expand::expand(attributes.into(), item.into()) {
        Ok(tokens) => tokens.into(),
        Err(error) => error.into_compile_error().into(),
    }
}
