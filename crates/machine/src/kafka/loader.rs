//! From a snapshot and the log behind it to a state, metadata transactions honoured (KIP-868).
//!
//! What lies between Begin and End takes effect at once with End, and not at all with Abort. While
//! one is open the state is that before Begin. A record that is not understood or is refused is
//! left out and told, as Kafka's brokers do; what was told may be a reason not to trust the state.

use super::image::MetadataImage;
use super::refused::Refused;
use crate::Batch;
use bytes::Bytes;
use quorate_base::Offset;
use quorate_wire::record::metadata::MetadataRecord;
use std::fmt;

/// Builds a state record by record.
#[derive(Clone, Debug, Default)]
pub struct Loader {
    image: MetadataImage,
    /// The state with what the open transaction has brought so far.
    open: Option<MetadataImage>,
}

/// A record that was left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It has no value.
    NoValue,
    /// It is no metadata record, or none that is known here.
    NotUnderstood(quorate_wire::Error),
    /// It contradicts the state.
    Refused {
        /// Kafka's name of its type.
        record: &'static str,
        /// Why.
        why: Refused,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NoValue => f.write_str("the record has no value"),
            Fault::NotUnderstood(error) => error.fmt(f),
            Fault::Refused { record, why } => write!(f, "{record}: {why}"),
        }
    }
}

impl std::error::Error for Fault {}

impl Loader {
    /// Goes on from a state that is known.
    pub fn new(image: MetadataImage) -> Loader {
        Loader { image, open: None }
    }

    /// The state that is in effect.
    pub fn image(&self) -> &MetadataImage {
        &self.image
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.open.is_some()
    }

    /// Takes a whole batch of the log; `told` hears of each record that is left out.
    pub fn apply_batch(&mut self, batch: &Batch<'_>, told: &mut dyn FnMut(Offset, Fault)) {
        for record in batch.records {
            if let Err(fault) = self.apply_value(record.value.map(Bytes::copy_from_slice)) {
                told(record.offset, fault);
            }
        }
    }

    /// Takes the value of the next record of the log or of a snapshot.
    pub fn apply_value(&mut self, value: Option<Bytes>) -> Result<(), Fault> {
        let value = value.ok_or(Fault::NoValue)?;
        let (record, _) = MetadataRecord::decode(value).map_err(Fault::NotUnderstood)?;
        let name = record.type_name();
        self.apply(record).map_err(|why| Fault::Refused { record: name, why })
    }

    /// Takes the next record.
    pub fn apply(&mut self, record: MetadataRecord) -> Result<(), Refused> {
        match (&record, &mut self.open) {
            (MetadataRecord::BeginTransaction(_), Some(_)) => Err(Refused::InTransaction),
            (MetadataRecord::BeginTransaction(_), open @ None) => {
                *open = Some(self.image.clone());
                Ok(())
            }
            (MetadataRecord::EndTransaction(_), open) => {
                self.image = open.take().ok_or(Refused::NoTransaction)?;
                Ok(())
            }
            (MetadataRecord::AbortTransaction(_), open) => {
                open.take().map(drop).ok_or(Refused::NoTransaction)
            }
            (_, Some(open)) => open.apply(record),
            (_, None) => self.image.apply(record),
        }
    }
}
