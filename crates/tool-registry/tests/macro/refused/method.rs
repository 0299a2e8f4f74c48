use tool_registry::tool;

struct Counter;

impl Counter {
    /// Adds one.
    #[tool]
    fn next(&self) -> i64 {
        1
    }
}

fn main() {}
