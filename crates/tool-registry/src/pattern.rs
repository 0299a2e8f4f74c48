//! Patterns of paths, such as `docs/**/*.md`.

/// Returns `true` if names of folders and a file fit a pattern. `*` and `**` stand for no name that begins with a dot: such
/// files hold keys and settings, and must be named.
#[must_use]
pub fn fits_pattern(pattern: &[&str], names: &[&str]) -> bool {
    let is_hidden = |name: &&str| name.starts_with('.');
    match (pattern, names) {
        (["**"], rest) => !rest.is_empty() && !rest.iter().any(is_hidden),
        (["**", pattern @ ..], _) => {
            let shown = names.iter().take_while(|name| !is_hidden(name)).count();
            (0..=shown).any(|at| fits_pattern(pattern, &names[at..]))
        }
        ([part, pattern @ ..], [name, names @ ..]) => part_fits(part, name) && fits_pattern(pattern, names),
        ([], []) => true,
        ([], _) | (_, []) => false,
    }
}

/// Returns `true` if a name fits a part of a pattern: the first piece begins it, the last ends it, those between follow each other.
fn part_fits(part: &str, name: &str) -> bool {
    let Some((first, rest)) = part.split_once('*') else { return part == name };
    if first.is_empty() && name.starts_with('.') {
        return false;
    }
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let (between, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for piece in between.split('*') {
        match name.find(piece) {
            Some(at) => name = &name[at + piece.len()..],
            None => return false,
        }
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_files() {
        let check = |pattern: &str, name: &str, expected: bool| {
            let (pattern, name): (Vec<&str>, Vec<&str>) =
                (pattern.split('/').collect(), name.split('/').collect());
            assert_eq!(fits_pattern(&pattern, &name), expected, "{pattern:?} {name:?}");
        };
        check("docs/**", "docs/a/b.md", true);
        check("docs/**", "docs", false);
        check("docs/**/*.md", "docs/a.md", true);
        check("docs/**/*.md", "docs/a/b/c.md", true);
        check("docs/*.md", "docs/a/b.md", false);
        check("a*b*c", "a1b2c", true);
        check("a*b*c", "a1c", false);
        check("*", "x", true);
        check("ab*ba", "aba", false);
    }

    #[test]
    fn n23_hidden_files_must_be_named() {
        let check = |pattern: &str, name: &str, expected: bool| {
            let (pattern, name): (Vec<&str>, Vec<&str>) =
                (pattern.split('/').collect(), name.split('/').collect());
            assert_eq!(fits_pattern(&pattern, &name), expected, "{pattern:?} {name:?}");
        };
        for pattern in ["**", "*", "**/*", "*env", "**/*env"] {
            check(pattern, ".env", false);
        }
        check("**", "docs/.git/config", false);
        check("**/config", ".git/config", false);
        check("**/*.md", "docs/.notes/a.md", false);
        check(".env", ".env", true);
        check(".env*", ".env.local", true);
        check("**/.notes/*.md", "docs/.notes/a.md", true);
        check(".notes/**", ".notes/a/b.md", true);
    }
}
