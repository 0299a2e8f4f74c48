//! Prints the generated files of the repository as one JSON object: path to text.
//!
//! `cargo xtask codegen` writes them, and `cargo xtask codegen --check` compares.

#![expect(clippy::print_stdout, reason = "an example prints")]

mod events;
mod files;
mod settings_page;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{}", serde_json::Value::Object(files::files()?));
    Ok(())
}
