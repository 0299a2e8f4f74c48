//! Conditions: alternatives of choices, kept small.

use super::NodeIx;

/// Alternatives beyond which a condition is not followed any more.
const MAX_TERMS: usize = 32;

/// A node that decides, and the output that it chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Choice {
    pub(super) node: NodeIx,
    pub(super) output: u32,
}

/// Condition under which something has a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Condition {
    Always,
    /// One of these holds; all choices of one are made together, sorted by node.
    OneOf(Vec<Vec<Choice>>),
    /// There are too many alternatives to follow.
    Unknown,
}

/// Choices of all alternatives together beyond which a condition is not followed any more: each node has one.
const MAX_CHOICES: usize = 256;

/// Marks what is known only at run time: such a choice never contradicts another one.
const AT_RUN_TIME: NodeIx = 1 << 31;

impl Condition {
    pub(super) fn made(choice: Choice) -> Self {
        Self::OneOf(vec![vec![choice]])
    }

    /// It depends on something of a node that is known only at run time.
    pub(super) fn at_run_time(node: NodeIx) -> Self {
        Self::made(Choice { node: node | AT_RUN_TIME, output: 0 })
    }

    pub(super) fn is_always(&self) -> bool {
        *self == Self::Always
    }

    pub(super) fn is_never(&self) -> bool {
        matches!(self, Self::OneOf(terms) if terms.is_empty())
    }

    pub(super) fn and(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Always, some) | (some, Self::Always) => some.clone(),
            (never, _) | (_, never) if never.is_never() => Self::OneOf(Vec::new()),
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::OneOf(one), Self::OneOf(two)) => {
                if one.len() * two.len() > MAX_TERMS * MAX_TERMS {
                    return Self::Unknown;
                }
                let pairs = one.iter().flat_map(|one| two.iter().map(move |two| both(one, two)));
                Self::of_terms(pairs.flatten().collect())
            }
        }
    }

    pub(super) fn or(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Always, _) | (_, Self::Always) => Self::Always,
            (never, some) | (some, never) if never.is_never() => some.clone(),
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::OneOf(one), Self::OneOf(two)) => Self::of_terms(one.iter().chain(two).cloned().collect()),
        }
    }

    /// One of these; without any there is nothing to wait for.
    pub(super) fn any(conditions: impl Iterator<Item = Self>) -> Self {
        conditions.reduce(|one, other| one.or(&other)).unwrap_or(Self::Always)
    }

    /// Returns `true` if they never hold together.
    pub(super) fn excludes(&self, other: &Self) -> bool {
        self.and(other).is_never()
    }

    fn of_terms(mut terms: Vec<Vec<Choice>>) -> Self {
        terms.sort_unstable();
        terms.dedup();
        let n_choices: usize = terms.iter().map(Vec::len).sum();
        if terms.len() > MAX_TERMS || n_choices > MAX_CHOICES { Self::Unknown } else { Self::OneOf(terms) }
    }
}

/// Both together; none where a node would have to choose two outputs.
fn both(one: &[Choice], two: &[Choice]) -> Option<Vec<Choice>> {
    let mut all: Vec<Choice> = one.iter().chain(two).copied().collect();
    all.sort_unstable();
    all.dedup();
    all.windows(2).all(|pair| pair[0].node != pair[1].node).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(node: NodeIx, output: u32) -> Condition {
        Condition::made(Choice { node, output })
    }

    #[test]
    fn sides_of_one_choice_exclude_each_other() {
        let (then, otherwise) = (made(1, 1), made(1, 2));
        assert!(then.excludes(&otherwise) && !then.excludes(&then) && !then.excludes(&made(2, 2)));
        assert!(!then.or(&made(2, 1)).excludes(&otherwise));
        assert!(then.or(&made(1, 3)).excludes(&otherwise));
    }

    #[test]
    fn what_is_not_known_excludes_nothing() {
        let unknown = Condition::Unknown;
        assert!(!unknown.excludes(&made(1, 1)) && !unknown.is_never() && !unknown.is_always());
        assert!(made(1, 1).and(&made(1, 2)).and(&unknown).is_never());
        assert_eq!(Condition::Always.and(&unknown), unknown);
    }

    #[test]
    fn many_alternatives_are_not_followed() {
        let many = (0..40).map(|node| made(node, 1)).reduce(|one, other| one.or(&other));
        assert_eq!(many, Some(Condition::Unknown));
    }
}
