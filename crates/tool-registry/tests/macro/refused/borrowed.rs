use tool_registry::tool;

/// Says it again.
#[tool]
fn repeat(text: &str) -> String {
    text.to_owned()
}

fn main() {}
