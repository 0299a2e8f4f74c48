//! Content allowed between the tags of a parameter, in terms of the text and not of the schema.

use std::collections::HashMap;

use protocol_action::RawValue;
use protocol_action::encode::element_text;
use serde_json::Value;

use super::GrammarScope;
use super::pattern::{Decimal, Pattern};
use crate::encode::{Writer, text_tags};
use crate::node::{Bound, Limits, Node, NodeId, Nodes, Types};

/// Index of a form in its table.
pub(super) type FormId = usize;

/// Content allowed between two tags.
#[derive(Debug, Clone)]
pub(super) enum Form {
    /// Text of so many characters, without `<`, or in CDATA.
    Text(Text),
    /// One of these texts, as they are written.
    Literals(Vec<String>),
    /// A number.
    Number(Pattern),
    /// JSON text of a kind.
    Json(Json),
    /// Items on separate lines.
    List(List),
    /// Fields on separate lines, in this order.
    Object {
        fields: Vec<Field>,
        depth: usize,
    },
    OneOf(Vec<FormId>),
}

/// Text of a length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text {
    pub(super) min: u64,
    pub(super) max: u64,
    /// Flag of a bound that the schema declares; otherwise it is a default of the grammar.
    pub(super) exact: bool,
    pub(super) start: Start,
}

/// Items on separate lines.
#[derive(Debug, Clone)]
pub(super) struct List {
    pub(super) first: Vec<FormId>,
    pub(super) rest: Option<FormId>,
    pub(super) min: u64,
    pub(super) max: u64,
    /// Indentation depth of the items.
    pub(super) depth: usize,
}

/// Allowed beginnings of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Start {
    Anything,
    /// With a letter: what begins otherwise could be JSON, and be read as such.
    Letter,
}

/// A kind of JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Json {
    Any,
    Array,
    Object,
}

/// A field of an object, between its open and its close tag.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) tags: (String, String),
    pub(super) form: FormId,
    pub(super) required: bool,
}

/// A tool as a grammar writes it.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) open: String,
    pub(super) close: String,
    pub(super) root: FormId,
    pub(super) forms: Vec<Form>,
}

/// Reason for which a parameter has no legal text.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) path: String,
    pub(super) why: String,
}

/// Bounds where the schema gives none.
#[derive(Debug, Clone, Copy)]
struct Usual {
    text: u64,
    shortest: u64,
    items: u64,
    depth: usize,
}

impl Usual {
    const fn new(scope: GrammarScope) -> Self {
        match scope {
            GrammarScope::Wide => Self { text: 65_536, shortest: 0, items: 256, depth: 12 },
            GrammarScope::Narrow => Self { text: 120, shortest: 1, items: 8, depth: 5 },
        }
    }
}

/// Makes the forms of one tool.
pub(super) struct Forms<'s> {
    nodes: &'s Nodes,
    scope: GrammarScope,
    usual: Usual,
    table: Vec<Form>,
    made: HashMap<(NodeId, usize), Result<FormId, Refusal>>,
    pub(super) loose: Vec<(String, &'static str)>,
}

impl<'s> Forms<'s> {
    pub(super) fn new(nodes: &'s Nodes, scope: GrammarScope) -> Self {
        let usual = Usual::new(scope);
        Self { nodes, scope, usual, table: Vec::new(), made: HashMap::new(), loose: Vec::new() }
    }

    pub(super) fn into_table(self) -> Vec<Form> {
        self.table
    }

    /// Form of a tool's arguments: an object, even if the schema does not say so.
    pub(super) fn arguments(&mut self) -> Result<FormId, Refusal> {
        let root = self.nodes.get(0);
        self.note(&root.limits, "");
        if !root.branches.is_empty() {
            self.loose.push((String::new(), "anyOf"));
        }
        let form = self.fields(root, "", 2)?;
        Ok(self.add(form))
    }

    fn add(&mut self, form: Form) -> FormId {
        self.table.push(form);
        self.table.len() - 1
    }

