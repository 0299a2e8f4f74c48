//! Expressions in CEL: typed, total, without side effects, each evaluation within a budget.

mod budget;
mod error;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::objects::{Key, Map as CelMap};
use cel::{Context, Env, ExecutionError, Program, Value as CelValue};
use serde_json::Value;

pub use error::ExpressionError;

/// Operators and brackets of an expression at most: each may be a level of its tree.
const MAX_SIGNS: usize = 2000;

/// Stack that a level takes at most, in bytes: when it is read, and when it is worked out. Ours are measured, with room; without
/// optimisation they are much larger.
const PARSED_LEVEL: usize = if cfg!(debug_assertions) { 256 * 1024 } else { 32 * 1024 };
const RUN_LEVEL: usize = if cfg!(debug_assertions) { 64 * 1024 } else { 16 * 1024 };

/// Stack for what is around the levels.
const SPARE: usize = 64 * 1024;

/// The functions of CEL, built once.
static STANDARD: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// The names that an expression may use. A name with members may be used only with one of them.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    names: BTreeMap<String, Option<BTreeSet<String>>>,
    open: bool,
}

impl Scope {
    /// No names.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Any name: which ones there are is known only when the expression is evaluated.
    #[must_use]
    pub fn open() -> Self {
        Self { open: true, ..Self::default() }
    }

    /// The same scope with a name whose members are not known.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>) -> Self {
        self.names.insert(name.into(), None);
        self
    }

    /// The same scope with a name and all its members.
    #[must_use]
    pub fn with_members<M: Into<String>>(
        mut self,
        name: impl Into<String>,
        members: impl IntoIterator<Item = M>,
    ) -> Self {
        self.names.insert(name.into(), Some(members.into_iter().map(Into::into).collect()));
        self
    }
}

/// A value in the form that expressions take. Clones share its parts.
#[derive(Debug, Clone)]
pub struct ConvertedValue(CelValue);

impl From<&Value> for ConvertedValue {
    fn from(value: &Value) -> Self {
        Self(to_cel(value))
    }
}

/// A compiled expression.
///
/// ```
/// use serde_json::json;
/// use workflow_engine::{Expression, Scope};
///
/// let scope = Scope::new().with_members("state", ["k"]);
/// let more = Expression::compile("state.k >= 3", &scope)?;
/// assert_eq!(more.evaluate_bool(|name| (name == "state").then(|| json!({"k": 4})))?, true);
/// assert!(Expression::compile("state.q > 1", &scope).is_err());
/// # Ok::<(), workflow_engine::ExpressionError>(())
/// ```
#[derive(Debug)]
pub struct Expression {
    source: String,
    /// The tree, with calls of the budget where it needs one.
    tree: IdedExpr,
    needs_budget: bool,
    /// Names it uses, with the members it uses of them; none where it uses a name as a whole.
    used: BTreeMap<String, Option<BTreeSet<String>>>,
    /// Levels of its tree.
    depth: usize,
}

impl Expression {
    /// Reads an expression and checks its names.
    ///
    /// # Errors
    /// [`ExpressionError::Syntax`] or [`ExpressionError::UnknownName`].
    pub fn compile(source: &str, scope: &Scope) -> Result<Self, ExpressionError> {
        let wrong = |message: String| ExpressionError::Syntax { source_text: source.to_owned(), message };
        let signs = signs(source);
        if signs > MAX_SIGNS {
            return Err(wrong(format!("it has more than {MAX_SIGNS} operators and brackets")));
        }
        let (tree, needs_budget, used, depth) = with_stack(signs * PARSED_LEVEL, || {
            let program = Program::compile(source).map_err(|error| {
                wrong(error.errors.first().map_or_else(|| error.to_string(), |first| first.msg.clone()))
            })?;
            let used = used_names(program.expression());
            let mut tree = program.expression().clone();
            let needs_budget = budget::instrument(&mut tree);
            let depth = depth(&tree);
            Ok((tree, needs_budget, used, depth))
        })?;
        for (name, members) in &used {
            check_name(source, scope, name, members.as_ref())?;
        }
        Ok(Self { source: source.to_owned(), tree, needs_budget, used, depth })
    }

