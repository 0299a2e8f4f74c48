//! Lists of numbers, one behind the other.

/// Lists of numbers, one behind the other.
#[derive(Default)]
pub(crate) struct Csr {
    offsets: Vec<u32>,
    items: Vec<u32>,
}

impl Csr {
    /// Sorts pairs by their first number, keeping their order otherwise.
    pub(crate) fn new(n_rows: usize, pairs: &[(u32, u32)]) -> Self {
        if pairs.is_empty() {
            return Self::default();
        }
        let mut offsets = vec![0_u32; n_rows + 1];
        for (row, _) in pairs {
            offsets[*row as usize + 1] += 1;
        }
        for row in 0..n_rows {
            offsets[row + 1] += offsets[row];
        }
        let mut next = offsets.clone();
        let mut items = vec![0; pairs.len()];
        for (row, item) in pairs {
            let at = &mut next[*row as usize];
            items[*at as usize] = *item;
            *at += 1;
        }
        Self { offsets, items }
    }

    pub(crate) fn row(&self, row: u32) -> &[u32] {
        match self.offsets.get(row as usize..row as usize + 2) {
            Some([start, end]) => &self.items[*start as usize..*end as usize],
            Some(_) | None => &[],
        }
    }
}
