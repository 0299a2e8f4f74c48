//! Suggestions for misspelt names.

use std::collections::BTreeSet;

use unicode_normalization::UnicodeNormalization;

/// Longest name that is compared by distance, in characters; longer ones are compared when folded equal only.
const MAX_COMPARED: usize = 128;

/// A name without common variations: lower case, and no `-`, `_`, `.` or blanks.
#[must_use]
pub fn fold(name: &str) -> String {
    name.nfc()
        .filter(|c| !matches!(c, '-' | '_' | '.') && !c.is_whitespace())
        .flat_map(char::to_lowercase)
        .collect()
}

/// The candidate that `name` most probably means; `None` when nothing is near.
///
/// A candidate of another namespace counts only where that is misspelt, or where it has the same name otherwise.
///
/// ```
/// assert_eq!(agent_types::nearest("playerId", ["player_id", "name"]), Some("player_id"));
/// assert_eq!(agent_types::nearest("colour", ["limit"]), None);
/// ```
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let candidates = candidates.into_iter().filter(|candidate| is_of_namespace(name, candidate));
    best(name, candidates).filter(|(score, _)| score.is_near()).map(|(_, candidate)| candidate)
}

/// Sorts all candidates by distance, the nearest first; equal distances keep their order.
pub fn ranked<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let target = Target::new(name);
    let mut scored: Vec<_> =
        candidates.into_iter().map(|candidate| (target.score(candidate), candidate)).collect();
    scored.sort_by_key(|(score, _)| score.rank());
    scored.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Returns `false` for two names of namespaces that have nothing to do with each other.
fn is_of_namespace(name: &str, candidate: &str) -> bool {
    let (Some((own, name)), Some((other, candidate))) = (name.split_once(':'), candidate.split_once(':'))
    else {
        return true;
    };
    fold(name) == fold(candidate) || Target::new(own).compare(other).is_near()
}

fn best<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<(Score, &'a str)> {
    let target = Target::new(name);
    candidates
        .into_iter()
        .map(|candidate| (target.score(candidate), candidate))
        .min_by_key(|(score, _)| score.rank())
}

/// A name prepared for comparison.
struct Target {
    folded: String,
    words: BTreeSet<String>,
    /// The same without its namespace, where it has one.
    bare: Option<Box<Self>>,
}

/// Distance of a candidate from a name.
#[derive(Debug, Clone, Copy)]
struct Score {
    /// Edit distance of the folded names, a transposition counting one.
    distance: usize,
    /// Length of the longer folded name.
    length: usize,
    /// Set if one folded name contains the other and has at least three characters.
    contained: bool,
    /// Words that both names have, of the larger number of words.
    shared_words: usize,
    words: usize,
    /// Set if every word of one name is a word of the other.
    words_contained: bool,
}

impl Score {
    /// Nearer is smaller. Edits count most; shared words settle what edits leave open and count as half an edit each.
    fn rank(self) -> (usize, usize) {
        if self.shared_words == self.words && self.words > 1 {
            // The same words in another order.
            return (0, self.distance);
        }
        let edits = self.distance * 1000 / self.length.max(1);
        let shared = self.shared_words * 1000 / self.words.max(1);
        let bonus = if self.contained { 250 } else { 0 } + shared / 2;
        ((edits * 2).saturating_sub(bonus), self.distance)
    }

    fn is_near(self) -> bool {
        self.distance == 0
            || self.distance * 5 <= self.length * 2
            || self.contained
            || self.words_contained
            || self.shared_words * 2 > self.words
            || (self.shared_words * 2 >= self.words && self.distance * 2 <= self.length)
    }
}

impl Target {
    fn new(name: &str) -> Self {
        let bare = name.rsplit_once(':').map(|(_, bare)| Box::new(Self::new(bare)));
        Self { folded: fold(name), words: words(name), bare }
    }

