//! Reading of a foreign file that accounts for every member.
//!
//! A [`Ledger`] is opened over a document, and a [`Fields`] is a view of one value of it. Whatever an import takes through a view is
//! marked; closing the ledger walks the whole document, so a member that was not taken, kept or noted cannot be missed.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ptr;

use serde_json::{Map, Value};

use crate::report::{Entry, LEFT_OUT, Report, What};

/// The state of a value, and of everything inside it that has none of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Mapped,
    Preserved,
    /// A note says that it is unsupported.
    Noted,
    /// Nothing took it.
    Left,
}

/// The marks and notes of an import of one document.
#[derive(Debug)]
pub(crate) struct Ledger<'d> {
    document: &'d Value,
    /// Marks by the address of the value, which stays while the document is borrowed.
    marks: RefCell<HashMap<usize, Mark>>,
    /// Lists and objects that were opened: where they are empty, they were taken by that.
    opened: RefCell<HashSet<usize>>,
    notes: RefCell<Vec<Entry>>,
}

fn address(value: &Value) -> usize {
    ptr::from_ref(value).addr()
}

/// A name as a step of a JSON pointer.
pub(crate) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

impl<'d> Ledger<'d> {
    pub(crate) fn new(document: &'d Value) -> Self {
        Self { document, marks: RefCell::default(), opened: RefCell::default(), notes: RefCell::default() }
    }

    pub(crate) fn document(&self) -> &'d Value {
        self.document
    }

    /// The view of the whole document.
    pub(crate) fn root(&'d self) -> Fields<'d> {
        self.view(self.document)
    }

    /// The view of a value inside the document.
    pub(crate) fn view(&'d self, value: &'d Value) -> Fields<'d> {
        Fields { value, ledger: self }
    }

    /// Marks a value and all inside it as mapped.
    pub(crate) fn mapped(&self, value: &Value) {
        self.mark(value, Mark::Mapped);
    }

    /// Marks a value and all inside it as not taken, though something around it was.
    pub(crate) fn left(&self, value: &Value) {
        self.mark(value, Mark::Left);
    }

    fn mark(&self, value: &Value, mark: Mark) {
        self.marks.borrow_mut().insert(address(value), mark);
    }

    /// States that what stands at a path is unsupported; nothing inside it is reported again.
    pub(crate) fn unsupported(
        &self,
        path: impl Into<String>,
        code: &'static str,
        message: impl Into<String>,
    ) {
        let path = path.into();
        if let Some(value) = self.document.pointer(&path) {
            self.mark(value, Mark::Noted);
        }
        self.note(path, What::Unsupported, code, message.into());
    }

    /// States that what stands at a path works in another way.
    pub(crate) fn changed(&self, path: impl Into<String>, code: &'static str, message: impl Into<String>) {
        self.note(path.into(), What::Changed, code, message.into());
    }

    fn note(&self, path: String, what: What, code: &'static str, message: String) {
        let entry = Entry { path, what, code: Some(code), message: Some(message), help: None };
        let mut notes = self.notes.borrow_mut();
        if !notes.contains(&entry) {
            notes.push(entry);
        }
    }

    /// The report: the notes, and the fate of every member.
    pub(crate) fn close(&self) -> Report {
        let mut entries = self.notes.take();
        let mut found = Vec::new();
        if let Some(mark) = self.walk(self.document, "", None, &mut found) {
            found.push((String::new(), mark));
        }
        entries.extend(found.into_iter().filter_map(|(path, mark)| entry(path, mark)));
        Report::new(entries)
    }

    /// The mark that all members of a value share; none where they differ, and each is among the found ones.
    fn walk(
        &self,
        value: &Value,
        path: &str,
        outer: Option<Mark>,
        found: &mut Vec<(String, Mark)>,
    ) -> Option<Mark> {
        let own = match outer {
            Some(Mark::Noted) => outer,
            _ => self.marks.borrow().get(&address(value)).copied().or(outer),
        };
        let start = found.len();
        match value {
            Value::Object(members) if !members.is_empty() => {
                for (name, member) in members {
                    self.member(member, format!("{path}/{}", escaped(name)), own, found);
                }
            }
            Value::Array(items) if !items.is_empty() => {
                for (at, item) in items.iter().enumerate() {
                    self.member(item, format!("{path}/{at}"), own, found);
                }
            }
            // An absent value says as much.
            Value::Null => return Some(own.unwrap_or(Mark::Mapped)),
            _ => {
                let opened = self.opened.borrow().contains(&address(value)).then_some(Mark::Mapped);
                return Some(own.or(opened).unwrap_or(Mark::Left));
            }
        }
        let direct = |inner: &str| !inner[path.len() + 1..].contains('/');
        let shared = found[start..].first().map(|(_, mark)| *mark)?;
        let is_shared = found[start..].iter().all(|(inner, mark)| *mark == shared && direct(inner));
        is_shared.then(|| {
            found.truncate(start);
            shared
        })
    }

    fn member(&self, value: &Value, path: String, outer: Option<Mark>, found: &mut Vec<(String, Mark)>) {
        if let Some(mark) = self.walk(value, &path, outer, found) {
            found.push((path, mark));
        }
    }
}

