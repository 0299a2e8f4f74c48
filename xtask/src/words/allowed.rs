//! Counts of retired words that are still allowed, file by file.
//!
//! Counts only fall. What a file has fewer than it is allowed may stand in files that are not in the list: text that moved.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result};

/// File and word, with a number of places.
pub(super) type Counts = BTreeMap<(String, String), usize>;

const HEAD: &str = "# Retired words that still stand: file, word of retired-words.toml, count. Counts may fall, never rise.\n\
     # Written by `cargo xtask tidy --accept`.\n";

/// Reads the list.
pub(super) fn parse(text: &str) -> Result<Counts> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| entry(line).with_context(|| format!("`{line}` in the list of retired words"))).collect()
}

fn entry(line: &str) -> Result<((String, String), usize)> {
    let (rest, count) = line.rsplit_once(' ').context("a count is missing")?;
    let (path, word) = rest.rsplit_once(' ').context("a word is missing")?;
    Ok(((path.to_owned(), word.to_owned()), count.parse()?))
}

/// Text of the list.
pub(super) fn render(counts: &Counts) -> String {
    let mut text = HEAD.to_owned();
    for ((path, word), count) in counts {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{path} {word} {count}");
    }
    text
}

/// Files and words with more places than are allowed, and how many are.
pub(super) fn risen(allowed: &Counts, found: &Counts) -> Counts {
    let mut spare: BTreeMap<&str, usize> = BTreeMap::new();
    for (key, &count) in allowed {
        *spare.entry(&key.1).or_default() += count.saturating_sub(found.get(key).copied().unwrap_or(0));
    }
    let mut risen = Counts::new();
    for (key, &count) in found {
        let listed = allowed.keys().any(|(path, _)| *path == key.0);
        let known = allowed.get(key).copied().unwrap_or(0);
        let spare = spare.entry(&key.1).or_default();
        let moved = if listed { 0 } else { count.min(*spare) };
        *spare -= moved;
        if count > known + moved {
            risen.insert(key.clone(), known + moved);
        }
    }
    risen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(entries: &[(&str, &str, usize)]) -> Counts {
        entries.iter().map(|&(path, word, count)| ((path.to_owned(), word.to_owned()), count)).collect()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let all = counts(&[("a b.md", "is-no", 2), ("c.rs", "tell", 1)]);
        assert_eq!(parse(&render(&all)).unwrap(), all);
        assert!(parse("a b").is_err());
    }

    #[test]
    fn counts_fall_and_move_but_do_not_rise() {
        let allowed = counts(&[("a", "tell", 2), ("b", "tell", 1)]);
        let fell = counts(&[("a", "tell", 1)]);
        assert_eq!(risen(&allowed, &fell), Counts::new());
        let moved = counts(&[("b", "tell", 1), ("new", "tell", 2)]);
        assert_eq!(risen(&allowed, &moved), Counts::new());
        let added = counts(&[("a", "tell", 2), ("b", "tell", 1), ("new", "tell", 1)]);
        assert_eq!(risen(&allowed, &added), counts(&[("new", "tell", 0)]));
        let rose = counts(&[("a", "tell", 1), ("b", "tell", 2)]);
        assert_eq!(risen(&allowed, &rose), counts(&[("b", "tell", 1)]));
        let other = counts(&[("a", "go-on", 1)]);
        assert_eq!(risen(&allowed, &other), counts(&[("a", "go-on", 0)]));
    }
}