    fn note(&mut self, limits: &Limits, path: &str) {
        for keyword in &limits.others {
            if !self.loose.iter().any(|(known, word)| known == path && word == keyword) {
                self.loose.push((path.to_owned(), keyword));
            }
        }
    }

    /// The form of a node whose parts would be indented by `depth`.
    fn form(&mut self, id: NodeId, path: &str, depth: usize) -> Result<FormId, Refusal> {
        if let Some(known) = self.made.get(&(id, depth)) {
            return known.clone();
        }
        let made = self.make(id, path, depth).map(|form| self.add(form));
        self.made.insert((id, depth), made.clone());
        made
    }

    fn make(&mut self, id: NodeId, path: &str, depth: usize) -> Result<Form, Refusal> {
        let node = self.nodes.get(id);
        self.note(&node.limits, path);
        if !node.branches.is_empty() {
            return self.alternatives(node, path, depth);
        }
        if let Some(members) = &node.members {
            return self.members(id, node, members, path);
        }
        if node.is_any() {
            return Ok(self.anything());
        }
        self.typed(node, path, depth)
    }

    fn members(&self, id: NodeId, node: &Node, members: &[Value], path: &str) -> Result<Form, Refusal> {
        let fitting = members.iter().filter(|member| node.types.admits(Types::from_value(member)));
        let null = Value::Null;
        let null = (node.types.has(Types::NULL) && !members.contains(&null)).then_some(&null);
        let mut literals: Vec<String> = Vec::new();
        for member in fitting.chain(null) {
            // Written as `encode` writes it, so that it is read back as this member.
            let RawValue::Text(text) = (Writer { nodes: self.nodes }).value(id, member) else { continue };
            let literal = element_text(&text);
            if !literals.contains(&literal) && !literal.contains(is_control) {
                literals.push(literal);
            }
        }
        if literals.is_empty() {
            return Err(refusal(path, format!("no legal value is of type {}", node.types.words())));
        }
        Ok(Form::Literals(literals))
    }

    /// Form without a declaration: every text is legal; a small model is kept from texts that look like JSON but are
    /// not.
    fn anything(&mut self) -> Form {
        match self.scope {
            GrammarScope::Wide => self.text(&Limits::default(), Start::Anything),
            GrammarScope::Narrow => {
                let text = self.text(&Limits::default(), Start::Letter);
                let text = self.add(text);
                let json = self.add(Form::Json(Json::Any));
                Form::OneOf(vec![text, json])
            }
        }
    }

    fn alternatives(&mut self, node: &Node, path: &str, depth: usize) -> Result<Form, Refusal> {
        let mut forms = Vec::new();
        let mut first_refusal = None;
        for &branch in &node.branches {
            match self.form(branch, path, depth) {
                Ok(form) => forms.push(form),
                Err(refusal) => first_refusal = first_refusal.or(Some(refusal)),
            }
        }
        if forms.is_empty() {
            return Err(first_refusal.unwrap_or_else(|| refusal(path, "it has no alternatives".into())));
        }
        match self.scope {
            GrammarScope::Narrow => forms.truncate(1),
            GrammarScope::Wide => {
                let structure = Types::ARRAY.with(Types::OBJECT);
                if node.branches.iter().any(|&id| self.nodes.get(id).types.has(structure)) {
                    forms.push(self.add(Form::Json(Json::Any)));
                }
            }
        }
        Ok(Form::OneOf(forms))
    }

