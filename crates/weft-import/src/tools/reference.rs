//! References of a description: JSON pointers in the fragment of a URI.

use percent_encoding::percent_decode_str;
use serde_json::Value;

/// Returns the target of a reference inside the document, with its pointer; or the reason why it is not followed.
pub(super) fn target<'d>(document: &'d Value, reference: &str) -> Result<(&'d Value, String), String> {
    let (file, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    if file.contains("://") {
        return Err(format!("`{reference}` leads to another address, which is not read"));
    }
    if !file.is_empty() {
        return Err(format!("`{reference}` leads to another file, which was not read"));
    }
    let decoded = percent_decode_str(fragment).decode_utf8_lossy();
    // A name that holds a percent sign is also written as it is.
    let found = [decoded.as_ref(), fragment].into_iter().find_map(|pointer| {
        let value = document.pointer(pointer)?;
        Some((value, pointer.to_owned()))
    });
    found.ok_or_else(|| {
        if fragment.starts_with('/') {
            format!("`{reference}` leads nowhere")
        } else {
            format!("`{reference}` is an anchor, and only pointers such as `#/components/…` are followed")
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fragment_is_decoded_once() {
        let document =
            json!({"Boat Hire": 1, "Page{Boat}": 2, "Führerschein": 3, "a/b": 4, "a%20b": 5, "~": 6});
        for (reference, expected) in [
            ("#/Boat%20Hire", 1),
            ("#/Boat Hire", 1),
            ("#/Page%7BBoat%7D", 2),
            ("#/Page{Boat}", 2),
            ("#/F%C3%BChrerschein", 3),
            ("#/a~1b", 4),
            ("#/a%7E1b", 4),
            ("#/a%2520b", 5),
            ("#/a%20b", 5),
            ("#/~0", 6),
        ] {
            assert_eq!(
                target(&document, reference).map(|found| found.0),
                Ok(&json!(expected)),
                "{reference}"
            );
        }
        let reason = |reference| target(&document, reference).unwrap_err();
        assert!(reason("./x.yaml#/a").contains("another file"));
        assert!(reason("https://a.test/x.yaml").contains("another address"));
        assert!(reason("#name").contains("anchor"));
        assert_eq!(reason("#/none"), "`#/none` leads nowhere");
    }
}
