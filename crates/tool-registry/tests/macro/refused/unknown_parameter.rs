use tool_registry::tool;

/// Adds one.
/// * `b` - which
#[tool]
fn next(a: i64) -> i64 {
    a + 1
}

fn main() {}
