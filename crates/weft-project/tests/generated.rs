//! The committed files are those that the code generates.

#[path = "../examples/generated/events.rs"]
mod events;
#[path = "../examples/generated/files.rs"]
mod files;
#[path = "../examples/generated/settings_page.rs"]
mod settings_page;

use std::path::PathBuf;

#[test]
fn generated_files_are_fresh() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (path, text) in files::files().unwrap() {
        let committed = std::fs::read_to_string(root.join(&path)).unwrap_or_default();
        assert_eq!(committed, text.as_str().unwrap(), "{path} is stale: run `cargo xtask codegen`");
    }
}
