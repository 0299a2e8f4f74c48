//! Circles among files: files that reach each other by imports.

use std::collections::BTreeSet;
use std::fmt;

use super::exceptions::CircleException;

/// Most files of a circle.
const MAX_FILES: usize = 3;

/// Files of a crate that reach each other.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Circle {
    pub(super) package: String,
    pub(super) files: Vec<String>,
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} files: {}", self.package, self.files.len(), self.files.join(", "))
    }
}

/// The circles of a crate.
pub(super) fn circles(package: &str, files: &[String], imports: &BTreeSet<(usize, usize)>) -> Vec<Circle> {
    let reached: Vec<BTreeSet<usize>> = (0..files.len()).map(|from| reached(from, imports)).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for from in 0..files.len() {
        let circle: Vec<usize> =
            reached[from].iter().copied().filter(|to| reached[*to].contains(&from)).collect();
        if circle.len() > 1 && seen.insert(circle.clone()) {
            let files = circle.into_iter().map(|file| files[file].clone()).collect();
            found.push(Circle { package: package.to_owned(), files });
        }
    }
    found
}

fn reached(from: usize, imports: &BTreeSet<(usize, usize)>) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        let next = imports.range((file, 0)..=(file, usize::MAX)).map(|(_, to)| *to);
        open.extend(next.filter(|to| reached.insert(*to)));
    }
    reached
}

/// Circles that are larger than allowed, and exceptions that allow more than there is.
pub(super) fn faults(circles: &[Circle], exceptions: &[CircleException]) -> Vec<String> {
    let mut faults = Vec::new();
    for circle in circles.iter().filter(|circle| circle.files.len() > MAX_FILES) {
        let listed = exceptions.iter().find(|listed| allows(listed, circle));
        if listed.is_none_or(|listed| circle.files.len() > listed.files) {
            let most = listed.map_or(MAX_FILES, |listed| listed.files);
            faults.push(format!("a circle of more than {most} files: {circle}"));
        }
    }
    for listed in exceptions {
        let circle = circles.iter().find(|circle| allows(listed, circle));
        let files = circle.map_or(0, |circle| circle.files.len());
        let name = format!("the circle of {} with {}", listed.package, listed.with);
        if files <= MAX_FILES {
            faults.push(format!("{name} is small now: take it out of the exceptions"));
        } else if files < listed.files {
            faults.push(format!("{name} has {files} files: write that in place of {}", listed.files));
        }
        if listed.reason.trim().is_empty() {
            faults.push(format!("{name} is listed without a reason"));
        }
    }
    faults
}

fn allows(listed: &CircleException, circle: &Circle) -> bool {
    listed.package == circle.package && circle.files.contains(&listed.with)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle(files: &[&str]) -> Circle {
        Circle { package: "a".into(), files: files.iter().map(ToString::to_string).collect() }
    }

    fn listed(with: &str, files: usize) -> CircleException {
        CircleException { package: "a".into(), with: with.into(), files, reason: "old".into() }
    }

    #[test]
    fn files_that_reach_each_other_are_a_circle() {
        let files: Vec<String> = ["a", "b", "c", "d", "e"].map(String::from).into();
        let imports = [(0, 1), (1, 2), (2, 1), (2, 3), (3, 4), (4, 3)].into();
        assert_eq!(circles("a", &files, &imports), [circle(&["b", "c"]), circle(&["d", "e"])]);
    }

    #[test]
    fn a_listed_circle_may_only_shrink() {
        let large = [circle(&["b", "c", "d", "e"])];
        assert_eq!(faults(&large, &[listed("c", 4)]), Vec::<String>::new());
        assert_eq!(faults(&large, &[]).len(), 1);
        assert!(faults(&large, &[listed("c", 5)])[0].contains("has 4 files"));
        assert!(faults(&[circle(&["b", "c"])], &[listed("c", 4)])[0].contains("is small now"));
    }
}
