//! Grammar that constrains an answer, token by token.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::InferenceCapabilities;
use llguidance::{Matcher, ParserFactory};
use toktrie::TokEnv;

/// Number of compiled grammars in the cache: agents that take turns each have theirs.
const CACHED: usize = 8;

/// Characters that may stand in a text of a tight grammar, and how many. The masks of such texts are made once and then cut to size.
const SLICES: [&str; 3] = [
    r"[^<&\x00-\x1F\x7F\x{FFFE}\x{FFFF}]{1,10}",
    r"[^<&\x00-\x1F\x7F\x{FFFE}\x{FFFF}]{1,30}",
    r"[^<&\x00-\x1F\x7F\x{FFFE}\x{FFFF}]+",
];

/// Compiler of grammars with a cache of the most recent ones.
pub(crate) struct Grammars {
    factory: ParserFactory,
    cache: VecDeque<(Arc<str>, Matcher)>,
}

impl Grammars {
    pub(crate) fn new(environment: &TokEnv) -> Result<Self, String> {
        let can = InferenceCapabilities { ff_tokens: true, ..InferenceCapabilities::default() };
        let slices = SLICES.map(str::to_owned);
        let mut factory = ParserFactory::new(environment, can, &slices).map_err(|error| error.to_string())?;
        factory.quiet();
        Ok(Self { factory, cache: VecDeque::new() })
    }

    /// Starts an answer that is constrained by this grammar; also returns the time to compile it, zero for a cached
    /// one.
    pub(crate) fn begin(&mut self, lark: &Arc<str>) -> Result<(GrammarGuard, Duration), String> {
        if let Some((_, matcher)) = self.cache.iter().find(|(known, _)| known == lark) {
            return Ok((GrammarGuard::new(matcher.deep_clone()), Duration::ZERO));
        }
        let began = Instant::now();
        let matcher = Matcher::new(self.factory.create_parser(TopLevelGrammar::from_lark(lark.to_string())));
        if let Some(error) = matcher.get_error() {
            return Err(error);
        }
        let took = began.elapsed();
        if self.cache.len() == CACHED {
            self.cache.pop_front();
        }
        let guard = GrammarGuard::new(matcher.deep_clone());
        self.cache.push_back((Arc::clone(lark), matcher));
        Ok((guard, took))
    }
}

/// Position of an answer in its grammar.
pub(crate) struct GrammarGuard {
    matcher: Matcher,
    /// Masks made.
    pub(crate) masks: u32,
    /// Time that they and the steps between them took.
    pub(crate) elapsed: Duration,
}

impl GrammarGuard {
    fn new(matcher: Matcher) -> Self {
        Self { matcher, masks: 0, elapsed: Duration::ZERO }
    }

    /// The tokens that must follow.
    pub(crate) fn forced(&mut self) -> Vec<u32> {
        let began = Instant::now();
        let tokens = self.matcher.consume_ff_tokens();
        self.elapsed += began.elapsed();
        tokens
    }

    /// Nothing may follow.
    pub(crate) fn is_over(&self) -> bool {
        self.matcher.is_stopped()
    }

    /// Takes the tokens that may not follow out of the choice.
    pub(crate) fn mask(&mut self, numbers: &mut [f32]) -> Result<(), String> {
        let began = Instant::now();
        let mask = self.matcher.compute_mask().map_err(|error| error.to_string())?;
        mask.iter_unset_entries(|token| {
            if let Some(number) = numbers.get_mut(token) {
                *number = f32::NEG_INFINITY;
            }
        });
        self.masks += 1;
        self.elapsed += began.elapsed();
        Ok(())
    }

    pub(crate) fn take(&mut self, token: u32) -> Result<(), String> {
        let began = Instant::now();
        let taken = self.matcher.consume_token(token).map_err(|error| error.to_string());
        self.elapsed += began.elapsed();
        taken
    }
}
