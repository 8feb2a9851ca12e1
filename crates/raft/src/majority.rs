//! How many is enough, and what so many have reached.
//!
//! Sort and index; the tests compare it with the definition. Never decides who is counted: the
//! caller passes one value for each voter and nothing for anyone else.

/// The least number of `voters` that meets every other such number.
pub fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

/// The largest value that a majority has reached; `None` without values. Reorders `values` [P36].
pub(crate) fn reached<T: Ord + Copy>(values: &mut [T]) -> Option<T> {
    values.sort_unstable();
    // Ascending: the value at this index and all behind it are `majority` many.
    let at = values.len().checked_sub(majority(values.len()))?;
    values.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By definition: the largest of the values that at least a majority equals or exceeds.
    fn naive(values: &[u8]) -> Option<u8> {
        let enough = |v: &&u8| values.iter().filter(|x| x >= v).count() * 2 > values.len();
        values.iter().filter(enough).max().copied()
    }

    #[test]
    fn sort_and_index_equals_the_definition_b124() {
        for voters in 0..=5u32 {
            for code in 0..4u32.pow(voters) {
                let mut values: Vec<u8> =
                    (0..voters).map(|at| (code / 4u32.pow(at) % 4) as u8).collect();
                let expect = naive(&values);
                assert_eq!(reached(&mut values), expect, "{values:?}");
            }
        }
    }
}
