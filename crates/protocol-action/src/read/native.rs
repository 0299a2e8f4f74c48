//! Native calls beside the text: text wins.

use crate::json::FaultKind;
use crate::{Code, Diagnostic, Dialect, NativeCall, RawCall, RawValue, Span};

use super::json_calls::arguments;
use super::{Machine, Source};

impl Machine {
    /// Takes native calls when the text holds none; otherwise says which are not run.
    pub(super) fn merge_native(&mut self, src: Source<'_>, native: &[NativeCall]) {
        let text_holds_calls = self.blocks > 0;
        for (number, one) in native.iter().enumerate() {
            if text_holds_calls {
                self.compare_native(one);
                continue;
            }
            match native_call(one, self.limits.depth) {
                Ok(call) if self.out.calls.len() < self.limits.calls => {
                    self.call_starts(number, &call.tool);
                    self.push_call(call);
                }
                Ok(_) => {
                    let at = src.len();
                    self.at = at;
                    let message = format!("the calls limit of {} is exceeded", self.limits.calls);
                    self.out.add(Diagnostic::new(Code::LimitExceeded, message));
                    return;
                }
                Err(diagnostic) => self.out.add(*diagnostic),
            }
        }
    }

    /// A native call equal to a text call is the same call; another one is ignored.
    fn compare_native(&mut self, one: &NativeCall) {
        let call = native_call(one, self.limits.depth).ok();
        if call.is_some_and(|call| self.out.calls.iter().any(|text| same_call(text, &call))) {
            return;
        }
        let message = format!("the native call of `{}` is not run, because the text holds calls", one.name);
        self.out.add(Diagnostic::new(Code::NativeIgnored, message).with_tool(one.name.clone()));
    }
}

fn native_call(one: &NativeCall, depth: usize) -> Result<RawCall, Box<Diagnostic>> {
    let mut call = RawCall::new(one.name.clone(), Dialect::Native, Span::default());
    if one.arguments.trim().is_empty() {
        return Ok(call);
    }
    match arguments(&one.arguments, depth) {
        Ok(arguments) => {
            arguments.add_to(&mut call);
            Ok(call)
        }
        Err(fault) => {
            let (code, what) = match fault.kind {
                FaultKind::Truncated => (Code::Truncated, "were cut off"),
                FaultKind::Broken => (Code::InvalidArgument, "are not a JSON object"),
                FaultKind::TooDeep => (Code::LimitExceeded, "exceed the depth limit"),
            };
            let message = format!("the native arguments of `{}` {what}: {fault}", one.name);
            Err(Box::new(Diagnostic::new(code, message).with_tool(one.name.clone())))
        }
    }
}

/// Compares two calls by meaning, as far as untyped values allow: texts are compared with JSON
/// values by their text.
fn same_call(text: &RawCall, native: &RawCall) -> bool {
    text.tool == native.tool
        && text.arguments.len() == native.arguments.len()
        && native.arguments.iter().all(|wanted| {
            let found = text.arguments.iter().find(|one| one.name == wanted.name);
            found.is_some_and(|found| same_value(&found.value, &wanted.value))
        })
}

fn same_value(text: &RawValue, native: &RawValue) -> bool {
    match (text, native) {
        (RawValue::Text(text), RawValue::Json(serde_json::Value::String(native))) => text == native,
        (RawValue::Text(text), RawValue::Json(native)) => {
            crate::json::parse_lenient(text).is_ok_and(|(value, _)| value == *native)
        }
        (RawValue::Elements { children, .. }, RawValue::Json(native)) => same_children(children, native),
        (text, native) => text == native,
    }
}

fn same_children(children: &[crate::RawArgument], native: &serde_json::Value) -> bool {
    let same = |child: &crate::RawArgument, value: &serde_json::Value| {
        same_value(&child.value, &RawValue::Json(value.clone()))
    };
    match native {
        serde_json::Value::Array(items) => {
            items.len() == children.len() && children.iter().zip(items).all(|(child, item)| same(child, item))
        }
        serde_json::Value::Object(members) => {
            members.len() == children.len()
                && children
                    .iter()
                    .all(|child| members.get(&child.name).is_some_and(|value| same(child, value)))
        }
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_) => false,
    }
}
