use tool_registry::tool;

#[tool]
fn quiet(a: i64) -> i64 {
    a
}

fn main() {}
