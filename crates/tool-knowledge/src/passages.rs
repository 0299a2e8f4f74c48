//! Parts of texts.

use run_store::Passage;

/// Longest passage, in characters; a longer paragraph is cut at a line or a blank.
const MAX_PASSAGE: usize = 1200;

/// Parts a text into passages: paragraphs under their heading, put together while they are short.
pub(crate) fn add_passages(source: &str, text: &str, passages: &mut Vec<Passage>) {
    let mut heading = String::new();
    let mut open = String::new();
    let mut close = |heading: &str, open: &mut String| {
        let text = std::mem::take(open);
        if !text.trim().is_empty() {
            let source =
                if heading.is_empty() { source.to_owned() } else { format!("{source} › {heading}") };
            passages.push(Passage { source, text: text.trim().to_owned() });
        }
    };
    for line in text.lines() {
        if let Some(title) = line.strip_prefix('#') {
            close(&heading, &mut open);
            title.trim_start_matches('#').trim().clone_into(&mut heading);
            continue;
        }
        let is_gap = line.trim().is_empty();
        if is_gap && open.chars().count() > MAX_PASSAGE / 2 {
            close(&heading, &mut open);
        }
        let mut line = line;
        while open.chars().count() + line.chars().count() > MAX_PASSAGE {
            let room = MAX_PASSAGE.saturating_sub(open.chars().count());
            let end = line.char_indices().nth(room).map_or(line.len(), |(at, _)| at);
            let end = line[..end].rfind(' ').filter(|at| *at > 0).unwrap_or(end);
            open.push_str(&line[..end]);
            close(&heading, &mut open);
            line = line[end..].trim_start();
        }
        open.push_str(line);
        open.push('\n');
    }
    close(&heading, &mut open);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_parted_under_their_headings() {
        let mut passages = Vec::new();
        let long = "words ".repeat(500);
        add_passages("a.md", &format!("Before.\n# One\nFirst.\n\nSecond.\n## Two\n{long}"), &mut passages);
        let sources: Vec<&str> = passages.iter().map(|passage| passage.source.as_str()).collect();
        assert_eq!(sources, ["a.md", "a.md › One", "a.md › Two", "a.md › Two", "a.md › Two"]);
        assert_eq!(passages[1].text, "First.\n\nSecond.");
        assert!(passages.iter().all(|passage| passage.text.chars().count() <= MAX_PASSAGE));
        let words: usize = passages[2..].iter().map(|passage| passage.text.split_whitespace().count()).sum();
        assert_eq!(words, 500, "nothing is lost");
        let mut unspaced = Vec::new();
        add_passages("b.md", &"字".repeat(3000), &mut unspaced);
        assert_eq!(unspaced.iter().map(|passage| passage.text.chars().count()).sum::<usize>(), 3000);
    }
}
