//! One run of a script: an engine of its own, made and dropped with it.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rquickjs::context::EvalOptions;
use rquickjs::{CatchResultExt, CaughtError, Context, Ctx, Function, Object, Runtime};
use serde_json::{Map, Value};

use crate::fault::Fault;
use crate::values::to_js;

/// Name of the code in stacks.
pub(crate) const FILE: &str = "script.js";

/// Stack of the code, in bytes: half of what a thread for blocking work has.
const STACK: usize = 1024 * 1024;

/// Lines of the log that a script writes at most, and the bytes of each.
const MAX_LINES: u32 = 1_000;
const MAX_LINE: usize = 16 * 1024;

const PRELUDE: &str = include_str!("prelude.js");

/// Limits of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) time: Duration,
    pub(crate) memory_mb: usize,
}

/// Reason for ending a script from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Cancelled,
    Time(Duration),
}

/// Surroundings of one run of a script.
pub(crate) struct Host {
    /// The time that the code sees, in milliseconds since the epoch.
    pub(crate) now: i64,
    /// Seed of its random numbers.
    pub(crate) seed: u32,
    /// Returns `true` once the run is cancelled.
    pub(crate) is_cancelled: Box<dyn Fn() -> bool>,
    /// Takes a level and a line of the log.
    pub(crate) log: Box<dyn Fn(String, String)>,
}

/// Runs the code with these values.
pub(crate) fn run(
    code: &str,
    limits: Limits,
    values: [(&str, &Map<String, Value>); 2],
    host: Host,
) -> Result<Value, Fault> {
    let Host { now, seed, is_cancelled, log } = host;
    let text = in_engine(limits, is_cancelled, |ctx| {
        let emit = Function::new(ctx.clone(), bounded(log))?;
        let prelude: Function<'_> = ctx.eval_with_options(PRELUDE, named("prelude"))?;
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of any date are within the exact range")]
        let write: Function<'_> = prelude.call((now as f64, seed, emit))?;
        let main = compile(ctx, code, values.map(|(name, _)| name))?;
        let mut arguments = Vec::with_capacity(values.len());
        for (_, members) in values {
            let object = Object::new(ctx.clone())?;
            for (name, member) in members {
                object.set(name.as_str(), to_js(ctx, member)?)?;
            }
            arguments.push(object);
        }
        let result: rquickjs::Value<'_> = main.call((rquickjs::function::Rest(arguments),))?;
        write.call::<_, String>((result,))
    })?;
    agent_types::read_json(text.as_bytes())
        .map_err(|error| Fault::new("script_result", format!("the result is not valid JSON: {error}")))
}

/// Reads the code without running it.
pub(crate) fn check(code: &str) -> Result<(), Fault> {
    let limits = Limits { time: Duration::from_secs(1), memory_mb: 16 };
    in_engine(limits, Box::new(|| false), |ctx| compile(ctx, code, ["inputs", "vars"]).map(|_| ()))
}

/// The code as a function of these names. Its first line is the first line of the code.
fn compile<'js>(ctx: &Ctx<'js>, code: &str, names: [&str; 2]) -> rquickjs::Result<Function<'js>> {
    ctx.eval_with_options(format!("(function ({}) {{{code}\n}})", names.join(", ")), named(FILE))
}

fn named(file: &str) -> EvalOptions {
    let mut options = EvalOptions::default();
    options.filename = Some(file.to_owned());
    options
}

/// Does something in a new engine within limits.
fn in_engine<T>(
    limits: Limits,
    is_cancelled: Box<dyn Fn() -> bool>,
    work: impl for<'js> FnOnce(&Ctx<'js>) -> rquickjs::Result<T>,
) -> Result<T, Fault> {
    let failed = |error: rquickjs::Error| Fault::caught(CaughtError::Error(error), limits.memory_mb);
    let runtime = Runtime::new().map_err(failed)?;
    runtime.set_memory_limit(limits.memory_mb << 20);
    runtime.set_max_stack_size(STACK);
    let stopped = Rc::new(Cell::new(None));
    let (stop, started) = (Rc::clone(&stopped), Instant::now());
    runtime.set_interrupt_handler(Some(Box::new(move || {
        if is_cancelled() {
            stop.set(Some(Stop::Cancelled));
        } else if started.elapsed() > limits.time {
            stop.set(Some(Stop::Time(limits.time)));
        }
        stop.get().is_some()
    })));
    let context = Context::full(&runtime).map_err(failed)?;
    context.with(|ctx| {
        work(&ctx).catch(&ctx).map_err(|caught| match stopped.get() {
            Some(stop) => Fault::stopped(stop),
            None => Fault::caught(caught, limits.memory_mb),
        })
    })
}

/// The log of a script, which ends after so many lines.
fn bounded(log: Box<dyn Fn(String, String)>) -> impl Fn(String, String) {
    let lines = Cell::new(0);
    move |level, mut line| {
        lines.set(lines.get() + 1);
        if lines.get() > MAX_LINES {
            if lines.get() == MAX_LINES + 1 {
                let message =
                    format!("the script wrote more than {MAX_LINES} lines; further ones are left out");
                log("warn".to_owned(), message);
            }
            return;
        }
        if line.len() > MAX_LINE {
            line.truncate(line.floor_char_boundary(MAX_LINE));
            line.push('…');
        }
        log(level, line);
    }
}
