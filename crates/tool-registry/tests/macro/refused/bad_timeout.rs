use tool_registry::tool;

/// Adds one.
#[tool(timeout = "soon")]
fn next(a: i64) -> i64 {
    a + 1
}

fn main() {}
