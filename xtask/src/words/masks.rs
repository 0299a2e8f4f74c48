//! Parts of a source file by what they are for: doc comments, string literals, code.
//!
//! A part is the whole text with everything else blanked out, so that places in it are places in the file.

/// Byte that stands before the first line of each doc comment.
pub(super) const BEGINNING: u8 = 0x02;

/// Text of a source file in three parts, each as long as the file.
#[derive(Debug)]
pub(super) struct Masks {
    /// Lines of `///` and `//!`; [`BEGINNING`] marks where a comment begins.
    pub(super) docs: String,
    /// Contents of string literals.
    pub(super) strings: String,
    /// Everything that is neither comment nor literal.
    pub(super) code: String,
}

/// Kind of a piece of source text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Doc,
    Comment,
    Literal,
    Code,
}

impl Masks {
    /// Parts of the text of a Rust file. Text that is cut off in a literal ends in that literal.
    pub(super) fn new(text: &str) -> Self {
        let blank: Vec<u8> = text.bytes().map(|byte| if byte == b'\n' { b'\n' } else { b' ' }).collect();
        let (mut docs, mut strings, mut code) = (blank.clone(), blank.clone(), blank);
        let bytes = text.as_bytes();
        let mut at = 0;
        let mut continues = false;
        while at < bytes.len() {
            let (kind, end) = piece(bytes, at);
            match kind {
                Kind::Doc => {
                    let begin = at + 3;
                    docs[begin..end].copy_from_slice(&bytes[begin..end]);
                    if !continues {
                        docs[begin - 1] = BEGINNING;
                    }
                }
                Kind::Literal => strings[at..end].copy_from_slice(&bytes[at..end]),
                Kind::Code => code[at..end].copy_from_slice(&bytes[at..end]),
                Kind::Comment => {}
            }
            let is_blank = kind == Kind::Code && bytes[at..end].iter().all(u8::is_ascii_whitespace);
            continues = kind == Kind::Doc || (continues && is_blank);
            at = end;
        }
        Self { docs: owned(docs), strings: owned(strings), code: owned(code) }
    }
}

/// Pieces begin and end at ASCII bytes, so a mask is UTF-8 as the text is.
fn owned(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The piece that begins at a place, with its end.
fn piece(bytes: &[u8], at: usize) -> (Kind, usize) {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        let doc = (rest.starts_with(b"///") && !rest.starts_with(b"////")) || rest.starts_with(b"//!");
        return (if doc { Kind::Doc } else { Kind::Comment }, at + line_end(rest));
    }
    if rest.starts_with(b"/*") {
        return (Kind::Comment, at + block_end(rest));
    }
    if rest[0] == b'"' {
        return (Kind::Literal, at + quoted_end(rest));
    }
    if let Some(hashes) = raw_hashes(bytes, at) {
        return (Kind::Literal, at + raw_end(rest, hashes));
    }
    (Kind::Code, at + code_end(bytes, at))
}

fn line_end(rest: &[u8]) -> usize {
    rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len())
}

/// Length of a block comment; comments nest.
fn block_end(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match rest.get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") if depth == 1 => return at + 2,
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    rest.len()
}

fn quoted_end(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Number of `#` of a raw string that begins here.
fn raw_hashes(bytes: &[u8], at: usize) -> Option<usize> {
    let within_name = at > 0 && is_name(bytes[at - 1]) && bytes[at - 1] != b'b';
    if bytes[at] != b'r' || within_name {
        return None;
    }
    let hashes = bytes[at + 1..].iter().take_while(|&&byte| byte == b'#').count();
    (bytes.get(at + 1 + hashes) == Some(&b'"')).then_some(hashes)
}

fn raw_end(rest: &[u8], hashes: usize) -> usize {
    let mut end = vec![b'"'];
    end.resize(hashes + 1, b'#');
    let begin = hashes + 2;
    let found = rest[begin..].windows(end.len()).position(|window| window == end);
    found.map_or(rest.len(), |found| begin + found + end.len())
}

/// Length of the code up to the next comment or literal. A quoted character such as `'"'` begins none.
fn code_end(bytes: &[u8], begin: usize) -> usize {
    let mut at = begin;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let next = rest[0] == b'"' || rest.starts_with(b"//") || rest.starts_with(b"/*");
        if next || raw_hashes(bytes, at).is_some() {
            break;
        }
        at += character(rest).unwrap_or(1);
    }
    at - begin
}

/// Length of a character literal that needs care: `'"'`, `'\''`, `'/'`.
fn character(rest: &[u8]) -> Option<usize> {
    match rest {
        [b'\'', b'\\', _, b'\'', ..] => Some(4),
        [b'\'', _, b'\'', ..] => Some(3),
        _ => None,
    }
}

fn is_name(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, docs: &str, strings: &str, code: &str) {
        let masks = Masks::new(text);
        let words = |mask: &str| mask.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!([masks.docs.len(), masks.strings.len(), masks.code.len()], [text.len(); 3]);
        assert_eq!(words(&masks.docs), docs, "docs");
        assert_eq!(words(&masks.strings), strings, "strings");
        assert_eq!(words(&masks.code), code, "code");
    }

    #[test]
    fn each_part_holds_its_text_alone() {
        check("/// One.\n/// Two.\nfn a() {} // no", "\u{2} One. Two.", "", "fn a() {}");
        check("//! One.\n\nlet a = \"b // \\\" c\";", "\u{2} One.", "\"b // \\\" c\"", "let a = ;");
        check("f(r#\"a \" // b\"#, 'r', b\"c\")", "", "r#\"a \" // b\"# \"c\"", "f( , 'r', b )");
        check("let a = '\"'; /* b /* c */ \" */ let d = '\\'';", "", "", "let a = '\"'; let d = '\\'';");
        check("/// A.\nfn a() {}\n/// B.\nfn b() {}", "\u{2} A. \u{2} B.", "", "fn a() {} fn b() {}");
        check("//// no\n&'a str", "", "", "&'a str");
        check("\"cut", "", "\"cut", "");
    }
}
