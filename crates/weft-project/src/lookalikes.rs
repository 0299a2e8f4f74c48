//! Ids that a reader takes for each other: they differ in case, in width, or in letters of other scripts.

use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization;
use unicode_security::confusable_detection::skeleton;

/// Pairs of ids that look alike, each id with the first that it looks like.
///
/// ```
/// let ids = ["pay", "p\u{430}y", "PAY", "paid"];
/// assert_eq!(weft_project::lookalikes(ids), [("p\u{430}y", "pay"), ("PAY", "pay")]);
/// ```
pub fn lookalikes<'i>(ids: impl IntoIterator<Item = &'i str>) -> Vec<(&'i str, &'i str)> {
    let mut first: BTreeMap<String, &'i str> = BTreeMap::new();
    let mut pairs = Vec::new();
    for id in ids {
        let known = *first.entry(shape(id)).or_insert(id);
        if known != id {
            pairs.push((id, known));
        }
    }
    pairs
}

/// Form that ids share which look alike: the skeleton of Unicode (UTS 39), without case and width.
fn shape(id: &str) -> String {
    let folded: String = id.nfkc().collect::<String>().to_lowercase();
    let once: String = skeleton(&folded).collect::<String>().to_lowercase();
    skeleton(&once).collect()
}

#[cfg(test)]
mod tests {
    use super::lookalikes;

    #[test]
    fn n29_ids_that_look_alike_are_found() {
        for (one, other) in [
            ("mail", "Mail"),
            ("mail", "\u{ff4d}ail"),
            ("mail", "m\u{430}il"),
            ("pay", "\u{440}\u{430}\u{443}"),
            ("mcp:bank/send", "mcp:b\u{430}nk/send"),
            ("step_1", "step_l"),
            ("\u{e9}t\u{e9}", "e\u{301}te\u{301}"),
        ] {
            assert_eq!(lookalikes([one, other]), [(other, one)]);
        }
        assert!(
            lookalikes([
                "read",
                "write",
                "workflow:a",
                "workflow:b",
                "\u{67e5}\u{8be2}",
                "\u{67e5}\u{627e}",
                "step_1",
                "step_2"
            ])
            .is_empty()
        );
    }
}
