//! The grammar as its own reader takes it, byte by byte.

use std::sync::LazyLock;

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::ApproximateTokEnv;
use llguidance::{Matcher, ParserFactory};

static FACTORY: LazyLock<ParserFactory> = LazyLock::new(|| {
    let bytes = ApproximateTokEnv::single_byte_env();
    let mut factory = ParserFactory::new_simple(&bytes).unwrap();
    factory.quiet();
    factory
});

/// A compiled grammar.
pub(crate) struct Lark(Matcher);

impl Lark {
    pub(crate) fn new(text: &str) -> Self {
        let parser = FACTORY.create_parser(TopLevelGrammar::from_lark(text.to_owned()));
        let mut matcher = Matcher::new(parser);
        assert!(!matcher.is_error(), "{:?}\n{text}", matcher.get_error());
        matcher.compute_mask().unwrap();
        Self(matcher)
    }

    /// Number of accepted bytes of a text, and `true` where it may end there.
    pub(crate) fn reads(&self, text: &str) -> (usize, bool) {
        let mut matcher = self.0.deep_clone();
        let tokens: Vec<u32> = text.bytes().map(u32::from).collect();
        let read = matcher.try_consume_tokens(&tokens).unwrap();
        (read, read == text.len() && matcher.is_accepting().unwrap())
    }

    pub(crate) fn accepts(&self, text: &str) -> bool {
        self.reads(text).1
    }
}
