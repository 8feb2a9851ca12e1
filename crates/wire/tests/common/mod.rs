//! The coder of the tests that looks at what is in a message. It names no field: whatever a walk
//! visits is covered, also in messages that come later.

#![allow(dead_code, reason = "each test file uses what it needs")]

use bytes::Bytes;
use quorate_base::Uuid;
use quorate_wire::{Coder, Error, ErrorCode, Message, Tags, Walk};

/// What a message holds.
#[derive(Default)]
pub struct Survey {
    flexible: bool,
    /// Named numbers, strings and so on, as Rust's `{:?}` writes them, in the order of the walk.
    pub leaves: Vec<(&'static str, String)>,
    /// Elements of arrays, bytes, characters of strings, tagged fields: what memory grows with.
    pub weight: usize,
}

impl Survey {
    /// Looks at every field that `version` has.
    pub fn of<M: Message>(message: M, version: i16) -> Survey {
        Survey::of_value(message, version, M::API.is_flexible(version))
    }

    /// [`Survey::of`] for what is no message.
    pub fn of_value<T: Walk>(mut value: T, version: i16, flexible: bool) -> Survey {
        let mut survey = Survey { flexible, ..Survey::default() };
        value.walk(&mut survey, version).unwrap();
        survey
    }

    fn leaf(&mut self, field: &'static str, value: impl ToString) -> Result<(), Error> {
        if !field.is_empty() {
            self.leaves.push((field, value.to_string()));
        }
        Ok(())
    }
}

impl Coder for Survey {
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

    fn int<I: quorate_wire::Int>(
        &mut self,
        field: &'static str,
        value: &mut I,
    ) -> Result<(), Error> {
        self.leaf(field, value)
    }

    fn bool(&mut self, field: &'static str, value: &mut bool) -> Result<(), Error> {
        self.leaf(field, value)
    }

    fn error_code(&mut self, field: &'static str, value: &mut ErrorCode) -> Result<(), Error> {
        self.leaf(field, value.code())
    }

    fn uuid(&mut self, field: &'static str, value: &mut Uuid) -> Result<(), Error> {
        let hex: String = value.0.iter().map(|byte| format!("{byte:02x}")).collect();
        let groups = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        self.leaf(field, groups.join("-"))
    }

    fn nullable_string(
        &mut self,
        field: &'static str,
        value: &mut Option<String>,
    ) -> Result<(), Error> {
        self.weight += value.as_ref().map_or(0, String::len);
        self.leaf(field, value.as_ref().map_or("None".to_owned(), |text| format!("{text:?}")))
    }

    fn nullable_bytes(&mut self, _: &'static str, value: &mut Option<Bytes>) -> Result<(), Error> {
        self.weight += value.as_ref().map_or(0, Bytes::len);
        Ok(())
    }

    fn nullable_array<T: Walk>(
        &mut self,
        _: &'static str,
        items: &mut Option<Vec<T>>,
        version: i16,
    ) -> Result<(), Error> {
        self.weight += items.as_ref().map_or(0, Vec::len);
        items.iter_mut().flatten().try_for_each(|item| item.walk(self, version))
    }

    fn open_tags(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn tag<T: PartialEq>(
        &mut self,
        _: &mut (),
        tag: u32,
        value: &mut T,
        absent: T,
        walk: impl FnOnce(&mut Self, &mut T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // Kafka's tags count up from 0; ours are unknown to anyone else.
        if *value == absent || tag > 100 { Ok(()) } else { walk(self, value) }
    }

    fn close_tags(&mut self, _: (), unknown: &mut Tags) -> Result<(), Error> {
        self.weight += unknown.iter().map(|(_, content)| 1 + content.len()).sum::<usize>();
        Ok(())
    }
}
