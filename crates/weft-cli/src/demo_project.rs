//! The example project, embedded in the program. `cargo xtask codegen` copies it from `examples/desk`.

use std::path::Path;

use crate::failure::{Exit, Failure};

macro_rules! files {
    ($($path:literal),+ $(,)?) => {
        /// Paths and contents of the example project's files.
        pub(crate) const FILES: &[(&str, &str)] =
            &[$(($path, include_str!(concat!("../embedded/desk/", $path)))),+];
    };
}

files![
    "agents/desk/agent_profile.json",
    "docs/house-rules.md",
    "question.md",
    "script.jsonl",
    "weft.toml",
    "workflows/agent_loop.json",
    "workflows/chat.json",
    "workflows/summarize_text.json",
];

/// Message of the demo.
pub(crate) fn question() -> &'static str {
    FILES.iter().find(|(path, _)| *path == "question.md").map_or("", |(_, text)| text)
}

/// Writes the project into a folder. Files that are there are not touched: then nothing is written.
pub(crate) fn write(directory: &Path) -> Result<(), Failure> {
    if let Some((path, _)) = FILES.iter().find(|(path, _)| directory.join(path).exists()) {
        let path = directory.join(path);
        return Err(Failure::new(Exit::Usage, "file_exists", format!("{} is there already", path.display()))
            .with_help("choose an empty folder: weft init DIR"));
    }
    for (path, text) in FILES {
        let path = directory.join(path);
        let folder = path.parent().unwrap_or(directory);
        std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text)).map_err(|error| {
            Failure::new(Exit::Usage, "unwritable", format!("{} cannot be written: {error}", path.display()))
                .with_help("choose a folder that you may write to")
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use super::*;

    fn below(folder: &Path, root: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().is_some_and(|name| name == ".weft") {
                // Whoever has tried the example left its runs there.
                continue;
            }
            if path.is_dir() {
                below(&path, root, found);
            } else {
                let relative = path.strip_prefix(root).unwrap();
                found
                    .insert(relative.iter().map(|part| part.to_str().unwrap()).collect::<Vec<_>>().join("/"));
            }
        }
    }

    #[test]
    fn every_file_of_the_example_is_embedded() {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/desk");
        let mut found = BTreeSet::new();
        below(&root, &root, &mut found);
        let embedded: BTreeSet<String> = FILES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(found, embedded);
    }
}
