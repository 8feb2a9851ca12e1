//! Looks at one snapshot: batches from offset 0 on, a header record first, a footer record last.
//!
//! Whether a log rests on it is not asked here; see `covered` in `verify.rs`.

use super::walked::{At, Walked};
use super::{Remedy, Verify, dir_of, is_plausible, records, snapshot_id};
use crate::Error;
use crate::disk::Disk;
use crate::dump::control;
use crate::reader::{BatchReader, Found};
use quorate_base::Offset;

impl<D: Disk> Verify<'_, D> {
    /// Of a log that is whole without them, damaged snapshots are nobody's loss: a start sets them
    /// aside and reads the log. The bootstrap snapshot alone says what the log does not.
    pub(super) fn spare(&mut self, dir: &str, end: Offset) {
        for finding in self.findings.iter_mut().filter(|one| dir_of(&one.path) == dir) {
            let id = snapshot_id(&finding.path);
            if id.is_some_and(|id| id.offset > Offset::ZERO && id.offset <= end) {
                finding.remedy = Remedy::NextStart;
            }
        }
    }

    /// A snapshot: batches from offset 0 on, a header record first, a footer record last.
    pub(super) fn checkpoint(&mut self, path: &str) -> Result<(), Error> {
        let before = self.findings.len();
        let mut findings: Vec<(u64, String, String)> = Vec::new();
        let mut reader = BatchReader::open(&*self.disk, path)?;
        let mut walked = Walked::from(Offset::ZERO);
        let (mut first, mut last, mut was_damaged) = (None, None, false);
        let at = |position| At { segment: Offset::ZERO, position };
        loop {
            let position = reader.position();
            let batch = match reader.next()? {
                None => break,
                Some(Found::Batch(batch)) => batch,
                Some(Found::Damaged(header, fault)) => {
                    findings.push((position, "a batch".to_owned(), fault.instead()));
                    match is_plausible(&header) {
                        true => drop(walked.pass(&header, at(position), None)),
                        false => walked.lost = true,
                    }
                    was_damaged = true;
                    continue;
                }
                // Behind a damaged batch it is that one's length that is wrong.
                Some(Found::Nothing(_)) if was_damaged => break,
                Some(Found::Nothing(fault)) => {
                    findings.push((position, "a batch".to_owned(), fault.instead()));
                    continue;
                }
            };
            was_damaged = false;
            if let Some(fault) = walked.pass(&batch.header, at(position), None) {
                findings.push((position, "the next batch".to_owned(), fault.instead()));
            }
            findings.extend(records(&batch, position));
            let kind = |record: &crate::RecordView<'_>| match batch.control() {
                true => control(record).map_or_else(|bad| bad, |control| control.kind),
                false => "a record".to_owned(),
            };
            let kinds: Vec<String> =
                batch.records().flatten().map(|record| kind(&record)).collect();
            first = first.or(kinds.first().cloned());
            last = kinds.last().cloned().or(last);
        }
        let len = reader.len();
        let ends = [(0, "SnapshotHeader", first), (len, "SnapshotFooter", last)];
        // Of a snapshot that is damaged these may be in the damage.
        for (at, expected, found) in ends.into_iter().filter(|_| findings.is_empty()) {
            let found = found.unwrap_or_else(|| "nothing".to_owned());
            if found != expected {
                self.damage(path, at, expected, found);
                break;
            }
        }
        for (position, expected, found) in findings {
            self.damage(path, position, expected, found);
        }
        if let Some(id) = snapshot_id(path) {
            let right = self.findings.len() == before;
            self.snapshots.push((dir_of(path).to_owned(), id, right));
        }
        Ok(())
    }
}
