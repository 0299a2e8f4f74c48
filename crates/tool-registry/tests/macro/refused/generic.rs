use tool_registry::tool;

/// Gives it back.
#[tool]
fn same<T>(value: T) -> T {
    value
}

fn main() {}
