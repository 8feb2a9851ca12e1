//! The coder that makes messages up, for tests and fuzzing. It names no field, but for the two
//! whose numbers come from a closed list: whatever a walk visits is drawn, also in messages that
//! come later.
//!
//! Equal generators give equal messages. Nothing outside of tests and their tools calls this.

use crate::coder::{Coder, Tags, Walk};
use crate::message::Message;
use crate::primitive::Int;
use crate::record::metadata::MetadataRecord;
use crate::{Error, ErrorCode};
use bytes::Bytes;
use quorate_base::{Rng, Uuid};

/// A message whose every field that `version` has is drawn from `rng`.
pub fn message<M: Message>(version: i16, rng: &mut Rng) -> M {
    let mut message = M::default();
    let flexible = M::API.is_flexible(version);
    let mut coder = Arbitrary { rng, flexible, record: None, narrow: false };
    message.walk(&mut coder, version).expect("drawn values are allowed");
    message
}

/// A value of a control record of this version, its other fields drawn from `rng`.
pub fn record<T: Walk>(version: i16, rng: &mut Rng) -> T {
    let mut record = T::default();
    let mut coder = Arbitrary { rng, flexible: true, record: Some(version), narrow: false };
    record.walk(&mut coder, 0).expect("drawn values are allowed");
    record
}

/// A metadata record of this type and version, its fields drawn from `rng`; `None` for a type that
/// is not known.
pub fn metadata(api_key: u32, version: i16, rng: &mut Rng) -> Option<MetadataRecord> {
    let mut record = MetadataRecord::default_of(api_key)?;
    let mut coder = Arbitrary { rng, flexible: true, record: None, narrow: false };
    record.walk(&mut coder, version).expect("drawn values are allowed");
    Some(record)
}

/// As [`metadata`], its ids, names and numbers out of a few, so that records meet.
pub fn narrow_metadata(api_key: u32, version: i16, rng: &mut Rng) -> Option<MetadataRecord> {
    let mut record = MetadataRecord::default_of(api_key)?;
    let mut coder = Arbitrary { rng, flexible: true, record: None, narrow: true };
    record.walk(&mut coder, version).expect("drawn values are allowed");
    Some(record)
}

/// Fills fields at random.
struct Arbitrary<'a> {
    rng: &'a mut Rng,
    flexible: bool,
    /// The version of a control record, which is a field of it.
    record: Option<i16>,
    /// Whether values are out of a few, so that what names something often finds it.
    narrow: bool,
}

impl Arbitrary<'_> {
    fn bytes_below(&mut self, limit: u64) -> Bytes {
        (0..self.rng.below(limit)).map(|_| self.rng.below(256) as u8).collect()
    }
}

impl Coder for Arbitrary<'_> {
    type OpenTags = ();

    fn flexible(&self) -> bool {
        self.flexible
    }

    fn set_flexible(&mut self, flexible: bool) {
        self.flexible = flexible;
    }

    fn position(&self) -> usize {
        0
    }

    fn int<I: Int>(&mut self, field: &'static str, value: &mut I) -> Result<(), Error> {
        let bits = match self.rng.below(4) {
            // The two numbers with a closed list.
            _ if field == "Kind" => self.rng.below(5),
            _ if field == "Version" => self.record.expect("only records have one") as u64,
            _ if self.narrow => self.rng.below(6).wrapping_sub(2),
            0 => self.rng.below(3),
            1 => self.rng.below(3).wrapping_sub(2),
            _ => self.rng.below(u64::MAX),
        };
        *value = I::from_bytes(&bits.to_be_bytes()[8 - I::WIDTH..]);
        Ok(())
    }

    fn bool(&mut self, _: &'static str, value: &mut bool) -> Result<(), Error> {
        *value = self.rng.one_in(2);
        Ok(())
    }

    fn error_code(&mut self, _: &'static str, value: &mut ErrorCode) -> Result<(), Error> {
        *value = ErrorCode::from_code(self.rng.below(200) as i16 - 2);
        Ok(())
    }

    fn uuid(&mut self, _: &'static str, value: &mut Uuid) -> Result<(), Error> {
        if self.narrow {
            *value = Uuid([self.rng.below(4) as u8; 16]);
            return Ok(());
        }
        value.0.iter_mut().for_each(|byte| *byte = self.rng.below(256) as u8);
        Ok(())
    }

    fn nullable_string(
        &mut self,
        _: &'static str,
        value: &mut Option<String>,
    ) -> Result<(), Error> {
        const LETTERS: [char; 6] = ['a', 'Z', '0', '-', 'ß', '€'];
        if self.narrow {
            let name = ["", "a", "b", "c"][self.rng.below(4) as usize].to_owned();
            *value = unless_null(value, name, self.rng);
            return Ok(());
        }
        let length = if self.rng.one_in(20) { 300 } else { self.rng.below(8) };
        let text = (0..length).map(|_| LETTERS[self.rng.below(6) as usize]).collect();
        *value = unless_null(value, text, self.rng);
        Ok(())
    }

    fn nullable_bytes(&mut self, _: &'static str, value: &mut Option<Bytes>) -> Result<(), Error> {
        let limit = if self.rng.one_in(10) { 10_000 } else { 30 };
        let bytes = self.bytes_below(limit);
        *value = unless_null(value, bytes, self.rng);
        Ok(())
    }

    fn nullable_array<T: Walk>(
        &mut self,
        _: &'static str,
        items: &mut Option<Vec<T>>,
        version: i16,
    ) -> Result<(), Error> {
        let mut drawn: Vec<T> = (0..self.rng.below(4)).map(|_| T::default()).collect();
        drawn.iter_mut().try_for_each(|item| item.walk(self, version))?;
        *items = unless_null(items, drawn, self.rng);
        Ok(())
    }

    fn open_tags(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn tag<T: PartialEq>(
        &mut self,
        _: &mut (),
        _: u32,
        value: &mut T,
        _: T,
        walk: impl FnOnce(&mut Self, &mut T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.rng.one_in(2) { walk(self, value) } else { Ok(()) }
    }

    fn close_tags(&mut self, _: (), unknown: &mut Tags) -> Result<(), Error> {
        let mut tag = 100;
        while self.rng.one_in(8) {
            unknown.push((tag, self.bytes_below(5)));
            tag += 1 + self.rng.below(5_000) as u32;
        }
        // Not one that we know: the walk would not hand it back as unknown.
        unknown.retain(|(tag, _)| *tag != 10_595);
        Ok(())
    }
}

/// A field that is never null arrives as `Some`, one that may be null as its default.
fn unless_null<T>(before: &Option<T>, drawn: T, rng: &mut Rng) -> Option<T> {
    if before.is_none() && rng.one_in(4) { None } else { Some(drawn) }
}
