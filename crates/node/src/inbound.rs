//! Connections that others made to us: requests in, answers out in the order of the requests.
//!
//! An answer that is ready early waits for those before it, as Kafka's clients expect. A connection
//! with too much unanswered is paused, never dropped.

use crate::out::{ConnId, Out};
use quorate_wire::Frame;
use std::collections::{BTreeMap, VecDeque};

/// At so many unanswered requests a connection is paused.
const UNANSWERED_MAX: usize = 1_024;
/// At so many bytes of unanswered requests a connection is paused.
const UNANSWERED_BYTES_MAX: usize = 16 << 20;

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

struct Slot {
    bytes: usize,
    answer: Option<Frame>,
}

#[derive(Default)]
pub(crate) struct Inbound {
    conns: BTreeMap<ConnId, Accepted>,
}

impl Inbound {
    /// A request of so many bytes arrived: its place, and perhaps a pause.
    pub fn admit<R>(&mut self, conn: ConnId, bytes: usize, out: &mut Vec<Out<R>>) -> Place {
        let accepted = self.conns.entry(conn).or_default();
        let place = Place { conn, number: accepted.first + accepted.slots.len() as u64 };
        accepted.slots.push_back(Slot { bytes, answer: None });
        accepted.bytes += bytes;
        let full = accepted.slots.len() >= UNANSWERED_MAX || accepted.bytes >= UNANSWERED_BYTES_MAX;
        if full && !accepted.paused {
            accepted.paused = true;
            out.push(Out::Pause { conn });
        }
        place
    }

    /// The answer to a request is ready; it leaves once all before it have left.
    pub fn answer<R>(&mut self, place: Place, frame: Frame, out: &mut Vec<Out<R>>) {
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
            out.extend(slot.answer.map(|frame| Out::Frame { conn: place.conn, frame }));
        }
        let room =
            accepted.slots.len() < UNANSWERED_MAX / 2 && accepted.bytes < UNANSWERED_BYTES_MAX / 2;
        if accepted.paused && room {
            accepted.paused = false;
            out.push(Out::Resume { conn: place.conn });
        }
    }

    /// The connection is gone; what was asked on it is answered to nobody.
    pub fn forget(&mut self, conn: ConnId) {
        self.conns.remove(&conn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn frame(text: &'static str) -> Frame {
        Frame { parts: vec![Bytes::from_static(text.as_bytes())] }
    }

    fn sent(out: &mut Vec<Out<()>>) -> Vec<Bytes> {
        out.drain(..)
            .filter_map(|out| match out {
                Out::Frame { frame, .. } => Some(frame.parts[0].clone()),
                _ => None,
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
        let (mut inbound, mut out) = (Inbound::default(), Vec::<Out<()>>::new());
        let places: Vec<Place> =
            (0..UNANSWERED_MAX).map(|_| inbound.admit(ConnId(1), 10, &mut out)).collect();
        assert!(matches!(out[..], [Out::Pause { .. }]), "{out:?}");
        out.clear();
        for place in places {
            inbound.answer(place, frame("a"), &mut out);
        }
        let resumed = out.iter().filter(|out| matches!(out, Out::Resume { .. })).count();
        assert_eq!(resumed, 1);
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
