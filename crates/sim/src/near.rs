//! The name that someone meant who wrote another one.

/// The nearest of these names, if one is near enough to have been meant.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = names.into_iter().map(|known| (distance(name, known), known));
    let (changes, known) = near.min_by_key(|(changes, _)| *changes)?;
    (changes <= known.len() / 3).then_some(known)
}

/// How many letters have to be changed, added or removed to make one of the other, whatever their
/// case.
fn distance(one: &str, other: &str) -> usize {
    let [one, other] = [one, other].map(|name| name.to_ascii_lowercase().into_bytes());
    // Row by row: the distance of the letters of one so far from each beginning of the other.
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.iter().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], at + 1);
        for (column, there) in other.iter().enumerate() {
            let changed = corner + usize::from(letter != there);
            corner = row[column + 1];
            row[column + 1] = changed.min(corner + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_found_and_another_word_is_not() {
        let names = ["voters", "observers", "kill", "skipTruncate"];
        for (name, known) in [
            ("voterz", Some("voters")),
            ("voter", Some("voters")),
            ("skiptruncate", Some("skipTruncate")),
            ("SkpTruncates", Some("skipTruncate")),
            ("obsevers", Some("observers")),
            ("ksll", Some("kill")),
            ("explode", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, names), known, "{name}");
        }
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(nearest("x", []), None);
    }
}
