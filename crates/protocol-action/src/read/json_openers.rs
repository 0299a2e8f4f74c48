//! A reply that begins as JSON: an opener inside one of its strings is text.

/// Follows JSON text token by token, only as far as needed to know where its strings are.
#[derive(Debug)]
pub(crate) struct JsonReply {
    /// Open containers, `true` for objects.
    open: Vec<bool>,
    expect: Expect,
    in_string: bool,
    escaped: bool,
    word: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    Key,
    Colon,
    CommaOrEnd,
}

/// Classification of a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Inside,
    /// The reply is not JSON from here on.
    Broken,
    /// The JSON value ends with this byte.
    Done,
}

impl JsonReply {
    pub(crate) fn new() -> Self {
        Self { open: Vec::new(), expect: Expect::Value, in_string: false, escaped: false, word: 0 }
    }

    /// Reads one byte; bytes of longer characters count as ordinary.
    pub(crate) fn step(&mut self, byte: u8) -> Step {
        if self.in_string {
            return self.string(byte);
        }
        if self.word > 0 && (byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+' | b'-')) {
            self.word += 1;
            // The longest number that is worth the name of one.
            return if self.word < 40 { Step::Inside } else { Step::Broken };
        }
        self.word = 0;
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => Step::Inside,
            b'"' => self.quote(),
            b'{' | b'[' if self.expect == Expect::Value => self.begin(byte == b'{'),
            b'}' | b']' => self.end(byte == b'}'),
            b',' if self.expect == Expect::CommaOrEnd => self.comma(),
            b':' if self.expect == Expect::Colon => self.expecting(Expect::Value),
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' if self.expect == Expect::Value => {
                self.word = 1;
                self.expecting(Expect::CommaOrEnd)
            }
            _other => Step::Broken,
        }
    }

    fn string(&mut self, byte: u8) -> Step {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => self.in_string = false,
            _inside => {}
        }
        Step::Inside
    }

    fn quote(&mut self) -> Step {
        self.in_string = true;
        match self.expect {
            Expect::Value => self.expecting(Expect::CommaOrEnd),
            Expect::Key => self.expecting(Expect::Colon),
            Expect::Colon | Expect::CommaOrEnd => Step::Broken,
        }
    }

    fn begin(&mut self, object: bool) -> Step {
        self.open.push(object);
        self.expecting(if object { Expect::Key } else { Expect::Value })
    }

    /// A closing bracket is taken wherever it fits the open one: what stands before it does not matter.
    fn end(&mut self, object: bool) -> Step {
        if self.open.pop() != Some(object) {
            return Step::Broken;
        }
        self.expect = Expect::CommaOrEnd;
        if self.open.is_empty() { Step::Done } else { Step::Inside }
    }

    fn comma(&mut self) -> Step {
        let object = self.open.last() == Some(&true);
        self.expecting(if object { Expect::Key } else { Expect::Value })
    }

    fn expecting(&mut self, expect: Expect) -> Step {
        self.expect = expect;
        Step::Inside
    }
}
