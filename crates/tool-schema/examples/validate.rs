//! Validates values against schemas: one `{"id", "schema", "data"}` a line on stdin, one `{"id", "valid"}` a line on stdout.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::io::BufRead;

use serde_json::{Value, json};
use tool_schema::CompiledSchema;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let answer = match CompiledSchema::new(&request["schema"]) {
            Ok(schema) => json!({"id": request["id"], "valid": schema.is_valid(&request["data"])}),
            Err(error) => json!({"id": request["id"], "error": error.to_string()}),
        };
        println!("{answer}");
    }
    Ok(())
}