    fn typed(&mut self, node: &Node, path: &str, depth: usize) -> Result<Form, Refusal> {
        let types = node.types;
        let structure = types.has(Types::ARRAY.with(Types::OBJECT));
        let narrow = self.scope == GrammarScope::Narrow;
        let mut forms = Vec::new();
        let mut why = None;
        let mut take = |form: Result<Form, Refusal>| match form {
            Ok(form) => forms.push(form),
            Err(refusal) => why = Some(refusal),
        };
        if types.has(Types::STRING) {
            let start = if narrow && structure { Start::Letter } else { Start::Anything };
            take(self.checked_text(&node.limits, start, path));
        }
        // A small model gets one kind where text would be legal anyway.
        if !(narrow && types.has(Types::STRING)) {
            if types.has(Types::INTEGER.with(Types::NUMBER)) {
                take(self.number(node, path));
            }
            if types.has(Types::BOOLEAN) {
                take(Ok(Form::Literals(vec!["true".into(), "false".into()])));
            }
            if types.has(Types::OBJECT) {
                take(self.object(node, path, depth));
            }
            if types.has(Types::ARRAY) && !(narrow && types.has(Types::OBJECT)) {
                take(self.list(node, path, depth));
            }
            if types.has(Types::NULL) {
                take(Ok(Form::Literals(vec!["null".into()])));
            }
        }
        let is_mixed =
            types.without(Types::NULL) != Types::ARRAY && types.without(Types::NULL) != Types::OBJECT;
        if structure && is_mixed && !narrow {
            forms.push(Form::Json(Json::Any));
        }
        match (forms.len(), why) {
            (0, Some(refusal)) => Err(refusal),
            (1, _) => Ok(forms.remove(0)),
            (_, _) => {
                let forms = forms.into_iter().map(|form| self.add(form)).collect();
                Ok(Form::OneOf(forms))
            }
        }
    }

    fn text(&self, limits: &Limits, start: Start) -> Form {
        let min = limits.min_length.unwrap_or(0).max(self.usual.shortest);
        let max = match self.scope {
            GrammarScope::Wide => limits.max_length.unwrap_or(self.usual.text),
            GrammarScope::Narrow => limits.max_length.unwrap_or(u64::MAX).min(self.usual.text),
        };
        let exact = limits.max_length.is_some();
        Form::Text(Text { min: min.min(limits.max_length.unwrap_or(min)), max: max.max(min), exact, start })
    }

    fn checked_text(&self, limits: &Limits, start: Start, path: &str) -> Result<Form, Refusal> {
        match (limits.min_length, limits.max_length) {
            (Some(min), Some(max)) if min > max => {
                Err(refusal(path, format!("no text has at least {min} and at most {max} characters")))
            }
            (_, Some(0)) => Ok(Form::Literals(vec![String::new()])),
            (Some(min), _) if min > self.usual.text.max(65_536) => {
                Err(refusal(path, format!("a text of {min} characters is longer than a grammar holds")))
            }
            (_, _) => Ok(self.text(limits, start)),
        }
    }

    fn number(&self, node: &Node, path: &str) -> Result<Form, Refusal> {
        let narrow = self.scope == GrammarScope::Narrow;
        let decimal = |bound: &Option<Bound>| {
            bound.as_ref().and_then(|bound| Decimal::parse(&bound.value.to_string(), bound.exclusive))
        };
        let (low, high) = (decimal(&node.limits.lower), decimal(&node.limits.upper));
        let reach = 999_999_999;
        let (bottom, top) = match (narrow, &low, &high) {
            (false, _, _) => (i64::MIN.into(), i64::MAX.into()),
            (true, Some(low), None) => (-reach, reach.max(low.least_integer() + reach)),
            (true, None, Some(high)) => ((-reach).min(high.greatest_integer() - reach), reach),
            (true, _, _) => (-reach, reach),
        };
        let none = || refusal(path, "no number is in its range".into());
        let pattern = if !node.types.has(Types::NUMBER) && !narrow && low.is_none() && high.is_none() {
            Some(Pattern::any_integer())
        } else if !node.types.has(Types::NUMBER) {
            let low = low.map_or(bottom, |low| low.least_integer());
            let high = high.map_or(top, |high| high.greatest_integer());
            Pattern::integers(low, high)
        } else if low.is_none() && high.is_none() {
            Some(if narrow { Pattern::short_numbers() } else { Pattern::numbers() })
        } else {
            let low = low.unwrap_or(Decimal::whole(bottom));
            let high = high.unwrap_or(Decimal::whole(top));
            Pattern::between(&low, &high, if narrow { 4 } else { 17 })
        };
        pattern.map(Form::Number).ok_or_else(none)
    }

