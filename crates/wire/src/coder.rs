//! The seam between a message's form and what is done with it: one walk, several coders.
//!
//! A message describes its fields once, in wire order, in [`Walk::walk`]. [`crate::Decoder`] fills
//! the fields, [`crate::Encoder`] writes them, [`crate::print`] shows them; tests have coders of
//! their own. A walk must visit the same fields for the same version whatever the coder, must not
//! look at values it has not visited, and must list tagged fields in ascending order.

pub use crate::primitive::Int;
use crate::{Error, ErrorCode};
use bytes::Bytes;
use quorate_base::Uuid;
use std::mem;

/// Tagged fields that we do not know, ascending by tag: kept when decoding, written when encoding.
pub type Tags = Vec<(u32, Bytes)>;

/// Something whose wire form is known.
pub trait Walk: Default {
    /// Whether it shows as a group of named fields; numbers do not.
    const NAMED: bool = true;

    /// Fields that Kafka's tools show before others though tags put them behind: each pair is a
    /// field and the one that it comes before.
    const SHOWN_BEFORE: &'static [(&'static str, &'static str)] = &[];

    /// Visits every field that `version` has, in wire order.
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error>;
}

impl Walk for i32 {
    const NAMED: bool = false;

    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("", self)
    }
}

impl Walk for String {
    const NAMED: bool = false;

    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.string("", self)
    }
}

impl Walk for Uuid {
    const NAMED: bool = false;

    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.uuid("", self)
    }
}

/// A number with a fraction. Two are equal if their bits are: what was read is then what is
/// written, whatever it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Float64(pub f64);

impl PartialEq for Float64 {
    fn eq(&self, other: &Float64) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Float64 {}

/// What a walk is for. Field names are Kafka's.
pub trait Coder: Sized {
    /// The state between the first and the last tagged field of one struct.
    type OpenTags;

    /// Whether lengths are compact and structs end in tagged fields (KIP-482).
    fn flexible(&self) -> bool;

    /// Switches between the two forms: a header may be older than the body behind it.
    fn set_flexible(&mut self, flexible: bool);

    /// Where we are, for errors: bytes from the start of the frame.
    fn position(&self) -> usize;

