//! Prints the description of the interface, as `docs/schema/openapi.json` holds it.

#![expect(clippy::print_stdout, reason = "an example prints")]

fn main() -> Result<(), serde_json::Error> {
    println!("{}", serde_json::to_string_pretty(&weft_server::openapi_document())?);
    Ok(())
}