    fn object(&mut self, node: &Node, path: &str, depth: usize) -> Result<Form, Refusal> {
        if node.fields.is_empty() && node.required.is_empty() {
            return Ok(if node.closed {
                Form::Literals(vec!["{}".into()])
            } else {
                Form::Json(Json::Object)
            });
        }
        let elements = self.fields(node, path, depth)?;
        if !node.required.is_empty() {
            return Ok(elements);
        }
        let forms = [Form::Literals(vec!["{}".into()]), elements];
        Ok(Form::OneOf(forms.into_iter().map(|form| self.add(form)).collect()))
    }

    fn fields(&mut self, node: &Node, path: &str, depth: usize) -> Result<Form, Refusal> {
        if depth > self.usual.depth {
            return Err(refusal(path, "it is nested too deep".into()));
        }
        if let Some(name) = node.required.iter().find(|name| !node.fields.contains_key(*name)) {
            return Err(refusal(path, format!("`{name}` is required and not declared")));
        }
        let mut fields = Vec::new();
        for (name, &id) in &node.fields {
            let required = node.required.contains(name);
            match self.form(id, &format!("{path}/{name}"), depth + 1) {
                Ok(form) => fields.push(Field { tags: text_tags(name, &node.fields), form, required }),
                Err(refusal) if required => return Err(refusal),
                Err(_cannot_be_given) => {}
            }
        }
        Ok(Form::Object { fields, depth })
    }

    fn list(&mut self, node: &Node, path: &str, depth: usize) -> Result<Form, Refusal> {
        let min = node.limits.min_items.unwrap_or(0);
        let max = node.limits.max_items.unwrap_or(self.usual.items.max(min));
        let max = if self.scope == GrammarScope::Narrow { max.min(self.usual.items.max(min)) } else { max };
        if min > max {
            return Err(refusal(path, format!("no list has at least {min} and at most {max} items")));
        }
        if max == 0 {
            return Ok(Form::Literals(vec!["[]".into()]));
        }
        if node.item.is_none() && node.prefix.is_empty() {
            return Ok(Form::Json(Json::Array));
        }
        let unique = node.limits.others.contains(&"uniqueItems");
        let max = if unique && self.scope == GrammarScope::Narrow { min.max(1) } else { max };
        let place = format!("{path}/item");
        let deeper = |forms: &mut Self, id| {
            if depth > forms.usual.depth {
                return Err(refusal(path, "it is nested too deep".into()));
            }
            forms.form(id, &place, depth + 1)
        };
        let mut first = Vec::new();
        let mut failed = None;
        for &id in &node.prefix {
            match deeper(self, id) {
                Ok(form) => first.push(form),
                Err(refusal) => {
                    failed = Some(refusal);
                    break;
                }
            }
        }
        let rest = match (&failed, node.item) {
            (None, Some(id)) => deeper(self, id).map_err(|refusal| failed = Some(refusal)).ok(),
            (_, _) => None,
        };
        let max = if rest.is_some() { max } else { max.min(first.len() as u64) };
        match failed {
            Some(refusal) if min > max => return Err(refusal),
            None if min > max => {
                return Err(refusal(path, format!("only {max} of {min} items are declared")));
            }
            Some(_) | None => {}
        }
        let empty = (min == 0).then(|| self.add(Form::Literals(vec!["[]".into()])));
        if max == 0 {
            return Ok(Form::Literals(vec!["[]".into()]));
        }
        let list = Form::List(List { first, rest, min: min.max(1), max, depth });
        let Some(empty) = empty else { return Ok(list) };
        let list = self.add(list);
        Ok(Form::OneOf(vec![empty, list]))
    }
}

fn refusal(path: &str, why: String) -> Refusal {
    Refusal { path: path.to_owned(), why }
}

/// Returns `true` for a character that XML cannot hold.
fn is_control(c: char) -> bool {
    matches!(c, '\0'..='\x08' | '\x0B' | '\x0C' | '\x0E'..='\x1F' | '\u{FFFE}' | '\u{FFFF}')
}
