//! Connections that others made to us: requests in, answers out in the order of the requests.
//!
//! An answer that is ready early waits for those before it, as Kafka's clients expect. A connection
//! with too much unanswered is paused, never dropped.

use crate::out::{ConnId, Out};
use quorate_machine::Machine;
use quorate_wire::Frame;
use std::collections::{BTreeMap, VecDeque};

/// At so many unanswered requests a connection is paused.
const UNANSWERED_MAX: usize = 1_024;
/// At so many bytes of unanswered requests a connection is paused.
const UNANSWERED_BYTES_MAX: usize = 16 << 20;
/// At so many bytes of unanswered requests over all connections, each that sends more is paused.
const ALL_BYTES_MAX: usize = 128 << 20;

/// The place of one request among those of its connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    pub conn: ConnId,
    number: u64,
}

#[derive(Default)]
struct Accepted {
    /// Number of the first request in `slots`.
    first: u64,
    slots: VecDeque<Slot>,
    bytes: usize,
    paused: bool,
}

impl Accepted {
    fn is_full(&self) -> bool {
        self.slots.len() >= UNANSWERED_MAX || self.bytes >= UNANSWERED_BYTES_MAX
    }

    fn resume_if_room<M: Machine>(&mut self, conn: ConnId, out: &mut Vec<Out<M>>) {
        let room = self.slots.len() < UNANSWERED_MAX / 2 && self.bytes < UNANSWERED_BYTES_MAX / 2;
        if self.paused && room {
            self.paused = false;
            out.push(Out::Resume { conn });
        }
    }
}

struct Slot {
    bytes: usize,
    answer: Option<Frame>,
}

#[derive(Default)]
pub(crate) struct Inbound {
    conns: BTreeMap<ConnId, Accepted>,
    /// Unanswered, over all connections.
    bytes: usize,
    /// Connections that were paused for the sake of all, not their own.
    crowded: Vec<ConnId>,
}

impl Inbound {
    /// A request of so many bytes arrived: its place, and perhaps a pause.
    pub fn admit<M: Machine>(
        &mut self,
        conn: ConnId,
        bytes: usize,
        out: &mut Vec<Out<M>>,
    ) -> Place {
        let accepted = self.conns.entry(conn).or_default();
        let place = Place { conn, number: accepted.first + accepted.slots.len() as u64 };
        accepted.slots.push_back(Slot { bytes, answer: None });
        accepted.bytes += bytes;
        self.bytes += bytes;
        let crowded = self.bytes >= ALL_BYTES_MAX;
        if (accepted.is_full() || crowded) && !accepted.paused {
            accepted.paused = true;
            out.push(Out::Pause { conn });
            if crowded {
                self.crowded.push(conn);
            }
        }
        place
    }

    /// The answer to a request is ready; it leaves once all before it have left.
    pub fn answer<M: Machine>(&mut self, place: Place, frame: Frame, out: &mut Vec<Out<M>>) {
        // The connection may have gone since; then nobody waits.
        let Some(accepted) = self.conns.get_mut(&place.conn) else { return };
        let index = (place.number - accepted.first) as usize;
        let slot = &mut accepted.slots[index];
        assert!(
            slot.answer.is_none(),
            "request {} of {:?} is answered twice",
            place.number,
            place.conn
        );
        slot.answer = Some(frame);
        while let Some(slot) = accepted.slots.pop_front_if(|slot| slot.answer.is_some()) {
            accepted.first += 1;
            accepted.bytes -= slot.bytes;
            self.bytes -= slot.bytes;
            out.extend(slot.answer.map(|frame| Out::Frame { conn: place.conn, frame }));
        }
        accepted.resume_if_room(place.conn, out);
        if self.bytes < ALL_BYTES_MAX / 2 {
            for conn in std::mem::take(&mut self.crowded) {
                if let Some(accepted) = self.conns.get_mut(&conn) {
                    accepted.resume_if_room(conn, out);
                }
            }
        }
    }

    /// The connection is gone; what was asked on it is answered to nobody.
    pub fn forget(&mut self, conn: ConnId) {
        if let Some(accepted) = self.conns.remove(&conn) {
            self.bytes -= accepted.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quorate_machine::Kv;

    fn frame(text: &'static str) -> Frame {
        Frame { parts: vec![Bytes::from_static(text.as_bytes())] }
    }

    fn sent(out: &mut Vec<Out<Kv>>) -> Vec<Bytes> {
        out.drain(..)
            .filter_map(|out| {
                if let Out::Frame { frame, .. } = out { Some(frame.parts[0].clone()) } else { None }
            })
            .collect()
    }

    #[test]
    fn answers_leave_in_the_order_of_the_requests() {
        let (mut inbound, mut out) = (Inbound::default(), Vec::new());
        let places: Vec<Place> = (0..3).map(|_| inbound.admit(ConnId(1), 10, &mut out)).collect();
        inbound.answer(places[2], frame("c"), &mut out);
        inbound.answer(places[1], frame("b"), &mut out);
        assert_eq!(sent(&mut out), Vec::<Bytes>::new());
        inbound.answer(places[0], frame("a"), &mut out);
        assert_eq!(sent(&mut out), ["a", "b", "c"]);
    }

    #[test]
    fn too_much_unanswered_pauses_and_half_of_it_resumes() {
        let (mut inbound, mut out) = (Inbound::default(), Vec::<Out<Kv>>::new());
        let places: Vec<Place> =
            (0..UNANSWERED_MAX).map(|_| inbound.admit(ConnId(1), 10, &mut out)).collect();
        assert!(matches!(out[..], [Out::Pause { .. }]));
        out.clear();
        for place in places {
            inbound.answer(place, frame("a"), &mut out);
        }
        let resumed = out.iter().filter(|out| matches!(out, Out::Resume { .. })).count();
        assert_eq!(resumed, 1);
    }

    #[test]
    fn all_connections_together_are_bounded_too() {
        let (mut inbound, mut out) = (Inbound::default(), Vec::<Out<Kv>>::new());
        let each = UNANSWERED_BYTES_MAX / 2 - 1;
        let places: Vec<Place> =
            (0..20).map(|conn| inbound.admit(ConnId(conn), each, &mut out)).collect();
        // The one that fills the room up and all after it.
        let crowd = 20 - ALL_BYTES_MAX / each;
        let paused = out.iter().filter(|out| matches!(out, Out::Pause { .. })).count();
        assert_eq!(paused, crowd);
        out.clear();
        for place in places {
            inbound.answer(place, frame("a"), &mut out);
        }
        let resumed = out.iter().filter(|out| matches!(out, Out::Resume { .. })).count();
        assert_eq!((resumed, inbound.bytes), (crowd, 0));
    }

    #[test]
    fn an_answer_to_a_closed_connection_goes_nowhere() {
        let (mut inbound, mut out) = (Inbound::default(), Vec::new());
        let place = inbound.admit(ConnId(1), 10, &mut out);
        inbound.forget(ConnId(1));
        inbound.answer(place, frame("a"), &mut out);
        assert_eq!(sent(&mut out), Vec::<Bytes>::new());
    }
}
