//! Table of the retired words: what to look for, where, and what to write in place of it.

use anyhow::{Context, Result};
use regex::{Regex, RegexSet};
use serde::Deserialize;

/// Kind of text that a word is retired from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Scope {
    /// Markdown that people read, and doc comments.
    Docs,
    /// String literals of the product, and strings of the page.
    Messages,
    /// Code without comments and literals.
    Code,
}

/// Row of the table as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    pattern: String,
    instead: String,
    scope: Vec<Scope>,
    /// Matches that this pattern fits from their beginning are not counted.
    except: Option<String>,
    /// Folders that the row is limited to.
    #[serde(default)]
    within: Vec<String>,
}

/// One retired word or pattern.
#[derive(Debug)]
pub(super) struct Word {
    /// Name in the list of allowed counts.
    pub(super) name: String,
    /// Words to write in place of it.
    pub(super) instead: String,
    pattern: Regex,
    except: Option<Regex>,
    scope: Vec<Scope>,
    within: Vec<String>,
}

/// All retired words.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) words: Vec<Word>,
    all: RegexSet,
}

/// Place of a retired word in a text.
#[derive(Debug)]
pub(super) struct Match<'a> {
    pub(super) word: &'a Word,
    pub(super) offset: usize,
    pub(super) found: String,
}

impl Table {
    /// Reads the table. Letters' case counts in code alone; a pattern that begins with `(?-i)` has its own way.
    pub(super) fn parse(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct File {
            word: Vec<Row>,
        }
        let file: File = toml::from_str(text).context("the table of retired words")?;
        let words = file.word.into_iter().map(Word::new).collect::<Result<Vec<_>>>()?;
        let all = RegexSet::new(words.iter().map(|word| word.pattern.as_str()))?;
        Ok(Self { words, all })
    }

    /// Retired words in one part of a file.
    pub(super) fn matches<'a>(&'a self, path: &str, scope: Scope, text: &'a str) -> Vec<Match<'a>> {
        let candidates = self.all.matches(text);
        let words = candidates.iter().map(|index| &self.words[index]);
        words.filter(|word| word.counts(path, scope)).flat_map(|word| word.matches(text)).collect()
    }
}

impl Word {
    fn new(row: Row) -> Result<Self> {
        let folded = if row.scope.contains(&Scope::Code) { "" } else { "(?i)" };
        let compile = |pattern: &str| {
            // A boundary between letters of any script would keep the fast automaton from being used.
            let pattern = pattern.replace(r"\b", r"(?-u:\b)");
            Regex::new(&format!("{folded}{pattern}")).with_context(|| format!("retired word `{}`", row.name))
        };
        let pattern = compile(&row.pattern)?;
        let except = row.except.as_deref().map(|except| compile(&format!("^(?:{except})"))).transpose()?;
        Ok(Self {
            name: row.name,
            instead: row.instead,
            pattern,
            except,
            scope: row.scope,
            within: row.within,
        })
    }

    fn counts(&self, path: &str, scope: Scope) -> bool {
        let within = self.within.is_empty() || self.within.iter().any(|folder| path.starts_with(folder));
        within && self.scope.contains(&scope)
    }

    fn matches<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Match<'a>> {
        let excepted =
            |offset: usize| self.except.as_ref().is_some_and(|except| except.is_match(&text[offset..]));
        let found = self.pattern.find_iter(text).filter(move |found| !excepted(found.start()));
        found.map(|found| Match {
            word: self,
            offset: found.start(),
            found: found.as_str().trim_matches(['\u{2}', ' ']).to_owned(),
        })
    }
}
