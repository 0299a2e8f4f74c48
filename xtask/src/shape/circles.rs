//! Circles among files: files that reach each other by imports.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;

use super::EXCEPTIONS;
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

/// Circles that are larger than allowed, and exceptions that allow more than there is. The exceptions of a crate are for
/// its largest circles.
pub(super) fn faults(circles: &[Circle], exceptions: &[CircleException]) -> Vec<String> {
    let names: BTreeSet<&str> = circles
        .iter()
        .map(|circle| circle.package.as_str())
        .chain(exceptions.iter().map(|listed| listed.package.as_str()))
        .collect();
    names.into_iter().flat_map(|package| faults_of(package, circles, exceptions)).collect()
}

fn faults_of(package: &str, circles: &[Circle], exceptions: &[CircleException]) -> Vec<String> {
    let is_large = |circle: &&Circle| circle.package == package && circle.files.len() > MAX_FILES;
    let mut large: Vec<&Circle> = circles.iter().filter(is_large).collect();
    let mut listed: Vec<&CircleException> =
        exceptions.iter().filter(|listed| listed.package == package).collect();
    large.sort_by_key(|circle| Reverse(circle.files.len()));
    listed.sort_by_key(|listed| Reverse(listed.files));
    let mut faults = Vec::new();
    for (circle, listed) in large.iter().zip(&listed) {
        let (is, was) = (circle.files.len(), listed.files);
        if is > was {
            faults.push(format!("a circle of more than {was} files: {circle}"));
        } else if is < was {
            faults.push(format!(
                "{EXCEPTIONS}: a circle of {package} has {is} files now; write that in place of {was}"
            ));
        }
    }
    let new = large.iter().skip(listed.len());
    faults.extend(new.map(|circle| format!("a circle of more than {MAX_FILES} files: {circle}")));
    let gone = listed.iter().skip(large.len());
    faults.extend(gone.map(|listed| {
        format!("{EXCEPTIONS}: {package} has no circle for the entry of {} files; take it out", listed.files)
    }));
    let silent = listed.iter().filter(|listed| listed.reason.trim().is_empty());
    faults.extend(silent.map(|_| format!("{EXCEPTIONS}: a circle of {package} is listed without a reason")));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle(files: &[&str]) -> Circle {
        Circle { package: "a".into(), files: files.iter().map(ToString::to_string).collect() }
    }

    fn listed(files: usize) -> CircleException {
        CircleException { package: "a".into(), files, reason: "old".into() }
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
        assert_eq!(faults(&large, &[listed(4)]), Vec::<String>::new());
        assert_eq!(faults(&large, &[]).len(), 1);
        assert_eq!(faults(&large, &[listed(3)]).len(), 1);
        assert!(faults(&large, &[listed(5)])[0].contains("has 4 files now"));
        assert!(faults(&[circle(&["b", "c"])], &[listed(4)])[0].contains("take it out"));
    }
}