    /// Scores a candidate. A namespace that only one of the two has does not count against it.
    fn score(&self, candidate: &str) -> Score {
        let whole = self.compare(candidate);
        let bare = match (&self.bare, candidate.rsplit_once(':')) {
            (None, Some((_, name))) => self.compare(name),
            (Some(bare), None) => bare.compare(candidate),
            _ => return whole,
        };
        if bare.rank() < whole.rank() { bare } else { whole }
    }

    fn compare(&self, candidate: &str) -> Score {
        let folded = fold(candidate);
        let other_words = words(candidate);
        let shared_words = self.words.intersection(&other_words).count();
        Score {
            distance: distance(&self.folded, &folded),
            length: length(&self.folded).max(length(&folded)),
            contained: contains(&self.folded, &folded) || contains(&folded, &self.folded),
            shared_words,
            words: self.words.len().max(other_words.len()),
            words_contained: shared_words > 0 && shared_words == self.words.len().min(other_words.len()),
        }
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn contains(long: &str, short: &str) -> bool {
    length(short) >= 3 && long.contains(short)
}

/// The words of a name: parted by separators and by a capital after a small letter.
fn words(name: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut word = String::new();
    let mut was_lower = false;
    for c in name.chars() {
        let starts = c.is_uppercase() && was_lower;
        if (starts || !c.is_alphanumeric()) && !word.is_empty() {
            words.insert(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase() || c.is_numeric();
    }
    if !word.is_empty() {
        words.insert(word);
    }
    words
}

/// Edits (insert, delete, replace, swap two neighbours) from one text to the other; long texts that differ share nothing.
fn distance(left: &str, right: &str) -> usize {
    let longer = length(left).max(length(right));
    if longer > MAX_COMPARED && left != right { longer } else { strsim::osa_distance(left, right) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, candidates: &[&str], expected: Option<&str>) {
        assert_eq!(nearest(name, candidates.iter().copied()), expected, "{name}");
    }

    #[test]
    fn what_was_meant_comes_first() {
        check("playerId", &["name", "player_id"], Some("player_id"));
        check("query_string", &["limit", "query"], Some("query"));
        check("fiel_path", &["file_path", "file_name"], Some("file_path"));
        check("bases", &["base", "height"], Some("base"));
        check("time_zone", &["timezone", "time"], Some("timezone"));
        check("get_date", &["get_time"], Some("get_time"));
        check("id", &["name", "user_id"], Some("user_id"));
        check("3_FindBus_Buses", &["Buses_3_BuyBus", "Buses_3_FindBus"], Some("Buses_3_FindBus"));
        check("id_user", &["user_id", "item_id"], Some("user_id"));
        check("city", &["location", "unit"], None);
        check("task_create", &["search", "read_file"], None);
        check("summarise_txt", &["kb:query", "workflow:summarize_text"], Some("workflow:summarize_text"));
        check("tools:get_tiem", &["get_time", "set_time"], Some("get_time"));
        check("x", &[], None);
    }

    #[test]
    fn namespaces_are_not_crossed() {
        check("nowhere:tool", &["node:core:Tool"], None);
        check("kb:summarize", &["workflow:summarise"], None);
        check("kb:summarize", &["workflow:summarise", "kb:summaries"], Some("kb:summaries"));
        check("sytem:get_tiem", &["system:get_time"], Some("system:get_time"));
        check("core:LlmApiRequest", &["agent:LlmApiRequest"], Some("agent:LlmApiRequest"));
        check("node:core:Tol", &["node:core:Tool"], Some("node:core:Tool"));
    }

    #[test]
    fn distance_counts_a_swap_once() {
        for (left, right, edits) in
            [("", "abc", 3), ("abc", "acb", 1), ("kitten", "sitting", 3), ("é", "e", 1)]
        {
            assert_eq!(distance(left, right), edits, "{left} {right}");
        }
    }

    #[test]
    fn ranking_keeps_all() {
        assert_eq!(ranked("serch", ["ping", "search", "fetch"]), ["search", "fetch", "ping"]);
    }
}
