//! The table of codes, as `docs/reference/codes.md` holds it.

/// Copy of the page that `cargo xtask codegen` makes, so that what is printed and what is read are one text.
const PAGE: &str = include_str!("../embedded/codes.md");

/// One code with its meaning in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) code: &'static str,
    /// Heading of its table.
    pub(crate) group: &'static str,
    pub(crate) meaning: &'static str,
    /// Usual cause; empty where the meaning says it.
    pub(crate) cause: &'static str,
    /// Fix; empty where there is nothing to do.
    pub(crate) fix: &'static str,
}

/// Every row of the page, in its order.
pub(crate) fn all() -> impl Iterator<Item = Row> {
    let mut group = "";
    PAGE.lines().filter_map(move |line| {
        if let Some(heading) = line.strip_prefix("## ") {
            group = heading;
        }
        row(group, line)
    })
}

fn row(group: &'static str, line: &'static str) -> Option<Row> {
    let mut cells = line.strip_prefix("| `")?.strip_suffix('|')?.split('|').map(str::trim);
    let code = cells.next()?.strip_suffix('`')?;
    let mut next = || cells.next().unwrap_or_default();
    Some(Row { code, group, meaning: next(), cause: next(), fix: next() })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};
    use std::path::{Path, PathBuf};

    use super::*;

    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.push(path);
            }
        }
    }

    /// Contents of the string literal at the beginning of a text.
    fn literal(text: &str) -> Option<&str> {
        let inner = text.trim_start().strip_prefix('"')?.split_once('"')?.0;
        let is_code = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || "_.".contains(char);
        (!inner.is_empty() && inner.chars().all(is_code)).then_some(inner)
    }

    /// The argument at a place of a call, whose arguments hold no comma before it.
    fn argument(text: &str, at: usize) -> Option<&str> {
        literal(text.split(',').nth(at)?)
    }

    /// Codes that a source names where codes stand: arguments of what makes failures, fields `code` and `kind`, and the
    /// tables behind `code()` and `as_str()` of kinds and codes.
    fn named(source: &str) -> BTreeSet<&str> {
        let source = source.split("#[cfg(test)]").next().unwrap();
        let calls = [
            ("Failure::new(", 1),
            ("Problem::new(", 1),
            ("Problem::bad_request(", 0),
            ("Problem::not_found(", 0),
            ("Problem::conflict(", 0),
            ("problems.error(", 1),
            ("problems.warning(", 1),
            ("problems.near(", 1),
            ("Problem::error(", 0),
            ("Problem::warning(", 0),
            ("refused(", 0),
            (".refuse(", 0),
            (".error(None", 1),
            (".error(Some(&run)", 1),
            (".with_code(", 0),
            ("RunError::new(", 0),
            ("lost(&self.run", 1),
            ("code: ", 0),
            ("code: Some(", 0),
            ("kind: Some(", 0),
            ("AgentWarning { kind: ", 0),
            ("AgentWarning {\n            kind: ", 0),
            ("Failed { kind: ", 0),
        ];
        let mut codes: BTreeSet<&str> = calls
            .iter()
            .flat_map(|(call, at)| source.split(call).skip(1).filter_map(|rest| argument(rest, *at)))
            .collect();
        for (name, reads) in [("fn code(", true), ("fn as_str(self)", source.contains("enum BlockReason"))] {
            for body in source.split(name).skip(1).filter(|_| reads) {
                let body = body.split("\n    }\n").next().unwrap();
                codes.extend(body.split("=>").skip(1).filter_map(literal));
                codes.extend(body.split('{').skip(1).filter_map(literal));
            }
        }
        // The tables that macros turn into enums.
        for rest in source.split(" => (").skip(1) {
            let is_table =
                source.contains("macro_rules! codes") || source.contains("macro_rules! observation");
            codes.extend(literal(rest).filter(|_| is_table));
        }
        for table in source.split("words! {").skip(1) {
            let table = table.split("\n}\n").next().unwrap();
            let is_ending = table.contains("ExitReason {") || table.contains("NodeErrorKind {");
            codes.extend(table.split(" = ").skip(1).filter(|_| is_ending).filter_map(literal));
        }
        for table in source.split("problem_codes! {").skip(1) {
            codes.extend(table.split("\n}\n").next().unwrap().split(" = ").skip(1).filter_map(literal));
        }
        for table in source.split("budget_keys! {\n    ///").skip(1) {
            codes.extend(table.split("\n}\n").next().unwrap().split(" = ").skip(1).filter_map(literal));
        }
        codes
    }

    #[test]
    fn every_code_that_a_crate_names_is_explained() {
        let crates = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
        let known: HashSet<&str> = all().map(|code| code.code).collect();
        let events = agent_types::EventBody::TABLE.iter().map(|row| row.name);
        let mut missing: Vec<String> =
            events.filter(|name| !known.contains(name)).map(str::to_owned).collect();
        let mut count = 0;
        for folder in std::fs::read_dir(crates).unwrap() {
            let folder = folder.unwrap().path();
            // The runner of scenarios has codes for its authors alone.
            if ["weft-scenarios", "weft-harness"].iter().any(|runner| folder.ends_with(runner))
                || !folder.join("src").is_dir()
            {
                continue;
            }
            let mut files = Vec::new();
            sources(&folder.join("src"), &mut files);
            for file in files {
                let source = std::fs::read_to_string(&file).unwrap();
                let codes = named(&source);
                count += codes.len();
                let unknown = codes.iter().filter(|code| !known.contains(**code));
                missing.extend(unknown.map(|code| format!("{code}: {}", file.display())));
            }
        }
        assert!(count > 300, "only {count} codes were found");
        assert!(missing.is_empty(), "docs/reference/codes.md lacks:\n{}", missing.join("\n"));
    }

    #[test]
    fn rows_are_whole_and_once_in_a_table() {
        let mut seen = HashSet::new();
        for code in all() {
            assert!(code.meaning.ends_with('.'), "{code:?}");
            assert!(seen.insert((code.code, code.group)), "{code:?} is there twice");
            assert!(!code.code.contains(' '), "{code:?}");
        }
        assert!(seen.len() > 300);
        let rows = PAGE.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, seen.len(), "every row is read");
    }

    #[test]
    fn every_exit_code_is_explained() {
        use crate::failure::Exit;
        let exits = [
            Exit::Ok,
            Exit::Failed,
            Exit::Usage,
            Exit::Configuration,
            Exit::Unreachable,
            Exit::Tool,
            Exit::Limit,
            Exit::Invalid,
            Exit::NeedsPerson,
            Exit::Interrupted,
        ];
        for exit in exits {
            let text = (exit as u8).to_string();
            assert!(all().any(|code| code.code == text), "{exit:?}");
        }
    }
}
