//! Text that may turn out to end a block.
//!
//! Inside an open block, a close tag may stand in a comment or in reasoning. Only the end of the reply shows whether it was the
//! block's own, so that nothing behind it is certain before.

/// Name in a close tag of a block.
const NAME: &str = "action";

/// Beginning of a close tag.
const OPEN: &str = "</";

/// Search for the first close tag of a block that has not ended, over pieces of a text.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    /// End of the text in which nothing was found.
    clear: usize,
}

impl Doubt {
    /// The part of `certain` bytes of a text that stands before the first close tag, or what may become one.
    pub(crate) fn limit(&mut self, text: &str, certain: usize) -> usize {
        let Some(seen) = text.get(..certain) else { return self.clear };
        while let Some(found) = seen.get(self.clear..).and_then(|rest| rest.find(OPEN)) {
            let at = self.clear + found;
            let inside = seen.get(at + OPEN.len()..).unwrap_or_default();
            if may_be_name(inside.trim_start()) {
                return at;
            }
            self.clear = at + OPEN.len();
        }
        // A tag may be cut behind its first character.
        let is_cut = seen.ends_with('<');
        self.clear = self.clear.max(certain - usize::from(is_cut));
        self.clear
    }
}

fn may_be_name(inside: &str) -> bool {
    let length = inside.len().min(NAME.len());
    inside.get(..length).is_some_and(|begun| begun.eq_ignore_ascii_case(&NAME[..length]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_held_before_what_may_end_a_block() {
        for (text, limit) in [
            ("plain </b> text", 15),
            ("a </ACTION>", 2),
            ("a </ action >b", 2),
            ("a </ac", 2),
            ("a </acx", 7),
            ("a <", 2),
            ("</x> </ACTION> b", 5),
        ] {
            assert_eq!(Doubt::default().limit(text, text.len()), limit, "{text}");
            let mut doubt = Doubt::default();
            let by_pieces = (0..=text.len()).map(|end| doubt.limit(text, end)).last();
            assert_eq!(by_pieces, Some(limit), "{text}");
        }
    }
}
