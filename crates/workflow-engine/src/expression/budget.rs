//! The budget of one evaluation: passes of its macros, bytes that it builds, and time.
//!
//! The evaluator cannot be interrupted, so the tree calls the budget itself: each pass of a macro does, and each value that
//! is built there. A call that fails ends its macro at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use cel::{Context, ExecutionError, Value as CelValue};

/// Passes of all macros at most.
const MAX_PASSES: u64 = 200_000;

/// Bytes of the values that are built at most.
const MAX_BYTES: u64 = 64 << 20;

/// Time at most: a backstop for what passes and bytes do not bound. A thread that does not get the processor meets it too, so
/// it is far above what an evaluation takes.
const MAX_TIME: Duration = Duration::from_secs(if cfg!(debug_assertions) { 4 } else { 2 });

/// Message of an evaluation that a limit ended.
pub(super) const EXCEEDED: &str =
    "its budget is exceeded: let nested macros go over fewer items, or build shorter values";

/// Names that no source can use.
const PASS: &str = "@pass";
const BUILT: &str = "@built";

/// Additions outside of macros that need no budget.
const FEW_ADDITIONS: usize = 8;

/// Puts calls of the budget into a tree. Gives whether there are any.
pub(super) fn instrument(root: &mut IdedExpr) -> bool {
    let mut writer = Writer { next: u64::MAX, additions: 0, macros: false };
    writer.count(root);
    let needed = writer.macros || writer.additions > FEW_ADDITIONS;
    if needed {
        writer.visit(root);
    }
    needed
}

struct Writer {
    /// Ids of new parts count down, those of the source count up.
    next: u64,
    additions: usize,
    macros: bool,
}

impl Writer {
    fn count(&mut self, expr: &IdedExpr) {
        match &expr.expr {
            Expr::Comprehension(_) => self.macros = true,
            Expr::Call(call) if call.func_name == operators::ADD => self.additions += 1,
            _ => {}
        }
        for part in super::parts(expr) {
            self.count(part);
        }
    }

    fn visit(&mut self, expr: &mut IdedExpr) {
        match &mut expr.expr {
            Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
            Expr::Call(call) => {
                call.target
                    .as_deref_mut()
                    .into_iter()
                    .chain(&mut call.args)
                    .for_each(|part| self.visit(part));
                if call.func_name == operators::ADD {
                    self.build(expr);
                }
            }
            Expr::Comprehension(inner) => self.visit_macro(inner),
            Expr::List(list) => list.elements.iter_mut().for_each(|part| self.visit(part)),
            Expr::Select(select) => self.visit(&mut select.operand),
            Expr::Map(map) => map.entries.iter_mut().for_each(|entry| self.visit_entry(&mut entry.expr)),
            Expr::Struct(made) => made.entries.iter_mut().for_each(|entry| self.visit_entry(&mut entry.expr)),
        }
    }

    fn visit_entry(&mut self, entry: &mut EntryExpr) {
        match entry {
            EntryExpr::StructField(field) => self.visit(&mut field.value),
            EntryExpr::MapEntry(entry) => {
                self.visit(&mut entry.key);
                self.visit(&mut entry.value);
            }
        }
    }

    /// The evaluator appends in place where a step has the shape of `map` and `filter`, so that shape must stay.
    fn visit_macro(&mut self, inner: &mut ComprehensionExpr) {
        for part in [&mut inner.iter_range, &mut inner.accu_init, &mut inner.result] {
            self.visit(part);
        }
        let is_fold = |call: &CallExpr| match call.args.first().map(|first| &first.expr) {
            Some(Expr::Ident(name)) => call.func_name == operators::ADD && *name == inner.accu_var,
            _ => false,
        };
        let guarded = match &mut inner.loop_step.expr {
            Expr::Call(call) if is_fold(call) => {
                self.visit_items(call);
                true
            }
            Expr::Call(call) if call.func_name == operators::CONDITIONAL => match call.args.as_mut_slice() {
                [guard, IdedExpr { expr: Expr::Call(step), .. }, _] if is_fold(step) => {
                    self.visit(guard);
                    self.pass(guard);
                    self.visit_items(step);
                    true
                }
                _ => false,
            },
            _ => false,
        };
        if !guarded {
            self.visit(&mut inner.loop_step);
            self.pass(&mut inner.loop_cond);
        }
    }

    /// The items that a step appends: each is charged as it is built.
    fn visit_items(&mut self, step: &mut CallExpr) {
        for item in step.args.iter_mut().skip(1) {
            match &mut item.expr {
                Expr::List(list) => {
                    for element in &mut list.elements {
                        self.visit(element);
                        self.build(element);
                    }
                }
                _ => self.visit(item),
            }
        }
    }

    /// `x` becomes `@pass() ? x : false`.
    fn pass(&mut self, expr: &mut IdedExpr) {
        let call = self.call(PASS, Vec::new());
        let no = self.part(Expr::Literal(LiteralValue::Boolean(false.into())));
        let own = std::mem::take(expr);
        *expr = self.call(operators::CONDITIONAL, vec![call, own, no]);
    }

    /// `x` becomes `@built(x)`.
    fn build(&mut self, expr: &mut IdedExpr) {
        let own = std::mem::take(expr);
        *expr = self.call(BUILT, vec![own]);
    }

    fn call(&mut self, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
        self.part(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
    }

    fn part(&mut self, expr: Expr) -> IdedExpr {
        self.next -= 1;
        IdedExpr { id: self.next, expr }
    }
}

/// Consumption of one evaluation.
#[derive(Debug)]
pub(super) struct Budget {
    passes: AtomicU64,
    bytes: AtomicU64,
    start: Instant,
    is_over: AtomicBool,
}

impl Budget {
    /// A budget, known to a context.
    ///
    /// # Errors
    /// The names of its functions are taken.
    pub(super) fn install(context: &mut Context<'_, '_>) -> Result<Arc<Self>, String> {
        let budget = Arc::new(Self {
            passes: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            start: Instant::now(),
            is_over: AtomicBool::new(false),
        });
        let (passes, builds) = (Arc::clone(&budget), Arc::clone(&budget));
        let pass = move || passes.charge(0).map(|()| true);
        let built = move |value: CelValue| builds.charge(weight(&value)).map(|()| value);
        context.add_function(PASS, pass).map_err(|error| error.to_string())?;
        context.add_function(BUILT, built).map_err(|error| error.to_string())?;
        Ok(budget)
    }

    /// Returns `true` once a limit was exceeded.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    fn charge(&self, bytes: u64) -> Result<(), ExecutionError> {
        let passes = self.passes.fetch_add(1, Relaxed);
        let built = self.bytes.fetch_add(bytes, Relaxed).saturating_add(bytes);
        if passes < MAX_PASSES && built <= MAX_BYTES && self.start.elapsed() < MAX_TIME {
            return Ok(());
        }
        self.is_over.store(true, Relaxed);
        Err(ExecutionError::function_error("budget", "exceeded"))
    }
}

/// Bytes of a value, roughly.
fn weight(value: &CelValue) -> u64 {
    let of = |length: usize| 32 + length as u64;
    match value {
        CelValue::String(text) => of(text.len()),
        CelValue::Bytes(bytes) => of(bytes.len()),
        CelValue::List(items) => 32 + items.iter().map(weight).sum::<u64>(),
        CelValue::Map(map) => 32 + map.map.values().map(|value| 32 + weight(value)).sum::<u64>(),
        _ => 32,
    }
}