/// The entry of a member; none where a note speaks of it already.
fn entry(path: String, mark: Mark) -> Option<Entry> {
    let plain = |path, what| Entry { path, what, code: None, message: None, help: None };
    match mark {
        Mark::Mapped => Some(plain(path, What::Mapped)),
        Mark::Preserved => Some(plain(path, What::Preserved)),
        Mark::Noted => None,
        Mark::Left => {
            let name = path.rsplit('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~");
            let message = Some(format!("`{name}` is unsupported"));
            let help = Some("where it matters, write its counterpart into the new file by hand");
            Some(Entry { path, what: What::Unsupported, code: Some(LEFT_OUT), message, help })
        }
    }
}

/// A value of the foreign file; reading it marks what was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'d> {
    value: &'d Value,
    ledger: &'d Ledger<'d>,
}

impl<'d> Fields<'d> {
    /// The value, without taking it: for decisions about its kind.
    pub(crate) fn peek(self) -> &'d Value {
        self.value
    }

    /// The ledger that it is marked in.
    pub(crate) fn ledger(self) -> &'d Ledger<'d> {
        self.ledger
    }

    /// A member that is there and not `null`.
    pub(crate) fn get(self, name: &str) -> Option<Self> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Self { value, ..self })
    }

    /// An item of a list.
    pub(crate) fn item(self, at: usize) -> Option<Self> {
        self.value.get(at).map(|value| Self { value, ..self })
    }

    /// The items of a list; none where it is not one.
    pub(crate) fn items(self) -> impl Iterator<Item = Self> {
        let items = self.value.as_array();
        self.open(items.is_some());
        items.into_iter().flatten().map(move |value| Self { value, ..self })
    }

    /// The members of an object; none where it is not one.
    pub(crate) fn members(self) -> impl Iterator<Item = (&'d String, Self)> {
        let members = self.value.as_object();
        self.open(members.is_some());
        members.into_iter().flatten().map(move |(name, value)| (name, Self { value, ..self }))
    }

    fn open(self, is_of_kind: bool) {
        if is_of_kind {
            self.ledger.opened.borrow_mut().insert(address(self.value));
        }
    }

    /// Takes the value with all inside it.
    pub(crate) fn take(self) -> &'d Value {
        self.ledger.mapped(self.value);
        self.value
    }

    fn taken<T>(self, read: Option<T>) -> Option<T> {
        if read.is_some() {
            self.take();
        }
        read
    }

    /// Takes a text.
    pub(crate) fn text(self) -> Option<&'d str> {
        self.taken(self.value.as_str())
    }

    /// Takes a truth value.
    pub(crate) fn truth(self) -> Option<bool> {
        self.taken(self.value.as_bool())
    }

    /// Takes a whole number that is not negative.
    pub(crate) fn whole(self) -> Option<u64> {
        self.taken(self.value.as_u64())
    }

    /// Takes a whole number.
    pub(crate) fn integer(self) -> Option<i64> {
        self.taken(self.value.as_i64())
    }

    /// Takes a number.
    pub(crate) fn number(self) -> Option<f64> {
        self.taken(self.value.as_f64())
    }

    /// Takes an object with all inside it.
    pub(crate) fn object(self) -> Option<&'d Map<String, Value>> {
        self.taken(self.value.as_object())
    }

    /// Takes an id, which other systems write as a number or a text.
    pub(crate) fn id(self) -> Option<String> {
        self.taken(match self.value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        })
    }

    /// Takes a member that is a text and not blank.
    pub(crate) fn word(self, name: &str) -> Option<&'d str> {
        let member = self.get(name)?;
        member.taken(member.value.as_str().filter(|text| !text.trim().is_empty()))
    }

    /// Takes a member that is one of some words.
    pub(crate) fn one_of<T: Copy>(self, name: &str, words: &[(&str, T)]) -> Option<T> {
        let member = self.get(name)?;
        let known = words.iter().find(|(word, _)| member.value.as_str() == Some(word));
        member.taken(known.map(|(_, meaning)| *meaning))
    }

    /// Takes the texts of a list.
    pub(crate) fn texts(self, name: &str) -> Vec<String> {
        self.get(name).into_iter().flat_map(Self::items).filter_map(Self::text).map(str::to_owned).collect()
    }

    /// Keeps every member of which something was not taken, but for some: what the new file carries along unread.
    pub(crate) fn keep_rest(self, except: &[&str]) -> Map<String, Value> {
        let mut rest = Map::new();
        for (name, member) in self.members() {
            if !except.contains(&name.as_str()) && member.has_rest() {
                self.ledger.mark(member.value, Mark::Preserved);
                rest.insert(name.clone(), member.value.clone());
            }
        }
        rest
    }

    fn has_rest(self) -> bool {
        let mut found = Vec::new();
        let shared = self.ledger.walk(self.value, "", None, &mut found);
        shared.is_some_and(|mark| mark == Mark::Left) || found.iter().any(|(_, mark)| *mark == Mark::Left)
    }
}
