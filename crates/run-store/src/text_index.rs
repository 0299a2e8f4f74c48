//! Full-text search over passages, for English and Chinese alike.
//!
//! Words are those of Unicode, in lower case. Runs of Chinese, Japanese and Korean letters have no blanks between
//! words: they are taken as overlapping pairs, so that a word of two letters is found wherever it stands.

use std::collections::HashMap;

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

/// BM25 parameters (Robertson): saturation of repeated terms, and penalty on long passages.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;

/// A piece of text with its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// Source of the passage: a file, with a heading or a line.
    pub source: String,
    /// The text.
    pub text: String,
}

/// A passage that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The passage.
    pub passage: Passage,
    /// Relevance of the passage; only the order is meaningful.
    pub score: f64,
}

/// Finds passages by the words in them.
pub trait TextIndex: Send + Sync + std::fmt::Debug {
    /// The passages that fit best, best first; none for a query without a word.
    fn search(&self, query: &str, limit: usize) -> Vec<Hit>;

    /// Takes these passages in the place of all it has.
    fn replace(&self, passages: Vec<Passage>);
}

/// An index in memory.
#[derive(Debug, Default)]
pub struct MemoryIndex(RwLock<Inner>);

#[derive(Debug, Default)]
struct Inner {
    passages: Vec<Passage>,
    lengths: Vec<u32>,
    postings: HashMap<String, Vec<(u32, u32)>>,
    mean: f64,
}

impl MemoryIndex {
    /// An index of these passages.
    #[must_use]
    pub fn new(passages: Vec<Passage>) -> Self {
        let index = Self::default();
        index.replace(passages);
        index
    }
}

impl TextIndex for MemoryIndex {
    fn search(&self, query: &str, limit: usize) -> Vec<Hit> {
        let inner = self.0.read();
        inner.search(query, limit)
    }

    fn replace(&self, passages: Vec<Passage>) {
        let built = Inner::build(passages);
        *self.0.write() = built;
    }
}

impl Inner {
    fn build(passages: Vec<Passage>) -> Self {
        let mut inner = Self::default();
        for (at, passage) in (0_u32..).zip(&passages) {
            let mut counts: HashMap<String, u32> = HashMap::new();
            let mut length = 0;
            for term in terms(&passage.text).into_iter().chain(terms(&passage.source)) {
                *counts.entry(term).or_default() += 1;
                length += 1;
            }
            inner.lengths.push(length);
            for (term, count) in counts {
                inner.postings.entry(term).or_default().push((at, count));
            }
        }
        let total: f64 = inner.lengths.iter().map(|length| f64::from(*length)).sum();
        inner.mean = total / float(inner.lengths.len().max(1));
        inner.passages = passages;
        inner
    }

    fn search(&self, query: &str, limit: usize) -> Vec<Hit> {
        let mut wanted = terms(query);
        wanted.sort();
        wanted.dedup();
        let mut scores: HashMap<u32, f64> = HashMap::new();
        let n_passages = float(self.passages.len());
        for term in &wanted {
            let Some(postings) = self.postings.get(term) else { continue };
            let with = float(postings.len());
            let rare = (1.0 + (n_passages - with + 0.5) / (with + 0.5)).ln();
            for (at, count) in postings {
                let (count, length) = (f64::from(*count), f64::from(self.lengths[*at as usize]));
                let norm = SATURATION * (1.0 - LENGTH + LENGTH * length / self.mean.max(1.0));
                *scores.entry(*at).or_default() += rare * count * (SATURATION + 1.0) / (count + norm);
            }
        }
        let mut found: Vec<(u32, f64)> = scores.into_iter().collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.truncate(limit);
        let hit = |(at, score): (u32, f64)| Hit { passage: self.passages[at as usize].clone(), score };
        found.into_iter().map(hit).collect()
    }
}

/// No index holds so many passages that this loses anything.
fn float(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

/// The terms of a text: words in lower case, and pairs of letters where a script has no blanks.
#[must_use]
pub fn terms(text: &str) -> Vec<String> {
    let mut terms = Vec::new();
    let (mut word, mut run) = (String::new(), Vec::new());
    for c in text.chars() {
        if is_unspaced(c) {
            end_word(&mut word, &mut terms);
            run.push(c);
            continue;
        }
        end_run(&mut run, &mut terms);
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        } else {
            end_word(&mut word, &mut terms);
        }
    }
    end_word(&mut word, &mut terms);
    end_run(&mut run, &mut terms);
    terms
}

fn end_word(word: &mut String, terms: &mut Vec<String>) {
    if !word.is_empty() {
        terms.push(std::mem::take(word));
    }
}

/// Overlapping pairs of a run; a letter that stands alone is a term by itself.
fn end_run(run: &mut Vec<char>, terms: &mut Vec<String>) {
    match run.as_slice() {
        [] => {}
        [alone] => terms.push(alone.to_string()),
        letters => terms.extend(letters.windows(2).map(|pair| pair.iter().collect::<String>())),
    }
    run.clear();
}

/// Returns `true` if a term is of a script without spaces between words.
#[cfg(feature = "sqlite")]
pub(crate) fn is_pair(term: &str) -> bool {
    term.chars().next().is_some_and(is_unspaced)
}

/// Letters of scripts that write words without blanks.
fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c),
        0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xac00..=0xd7af | 0xf900..=0xfaff | 0x20000..=0x323af)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_pairs_are_terms() {
        assert_eq!(terms("Hello, World-2"), ["hello", "world", "2"]);
        assert_eq!(terms("请假三天"), ["请假", "假三", "三天"]);
        assert_eq!(terms("用GPU跑"), ["用", "gpu", "跑"]);
    }

    #[test]
    fn the_passage_that_fits_best_comes_first() {
        let passage = |source: &str, text: &str| Passage { source: source.into(), text: text.into() };
        let index = MemoryIndex::new(vec![
            passage("leave.md", "Annual leave must be asked for two weeks ahead. 年假须提前两周申请。"),
            passage("sick.md", "Sick leave needs a note from the third day on. 病假超过三天须交证明。"),
            passage("pay.md", "Salaries are paid on the last day of the month."),
        ]);
        let sources = |query: &str| -> Vec<String> {
            index.search(query, 5).into_iter().map(|hit| hit.passage.source).collect()
        };
        assert_eq!(sources("sick leave"), ["sick.md", "leave.md"]);
        assert_eq!(sources("病假"), ["sick.md"]);
        assert_eq!(sources("年假怎么申请"), ["leave.md"]);
        assert_eq!(sources("  ,;"), Vec::<String>::new());
        assert_eq!(index.search("leave", 1).len(), 1);
    }
}
