//! A second machine, so that the trait is not shaped after the store alone: locks that expire.
//!
//! A lock is a name, its holder and a ticket, greater than every ticket before. Unlike the store it
//! has timers, two records to a request, and a tail that is simply a second copy of the state.
//! Requests are text: `take NAME HOLDER MS`, `free NAME HOLDER`.

use bytes::Bytes;
use quorate_base::{Epoch, Offset, OffsetEpoch, Span, Time};
use quorate_machine::{
    Answer, Batch, Corrupt, Image, Machine, Operation, OwnedRecord, Proposal, Records, Request,
    SessionRefusal,
};
use std::collections::BTreeMap;

/// The lock service.
#[derive(Default)]
pub struct Locks {
    state: State,
    lead: Option<Lead>,
}

/// Records by key: each lock's under its name, the last ticket under "#", the name of the lock that
/// expired last under "!".
type State = BTreeMap<String, (String, Offset)>;

struct Lead {
    tail: State,
    /// When each lock of the tail expires.
    expiries: BTreeMap<String, Time>,
}

const LAST_TICKET: &str = "#";
const LAST_EXPIRED: &str = "!";

impl Lead {
    fn set(&mut self, at: Offset, key: &str, value: Option<String>, out: &mut Proposal) {
        let nth = out.len() as u64;
        out.record(Some(key.as_bytes()), value.as_deref().map(str::as_bytes));
        match value {
            Some(value) => self.tail.insert(key.to_owned(), (value, at + nth)),
            None => self.tail.remove(key),
        };
    }

    fn judge(&mut self, now: Time, at: Offset, words: &[&str], out: &mut Proposal) -> Answer {
        let holder_of = |tail: &State, name: &str| {
            let (value, _) = tail.get(name)?;
            Some(value.split(' ').next().unwrap_or_default().to_owned())
        };
        match words {
            ["take", name, holder, ttl_ms] => {
                if let Some(other) = holder_of(&self.tail, name) {
                    return refused(&format!("held by {other}"));
                }
                let last = self.tail.get(LAST_TICKET).map_or(0, |(last, _)| last.parse().unwrap());
                let ticket: u64 = last + 1;
                let ttl = Span::ms(ttl_ms.parse().unwrap());
                self.set(at, name, Some(format!("{holder} {ticket} {ttl_ms}")), out);
                self.set(at, LAST_TICKET, Some(ticket.to_string()), out);
                self.expiries.insert((*name).to_owned(), now + ttl);
                Answer::Done(format!("ticket {ticket}").into())
            }
            ["free", name, holder] if holder_of(&self.tail, name).as_deref() == Some(holder) => {
                self.set(at, name, None, out);
                self.expiries.remove(*name);
                Answer::Done("free".into())
            }
            _ => refused("no"),
        }
    }
}

fn refused(why: &str) -> Answer {
    Answer::Refused(Bytes::copy_from_slice(why.as_bytes()))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

impl Machine for Locks {
    /// A lock's name.
    type Query = String;
    /// Holder, ticket and time to live.
    type Reply = Option<String>;

    fn fresh(&self) -> Locks {
        Locks::default()
    }

    fn view(&self) -> Locks {
        Locks { lead: None, state: self.state.clone() }
    }

    fn apply(&mut self, batch: &Batch<'_>) {
        for record in batch.records {
            let key = text(record.key.unwrap());
            if let Some((value, at)) = self.lead.as_ref().and_then(|lead| lead.tail.get(&key)) {
                assert!(*at >= record.offset, "the record proposed at {at} was committed later");
                let same = record.value == Some(value.as_bytes());
                assert!(same || *at > record.offset, "another record than the one proposed");
            }
            match record.value {
                Some(value) => self.state.insert(key, (text(value), record.offset)),
                None => self.state.remove(&key),
            };
        }
    }

    fn query(&self, name: &String) -> Option<String> {
        self.state.get(name).map(|(value, _)| value.clone())
    }

    fn digest(&self) -> u64 {
        let bytes = format!("{:?}", self.state).into_bytes();
        bytes.iter().fold(7, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    }

    fn snapshot(&self) -> Image {
        Image::new(
            self.state
                .clone()
                .into_iter()
                .map(|(key, (value, offset))| OwnedRecord::new(offset, key.into(), value.into())),
        )
    }

    fn restore(&mut self, _at: OffsetEpoch, records: &mut Records<'_>) -> Result<(), Corrupt> {
        self.state.clear();
        for record in records {
            let value = text(&record.value.unwrap());
            self.state.insert(text(&record.key.unwrap()), (value, record.offset));
        }
        Ok(())
    }

    fn lead(&mut self, now: Time, since: Option<(Epoch, Offset)>) {
        self.lead = since.map(|_| {
            let locks = self
                .state
                .iter()
                .filter(|(name, _)| ![LAST_TICKET, LAST_EXPIRED].contains(&name.as_str()));
            let expiries = locks.map(|(name, (value, _))| {
                let ttl_ms = value.rsplit(' ').next().unwrap().parse().unwrap();
                (name.clone(), now + Span::ms(ttl_ms))
            });
            Lead { tail: self.state.clone(), expiries: expiries.collect() }
        });
    }

    fn propose(&mut self, now: Time, at: Offset, request: &Request, out: &mut Proposal) {
        let answer = match &request.operation {
            Operation::Write(bytes) => {
                let request = text(bytes);
                let words: Vec<&str> = request.split(' ').collect();
                // `set` counts from what the turn proposed before this request.
                let base = Offset(at.0 - out.len() as u64);
                self.lead.as_mut().unwrap().judge(now, base, &words, out)
            }
            Operation::OpenSession { .. }
            | Operation::RenewSession(_)
            | Operation::CloseSession(_) => Answer::Session(SessionRefusal::Unsupported),
        };
        out.answer(answer);
    }

    fn wake(&mut self, now: Time, at: Offset, out: &mut Proposal) {
        let lead = self.lead.as_mut().unwrap();
        let base = Offset(at.0 - out.len() as u64);
        let due = lead.expiries.iter().filter(|(_, at)| **at <= now);
        let due: Vec<String> = due.map(|(name, _)| name.clone()).collect();
        for name in due {
            lead.set(base, &name, None, out);
            lead.set(base, LAST_EXPIRED, Some(name.clone()), out);
            lead.expiries.remove(&name);
            out.close_group();
        }
    }

    fn deadline(&self) -> Time {
        let expiries = self.lead.iter().flat_map(|lead| lead.expiries.values().copied());
        expiries.min().unwrap_or(Time::NEVER)
    }
}
