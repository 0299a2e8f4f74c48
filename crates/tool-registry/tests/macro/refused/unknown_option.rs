use tool_registry::tool;

/// Adds one.
#[tool(readonly)]
fn next(a: i64) -> i64 {
    a + 1
}

fn main() {}