    /// The text it was made of.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Names it uses, so that callers give no others.
    pub fn used(&self) -> impl Iterator<Item = &str> {
        self.used.keys().map(String::as_str)
    }

    /// The members it uses of a name; none where it uses it as a whole or not at all.
    pub fn members(&self, name: &str) -> Option<&BTreeSet<String>> {
        self.used.get(name)?.as_ref()
    }

    /// Its value; `lookup` gives the values of the names it uses.
    ///
    /// # Errors
    /// [`ExpressionError::Evaluation`]: types that do not fit, a key or name that is not there, a division by zero, a
    /// budget that is exceeded.
    pub fn evaluate(&self, lookup: impl Fn(&str) -> Option<Value>) -> Result<Value, ExpressionError> {
        self.evaluate_converted(|name| lookup(name).as_ref().map(ConvertedValue::from))
    }

    /// Its value, of values that were converted before: those that many evaluations share.
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate).
    pub fn evaluate_converted(
        &self,
        lookup: impl Fn(&str) -> Option<ConvertedValue>,
    ) -> Result<Value, ExpressionError> {
        let value = self.run(|name| lookup(name).map(|value| value.0))?;
        value.json().map_err(|_| self.failed("its value is not JSON"))
    }

    /// Its value, which must be true or false.
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate), and where the value is something else.
    pub fn evaluate_bool(&self, lookup: impl Fn(&str) -> Option<Value>) -> Result<bool, ExpressionError> {
        self.decide(|name| lookup(name).map(|value| to_cel(&value)))
    }

    pub(crate) fn decide(&self, lookup: impl Fn(&str) -> Option<CelValue>) -> Result<bool, ExpressionError> {
        match self.run(lookup)? {
            CelValue::Bool(flag) => Ok(flag),
            other => Err(self.failed(format!("it gives {}, not true or false", other.type_of()))),
        }
    }

    fn run(&self, lookup: impl Fn(&str) -> Option<CelValue>) -> Result<CelValue, ExpressionError> {
        let mut context = Context::with_env(Arc::clone(&STANDARD));
        for name in self.used.keys() {
            if let Some(value) = lookup(name) {
                context.add_variable_from_value(name.as_str(), value);
            }
        }
        let budget = if self.needs_budget {
            Some(budget::Budget::install(&mut context).map_err(|message| self.failed(message))?)
        } else {
            None
        };
        let value = with_stack(self.depth * RUN_LEVEL, || CelValue::resolve(&self.tree, &context));
        // A macro may have taken the fault for an answer.
        if budget.is_some_and(|budget| budget.is_over()) {
            return Err(self.failed(budget::EXCEEDED));
        }
        value.map_err(|error| ExpressionError::Evaluation {
            source_text: self.source.clone(),
            message: error.to_string(),
            missing: matches!(error, ExecutionError::NoSuchKey(_)),
        })
    }

    fn failed(&self, message: impl Into<String>) -> ExpressionError {
        let source_text = self.source.clone();
        ExpressionError::Evaluation { source_text, message: message.into(), missing: false }
    }
}

fn check_name(
    source: &str,
    scope: &Scope,
    name: &str,
    members: Option<&BTreeSet<String>>,
) -> Result<(), ExpressionError> {
    let unknown = |name: String, suggest: Option<&str>| ExpressionError::UnknownName {
        source_text: source.to_owned(),
        name,
        suggest: suggest.map(str::to_owned),
    };
    let Some(known) = scope.names.get(name) else {
        if scope.open {
            return Ok(());
        }
        return Err(unknown(
            name.to_owned(),
            agent_types::nearest(name, scope.names.keys().map(String::as_str)),
        ));
    };
    let (Some(known), Some(members)) = (known, members) else { return Ok(()) };
    match members.iter().find(|member| !known.contains(*member)) {
        None => Ok(()),
        Some(member) => {
            let near = agent_types::nearest(member, known.iter().map(String::as_str));
            Err(unknown(format!("{name}.{member}"), near))
        }
    }
}

