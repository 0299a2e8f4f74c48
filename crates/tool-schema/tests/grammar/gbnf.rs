//! A small reader of GBNF, so that its grammars are tried as the Lark ones are.
//!
//! Rules are followed all at once: a state is a stack of what is left to read, and a text is in the grammar if a state is
//! empty behind it.

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

#[derive(Debug, Clone)]
enum Part {
    Char(char),
    Class { not: bool, ranges: Vec<(char, char)> },
    Rule(String),
    Row(Vec<Part>),
    OneOf(Vec<Part>),
    Times(Box<Part>, usize, usize),
}

/// A grammar, read.
#[derive(Debug)]
pub(crate) struct Gbnf(HashMap<String, Part>);

/// Part of the grammar, compared by identity.
#[derive(Debug, Clone, Copy)]
struct PartRef<'g>(&'g Part);

impl PartialEq for PartRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for PartRef<'_> {}

impl Hash for PartRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(self.0, state);
    }
}

/// Remaining parts to read, the next one first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Rest<'g> {
    End,
    /// A part, how often it was read of a repetition, and what follows.
    Then(PartRef<'g>, usize, Rc<Rest<'g>>),
}

type States<'g> = HashSet<Rest<'g>>;

impl Gbnf {
    pub(crate) fn new(text: &str) -> Self {
        let rules = text.lines().map(|line| {
            let (name, rule) = line.split_once(" ::= ").unwrap();
            let mut reader = Reader { text: rule, at: 0 };
            let part = reader.one_of();
            assert_eq!(reader.at, rule.len(), "{rule}");
            (name.to_owned(), part)
        });
        Self(rules.collect())
    }

    pub(crate) fn accepts(&self, text: &str) -> bool {
        let mut states = HashSet::new();
        self.open(&self.0["root"], 0, &Rc::new(Rest::End), &mut states, &mut HashSet::new());
        for c in text.chars() {
            let mut next = HashSet::new();
            let mut seen = HashSet::new();
            for state in &states {
                let Rest::Then(part, _, rest) = state else { continue };
                if matches(part.0, c) {
                    self.advance(rest, &mut next, &mut seen);
                }
            }
            states = next;
            if states.is_empty() {
                return false;
            }
        }
        states.contains(&Rest::End)
    }

    fn advance<'g>(&'g self, rest: &Rc<Rest<'g>>, states: &mut States<'g>, seen: &mut States<'g>) {
        match &**rest {
            Rest::End => {
                states.insert(Rest::End);
            }
            Rest::Then(part, read, after) => {
                if seen.insert((**rest).clone()) {
                    self.open(part.0, *read, after, states, seen);
                }
            }
        }
    }

    /// Opens a part down to the characters that it may begin with.
    fn open<'g>(
        &'g self,
        part: &'g Part,
        read: usize,
        after: &Rc<Rest<'g>>,
        states: &mut States<'g>,
        seen: &mut States<'g>,
    ) {
        match part {
            Part::Char(_) | Part::Class { .. } => {
                states.insert(Rest::Then(PartRef(part), 0, Rc::clone(after)));
            }
            Part::Rule(name) => self.open(&self.0[name], 0, after, states, seen),
            Part::Row(parts) => {
                let rest = parts
                    .iter()
                    .rev()
                    .fold(Rc::clone(after), |rest, part| Rc::new(Rest::Then(PartRef(part), 0, rest)));
                self.advance(&rest, states, seen);
            }
            Part::OneOf(parts) => parts.iter().for_each(|part| self.open(part, 0, after, states, seen)),
            Part::Times(inner, min, max) => {
                if read >= *min {
                    self.advance(after, states, seen);
                }
                if read < *max {
                    // Without an end, more than enough is enough.
                    let read = if *max == usize::MAX { (read + 1).min(*min) } else { read + 1 };
                    let again = Rc::new(Rest::Then(PartRef(part), read, Rc::clone(after)));
                    self.open(inner, 0, &again, states, seen);
                }
            }
        }
    }
}

fn matches(part: &Part, c: char) -> bool {
    match part {
        Part::Char(other) => *other == c,
        Part::Class { not, ranges } => ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *not,
        Part::Rule(_) | Part::Row(_) | Part::OneOf(_) | Part::Times(..) => false,
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> char {
        let c = self.peek().unwrap();
        self.at += c.len_utf8();
        c
    }

    fn one_of(&mut self) -> Part {
        let mut options = vec![self.row()];
        while self.peek() == Some('|') {
            self.at += 1;
            options.push(self.row());
        }
        Part::OneOf(options)
    }

    fn row(&mut self) -> Part {
        let mut parts = Vec::new();
        loop {
            while self.peek() == Some(' ') {
                self.at += 1;
            }
            let part = match self.peek() {
                None | Some('|' | ')') => return Part::Row(parts),
                Some('"') => self.literal(),
                Some('[') => self.class(),
                Some('(') => {
                    self.at += 1;
                    let part = self.one_of();
                    assert_eq!(self.next(), ')');
                    part
                }
                Some(_) => self.name(),
            };
            parts.push(self.repeated(part));
        }
    }

    fn name(&mut self) -> Part {
        let rest = &self.text[self.at..];
        let len = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        assert!(len > 0, "{rest}");
        self.at += len;
        Part::Rule(rest[..len].to_owned())
    }

    fn repeated(&mut self, part: Part) -> Part {
        let (min, max) = match self.peek() {
            Some('?') => (0, 1),
            Some('*') => (0, usize::MAX),
            Some('+') => (1, usize::MAX),
            Some('{') => {
                let end = self.at + self.text[self.at..].find('}').unwrap();
                let inside = self.text[self.at + 1..end].to_owned();
                self.at = end;
                let (min, max) = inside.split_once(',').unwrap_or((&inside, &inside));
                (min.parse().unwrap(), max.parse().unwrap_or(usize::MAX))
            }
            Some(_) | None => return part,
        };
        self.at += 1;
        Part::Times(Box::new(part), min, max)
    }

    fn literal(&mut self) -> Part {
        self.at += 1;
        let mut parts = Vec::new();
        while self.peek() != Some('"') {
            parts.push(Part::Char(self.character()));
        }
        self.at += 1;
        Part::Row(parts)
    }

    fn class(&mut self) -> Part {
        self.at += 1;
        let not = self.peek() == Some('^');
        self.at += usize::from(not);
        let mut ranges = Vec::new();
        while self.peek() != Some(']') {
            let low = self.character();
            let is_range = self.text[self.at..].starts_with('-') && !self.text[self.at..].starts_with("-]");
            let high = if is_range {
                self.at += 1;
                self.character()
            } else {
                low
            };
            ranges.push((low, high));
        }
        self.at += 1;
        Part::Class { not, ranges }
    }

    fn character(&mut self) -> char {
        let c = self.next();
        if c != '\\' {
            return c;
        }
        match self.next() {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'x' => {
                let code = u32::from_str_radix(&self.text[self.at..self.at + 2], 16).unwrap();
                self.at += 2;
                char::from_u32(code).unwrap()
            }
            other => other,
        }
    }
}