    /// A fixed-width integer.
    fn int<I: Int>(&mut self, field: &'static str, value: &mut I) -> Result<(), Error>;

    /// One byte; zero is false.
    fn bool(&mut self, field: &'static str, value: &mut bool) -> Result<(), Error>;

    /// A 16-bit error code.
    fn error_code(&mut self, field: &'static str, value: &mut ErrorCode) -> Result<(), Error>;

    /// Sixteen bytes.
    fn uuid(&mut self, field: &'static str, value: &mut Uuid) -> Result<(), Error>;

    /// A string or null.
    fn nullable_string(
        &mut self,
        field: &'static str,
        value: &mut Option<String>,
    ) -> Result<(), Error>;

    /// Bytes or null. Neither decoding nor encoding copies them when they are many.
    fn nullable_bytes(
        &mut self,
        field: &'static str,
        value: &mut Option<Bytes>,
    ) -> Result<(), Error>;

    /// An array or null.
    fn nullable_array<T: Walk>(
        &mut self,
        field: &'static str,
        items: &mut Option<Vec<T>>,
        version: i16,
    ) -> Result<(), Error>;

    /// Begins the tagged fields at the end of a struct.
    fn open_tags(&mut self) -> Result<Self::OpenTags, Error>;

    /// A tagged field that we know. It is on the wire only while it differs from `absent`, and
    /// shown only then; what writes or reads bytes puts its number and size around it.
    fn tag<T: PartialEq>(
        &mut self,
        _open: &mut Self::OpenTags,
        _tag: u32,
        value: &mut T,
        absent: T,
        walk: impl FnOnce(&mut Self, &mut T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if *value == absent { Ok(()) } else { walk(self, value) }
    }

    /// Ends the tagged fields, with those we do not know.
    fn close_tags(&mut self, open: Self::OpenTags, unknown: &mut Tags) -> Result<(), Error>;

    /// The error for a value outside of a field's closed list, just visited.
    fn bad_value(&self, field: &'static str, found: impl Into<i64>) -> Error {
        Error::BadValue { field, at: self.position(), found: found.into() }
    }

    /// A field that `version` lacks but whose loss would change what the message says: encoding it
    /// while it `is_set` is refused. Nothing is on the wire.
    fn lacks(&mut self, _field: &'static str, _is_set: bool, _version: i16) -> Result<(), Error> {
        Ok(())
    }

    /// A struct inside of another; its fields lie there without anything around them.
    fn nested<T: Walk>(
        &mut self,
        _field: &'static str,
        value: &mut T,
        version: i16,
    ) -> Result<(), Error> {
        value.walk(self, version)
    }

    /// Signed, 8 bits.
    fn i8(&mut self, field: &'static str, value: &mut i8) -> Result<(), Error> {
        self.int(field, value)
    }

    /// Signed, 16 bits.
    fn i16(&mut self, field: &'static str, value: &mut i16) -> Result<(), Error> {
        self.int(field, value)
    }

    /// Unsigned, 16 bits.
    fn u16(&mut self, field: &'static str, value: &mut u16) -> Result<(), Error> {
        self.int(field, value)
    }

    /// Signed, 32 bits.
    fn i32(&mut self, field: &'static str, value: &mut i32) -> Result<(), Error> {
        self.int(field, value)
    }

    /// Signed, 64 bits.
    fn i64(&mut self, field: &'static str, value: &mut i64) -> Result<(), Error> {
        self.int(field, value)
    }

    /// A 64-bit floating point number (IEEE 754), big-endian.
    fn float64(&mut self, field: &'static str, value: &mut Float64) -> Result<(), Error> {
        let mut bits = value.0.to_bits() as i64;
        self.int(field, &mut bits)?;
        *value = Float64(f64::from_bits(bits as u64));
        Ok(())
    }

    /// A string, never null.
    fn string(&mut self, field: &'static str, value: &mut String) -> Result<(), Error> {
        self.never_null(field, value, |c, value| c.nullable_string(field, value))
    }

    /// Bytes, never null.
    fn bytes(&mut self, field: &'static str, value: &mut Bytes) -> Result<(), Error> {
        self.never_null(field, value, |c, value| c.nullable_bytes(field, value))
    }

    /// An array, never null.
    fn array<T: Walk>(
        &mut self,
        field: &'static str,
        items: &mut Vec<T>,
        version: i16,
    ) -> Result<(), Error> {
        self.never_null(field, items, |c, items| c.nullable_array(field, items, version))
    }

    /// Walks a field whose type excludes null by the form that allows it.
    fn never_null<T: Default>(
        &mut self,
        field: &'static str,
        value: &mut T,
        walk: impl FnOnce(&mut Self, &mut Option<T>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut some = Some(mem::take(value));
        walk(self, &mut some)?;
        *value = some.ok_or(Error::Null { field, at: self.position() })?;
        Ok(())
    }

    /// A tagged field that is one struct. As in Kafka, one with nothing but defaults is as good as
    /// none, and not on the wire.
    fn tagged_struct<T: Walk + PartialEq>(
        &mut self,
        open: &mut Self::OpenTags,
        tag: u32,
        field: &'static str,
        value: &mut Option<T>,
        version: i16,
    ) -> Result<(), Error> {
        let is_default = |value: &mut T| *value == T::default();
        value.take_if(is_default);
        self.tag(open, tag, value, None, |c, value| {
            c.nested(field, value.get_or_insert_default(), version)
        })?;
        value.take_if(is_default);
        Ok(())
    }

    /// The end of a struct with tagged fields; `known` visits those we know with [`Coder::tag`].
    fn tags(
        &mut self,
        unknown: &mut Tags,
        known: impl FnOnce(&mut Self, &mut Self::OpenTags) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if !self.flexible() {
            return Ok(());
        }
        let mut open = self.open_tags()?;
        known(self, &mut open)?;
        self.close_tags(open, unknown)
    }

    /// The end of a struct of whose tagged fields we know none.
    fn unknown_tags(&mut self, unknown: &mut Tags) -> Result<(), Error> {
        self.tags(unknown, |_, _| Ok(()))
    }
}