/// JSON as the evaluator takes it. Whole numbers beyond 64 bits do not exist in JSON values.
pub(crate) fn to_cel(value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(flag) => CelValue::Bool(*flag),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => CelValue::Int(whole),
            (None, Some(whole)) => CelValue::UInt(whole),
            (None, None) => CelValue::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => CelValue::String(Arc::new(text.clone())),
        Value::Array(items) => CelValue::List(Arc::new(items.iter().map(to_cel).collect())),
        Value::Object(map) => cel_map(map.iter().map(|(key, value)| (key.as_str(), to_cel(value)))),
    }
}

/// A map from names; a name that is a whole number can be used as an index too.
pub(crate) fn cel_map<'a>(entries: impl Iterator<Item = (&'a str, CelValue)>) -> CelValue {
    let map: HashMap<Key, CelValue> = entries.map(|(name, value)| (cel_key(name), value)).collect();
    CelValue::Map(CelMap { map: Arc::new(map) })
}

fn cel_key(name: &str) -> Key {
    Key::String(Arc::new(name.to_owned()))
}

/// Operators and brackets of a source, strings left out: no more levels than that can stand in each other.
fn signs(source: &str) -> usize {
    let (mut signs, mut quote, mut escaped) = (0, None, false);
    for c in source.chars() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None => signs += usize::from("([{.?+-*/%<>=!&|".contains(c)),
        }
    }
    signs
}

/// Runs something that needs so much stack, on a larger one where there is too little.
fn with_stack<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let needed = bytes + SPARE;
    stacker::maybe_grow(needed, needed, work)
}

/// Levels of a tree.
fn depth(expr: &IdedExpr) -> usize {
    1 + parts(expr).into_iter().map(depth).max().unwrap_or(0)
}

/// The free names of an expression.
fn used_names(root: &IdedExpr) -> BTreeMap<String, Option<BTreeSet<String>>> {
    let mut used = BTreeMap::new();
    collect_names(root, &mut Vec::new(), &mut used);
    used
}

