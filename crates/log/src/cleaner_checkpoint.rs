//! `cleaner-offset-checkpoint`: how far the cleaner has been, as Kafka's tools know it.
//!
//! In the directory above the partition's, a line a partition; those of others stay. Written for
//! who looks, never read for what it says: it has no checksum, and an offset that is too high would
//! make a false claim. What counts is in `quorate-cleaned`.

use crate::Error;
use crate::disk::{Disk, Operation};
use crate::file::{TEMPORARY, join, read_file, replace_file};
use quorate_base::Offset;
use std::io;

/// Its name.
pub(crate) const NAME: &str = "cleaner-offset-checkpoint";

/// A line: a partition and the end of what was cleaned of it.
pub(crate) type Line = (String, u32, Offset);

/// The directory of the file, and the topic and the partition of the folder.
fn of(partition: &str) -> (&str, Option<(&str, u32)>) {
    let (dir, name) = partition.rsplit_once('/').unwrap_or(("", partition));
    let parts = name.rsplit_once('-');
    (dir, parts.and_then(|(topic, number)| Some((topic, number.parse().ok()?))))
}

/// Version 0, the number of lines, then topic, partition and offset of each.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Line>> {
    let mut lines = std::str::from_utf8(bytes).ok()?.lines();
    if lines.next()? != "0" {
        return None;
    }
    let count: usize = lines.next()?.parse().ok()?;
    let line = |line: &str| {
        let mut words = line.split(' ');
        let topic = words.next()?.to_owned();
        let (partition, offset) = (words.next()?.parse().ok()?, words.next()?.parse::<i64>().ok()?);
        let line = (topic, partition, Offset(u64::try_from(offset).ok()?));
        words.next().is_none().then_some(line)
    };
    let lines: Option<Vec<Line>> = lines.map(line).collect();
    lines.filter(|lines| lines.len() == count)
}

fn encode(lines: &[Line]) -> String {
    let mut text = format!("0\n{}\n", lines.len());
    for (topic, partition, offset) in lines {
        text += &format!("{topic} {partition} {offset}\n");
    }
    text
}

/// Notes the end of what was cleaned of a partition, by the path of its folder.
pub(crate) fn write<D: Disk>(disk: &mut D, partition: &str, end: Offset) -> Result<(), Error> {
    let (dir, Some((topic, number))) = of(partition) else { return Ok(()) };
    let found = read_file(disk, &join(dir, NAME)).ok().flatten();
    let mut lines = found.and_then(|bytes| decode(&bytes)).unwrap_or_default();
    lines.retain(|(of, partition, _)| (of.as_str(), *partition) != (topic, number));
    lines.push((topic.to_owned(), number, end));
    replace_file(disk, dir, NAME, &encode(&lines).into())
}

/// Takes a half-written one away.
pub(crate) fn tidy<D: Disk>(disk: &mut D, partition: &str) -> Result<(), Error> {
    let path = join(of(partition).0, &format!("{NAME}{TEMPORARY}"));
    match disk.remove(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(Error::io(Operation::Remove, &path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDisk;

    #[test]
    fn it_is_kafkas_and_keeps_the_lines_of_others() {
        let mut disk = MemoryDisk::default();
        write(&mut disk, "__cluster_metadata-0", Offset(7)).unwrap();
        assert_eq!(disk.contents(NAME).unwrap(), b"0\n1\n__cluster_metadata 0 7\n");
        disk.put(NAME, b"0\n2\na-b 3 9\n__cluster_metadata 0 7\n");
        write(&mut disk, "__cluster_metadata-0", Offset(12)).unwrap();
        assert_eq!(disk.contents(NAME).unwrap(), b"0\n2\na-b 3 9\n__cluster_metadata 0 12\n");
        for wrong in ["", "1\n0\n", "0\n1\n", "0\n1\na 0\n", "0\n1\na 0 -1\n", "0\n1\na 0 1 2\n"] {
            assert_eq!(decode(wrong.as_bytes()), None, "{wrong:?}");
            disk.put(NAME, wrong.as_bytes());
            write(&mut disk, "a-b-1", Offset(1)).unwrap();
            assert_eq!(disk.contents(NAME).unwrap(), b"0\n1\na-b 1 1\n");
        }
    }
}