/// The direct parts of an expression.
fn parts(expr: &IdedExpr) -> Vec<&IdedExpr> {
    match &expr.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(inner) => {
            vec![&inner.iter_range, &inner.accu_init, &inner.loop_cond, &inner.loop_step, &inner.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Map(map) => map.entries.iter().flat_map(|entry| entry_parts(&entry.expr)).collect(),
        Expr::Struct(structure) => {
            structure.entries.iter().flat_map(|entry| entry_parts(&entry.expr)).collect()
        }
    }
}

fn entry_parts(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

fn collect_names<'e>(
    expr: &'e IdedExpr,
    bound: &mut Vec<&'e str>,
    used: &mut BTreeMap<String, Option<BTreeSet<String>>>,
) {
    match &expr.expr {
        Expr::Ident(name) if !bound.contains(&name.as_str()) && !name.starts_with('@') => {
            used.insert(name.clone(), None);
        }
        Expr::Select(select) => match &select.operand.expr {
            // `has(state.k)` asks whether a member is there, so it may name one that is not.
            Expr::Ident(name) if !bound.contains(&name.as_str()) && !select.test => {
                let members = used.entry(name.clone()).or_insert_with(|| Some(BTreeSet::new()));
                if let Some(members) = members {
                    members.insert(select.field.clone());
                }
            }
            _ => collect_names(&select.operand, bound, used),
        },
        Expr::Comprehension(inner) => {
            collect_names(&inner.iter_range, bound, used);
            collect_names(&inner.accu_init, bound, used);
            // A name is bound inside of its macro only.
            let outside = bound.len();
            bound.extend([inner.iter_var.as_str(), inner.accu_var.as_str()]);
            bound.extend(inner.iter_var2.as_deref());
            for part in [&inner.loop_cond, &inner.loop_step, &inner.result] {
                collect_names(part, bound, used);
            }
            bound.truncate(outside);
        }
        _ => {
            for part in parts(expr) {
                collect_names(part, bound, used);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scope() -> Scope {
        Scope::new().with_members("state", ["k", "name"]).with("inputs").with("index")
    }

    #[track_caller]
    fn check(source: &str, expected: Result<Value, &str>) {
        let value = Expression::compile(source, &scope()).and_then(|expression| {
            expression.evaluate(|name| match name {
                "state" => Some(json!({"k": 3, "name": "x"})),
                "inputs" => Some(json!([5, "a"])),
                "index" => Some(json!(0)),
                _ => None,
            })
        });
        match (value, expected) {
            (Ok(value), Ok(expected)) => assert_eq!(value, expected, "{source}"),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{source}: {error}"),
            (got, expected) => panic!("{source}: {got:?}, not {expected:?}"),
        }
    }

    #[test]
    fn names_are_bound_inside_of_their_macro_only() {
        let known = Scope::new().with("item").with("x");
        for source in [
            "[1, 2].exists(item, item == 9) || item == 2",
            "[1].all(x, x > 0) && x > 1",
            "[1].map(item, item + 1)[0] + item == 4",
        ] {
            let expression = Expression::compile(source, &known).unwrap();
            assert_eq!(expression.evaluate_bool(|_| Some(json!(2))), Ok(true), "{source}");
        }
        assert!(Expression::compile("[1].map(y, y + z)", &Scope::new()).is_err());
        assert!(Expression::compile("[1].map(y, y) == [y]", &Scope::new()).is_err());
    }

    #[test]
    fn n03_an_evaluation_has_a_budget() {
        let nested = |macro_name: &str, list: &str, depth: usize, inner: &str| {
            let opens: Vec<String> = (0..depth).map(|at| format!("{list}.{macro_name}(v{at}, ")).collect();
            format!("{}{inner}{}", opens.concat(), ")".repeat(depth))
        };
        let doubling = |depth: usize| {
            let opens: Vec<String> =
                (1..=depth).map(|at| format!("[v{} + v{}].map(v{at}, ", at - 1, at - 1)).collect();
            format!("[text].map(v0, {}v{depth}{})", opens.concat(), ")".repeat(depth))
        };
        let known = Scope::new().with("items").with("text");
        let items: Value = (0..400).collect();
        for source in [
            nested("all", "items", 5, "v0 + v4 >= 0"),
            nested("exists", "items", 5, "v0 + v4 < 0"),
            nested("map", "items", 4, "v0 + v3"),
            format!("items.filter(v, {})", nested("all", "items", 4, "v0 + v3 >= 0")),
            nested("exists_one", "items", 4, "v0 < 0"),
            nested("all", "items", 3, "text.matches('(a{100}){100}' + string(v0 + v1)) || true"),
            doubling(40),
            nested("map", "items", 2, "text"),
            vec!["text"; 900].join(" + "),
            format!("{} || true", nested("all", "items", 5, "v0 >= 0")),
        ] {
            let start = std::time::Instant::now();
            let expression = Expression::compile(&source, &known).unwrap();
            let text = Value::from("x".repeat(200_000));
            let value =
                expression.evaluate(|name| Some(if name == "items" { items.clone() } else { text.clone() }));
            let error = value.expect_err(&source).to_string();
            assert!(error.contains("budget"), "{source}: {error}");
            assert!(start.elapsed() < std::time::Duration::from_secs(20), "{source}: {:?}", start.elapsed());
        }
    }

    #[test]
    fn n03_usual_macros_are_within_the_budget() {
        let known = Scope::new().with("items");
        let items: Value = (0..400).collect();
        for (source, expected) in [
            ("items.all(x, x >= 0)", json!(true)),
            ("items.exists(x, items.all(y, y <= x))", json!(true)),
            ("size(items.filter(x, x % 2 == 0).map(x, x + 1))", json!(200)),
            (
                "items.map(x, x < 2, {'n': x, 't': 'a' + string(x)})",
                json!([{"n": 0, "t": "a0"}, {"n": 1, "t": "a1"}]),
            ),
            ("items.exists_one(x, x == 7)", json!(true)),
            ("has(items.x) || [1, 2].map(x, [x])[1][0] == 2", json!(true)),
        ] {
            let expression = Expression::compile(source, &known).unwrap();
            assert_eq!(expression.evaluate(|_| Some(items.clone())), Ok(expected), "{source}");
        }
    }

    #[test]
    fn deep_expressions_take_the_stack_that_they_need() {
        let wrapped =
            |open: &str, close: &str, count: usize| format!("{}1{}", open.repeat(count), close.repeat(count));
        let sum = |count: usize| vec!["1"; count].join(" + ");
        let work = move || {
            for source in [
                wrapped("[", "]", 90),
                wrapped("(", ")", 90),
                wrapped("{'a': ", "}", 90),
                format!("size({})", sum(3).replace('1', "[1]")),
                sum(1000),
                wrapped("-(", ")", 40),
            ] {
                let expression = Expression::compile(&source, &Scope::new()).unwrap();
                expression.evaluate(|_| None).unwrap();
            }
            let indexed = format!("a{}", "[0]".repeat(100));
            let failed =
                Expression::compile(&indexed, &Scope::open()).unwrap().evaluate(|_| Some(json!([0])));
            assert!(matches!(failed, Err(ExpressionError::Evaluation { .. })));
            // The parser has a limit of its own.
            assert!(Expression::compile(&wrapped("[", "]", 900), &Scope::new()).is_err());
            let refused = Expression::compile(&sum(5000), &Scope::new()).unwrap_err();
            assert!(
                refused.to_string().ends_with("it has more than 2000 operators and brackets"),
                "{refused}"
            );
            assert_eq!(signs(r#""a+b\"(" + '(' "#), 1);
        };
        // As small as stacks of threads are anywhere.
        std::thread::Builder::new().stack_size(512 * 1024).spawn(work).unwrap().join().unwrap();
    }

    #[test]
    fn values_are_typed() {
        check("state.k + 1", Ok(json!(4)));
        check("inputs[0] > 4", Ok(json!(true)));
        check("size(inputs) == 2 && state.name == 'x'", Ok(json!(true)));
        check("inputs.exists(i, i == 'a')", Ok(json!(true)));
        check("{'a': index}", Ok(json!({"a": 0})));
        check("state.name > 3", Err("cannot be evaluated"));
        check("1 / index", Err("cannot be evaluated"));
        check("inputs[7]", Err("cannot be evaluated"));
    }

    #[test]
    fn unknown_names_are_found_early() {
        check("state.nam == 'x'", Err("uses `state.nam`"));
        check("stat.k", Err("uses `stat`"));
        check("has(state.other)", Ok(json!(false)));
        check("state.k >", Err("is not a valid expression"));
        let error = Expression::compile("state.nam", &scope()).unwrap_err();
        assert_eq!(error.suggestion().as_deref(), Some("name"));
        let missing = Expression::compile("inputs.x", &scope()).unwrap();
        assert!(missing.evaluate(|_| Some(json!({"y": 1}))).unwrap_err().is_missing());
        assert!(!missing.evaluate(|_| Some(json!(1))).unwrap_err().is_missing());
    }

    #[test]
    fn a_condition_is_true_or_false() {
        let number = Expression::compile("index", &scope()).unwrap();
        let error = number.evaluate_bool(|_| Some(json!(1))).unwrap_err();
        assert_eq!(error.to_string(), "`index` cannot be evaluated: it gives int, not true or false");
    }
}
