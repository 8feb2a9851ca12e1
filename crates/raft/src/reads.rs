//! Proof of leadership for reads: rounds that travel with fetches.
//!
//! A round is a number in the leader's answers; a follower's next fetch echoes it. An echo of a
//! round that was opened after a read arrived shows that the follower was still in this epoch then;
//! a majority of such followers shows that no later leader can have committed anything before the
//! read arrived [P46].

use crate::effect::{Effect, Token};
use crate::majority::reached;
use crate::mutants::mutant;
use crate::quorum::Quorum;
use crate::role::Role;
use quorate_base::Offset;
use std::collections::VecDeque;

/// The reads that wait, by round. All reads that arrive between two messages share one round, so
/// that a read costs next to nothing under load [P47].
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    /// The newest round; 0 before the first.
    round: u64,
    /// Whether a message has carried the newest round: reads that come now need another one.
    told: bool,
    /// Invariant: rounds ascend, none above `round`, no empty group.
    waiting: VecDeque<(u64, Vec<Token>)>,
    /// How many reads wait in all groups.
    count: usize,
    /// Room for one value a voter.
    echoes: Vec<u64>,
}

impl Reads {
    pub(crate) fn round(&self) -> u64 {
        self.round
    }

    /// Queues a read. True if it opened a round.
    fn open(&mut self, token: Token) -> bool {
        let opens = self.told || self.round == 0;
        if opens {
            self.round += 1;
            self.told = false;
        }
        self.count += 1;
        match self.waiting.back_mut() {
            Some((round, tokens)) if *round == self.round => tokens.push(token),
            Some(_) | None => self.waiting.push_back((self.round, vec![token])),
        }
        opens
    }

    /// The round that a message to be sent now carries.
    pub(crate) fn tell(&mut self) -> u64 {
        self.told = true;
        self.round
    }

    /// Whether a read waits for a newer round than this.
    pub(crate) fn wait_beyond(&self, echo: u64) -> bool {
        self.waiting.back().is_some_and(|(round, _)| *round > echo)
    }

    /// The next group of reads, if its round is proved.
    fn pop(&mut self, proved: u64) -> Option<Vec<Token>> {
        let ready = self.waiting.front().is_some_and(|(round, _)| *round <= proved);
        let (_, tokens) = if ready { self.waiting.pop_front()? } else { return None };
        self.count -= tokens.len();
        Some(tokens)
    }

    pub(crate) fn into_waiting(self) -> impl Iterator<Item = Token> {
        self.waiting.into_iter().flat_map(|(_, tokens)| tokens)
    }

    /// How many reads wait.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        self.waiting.iter().map(|(round, tokens)| (*round, tokens.len()))
    }
}

impl Quorum {
    pub(crate) fn on_read(&mut self, token: Token, out: &mut Vec<Effect>) {
        let caretaker = self.is_caretaker();
        let Role::Leader(leader) = &mut self.role else {
            return self.refuse_token(token, out);
        };
        if caretaker {
            return self.refuse_token(token, out);
        }
        if mutant!(self, ReadWithoutProof) {
            let offset = self.high_watermark.unwrap_or(Offset::ZERO);
            out.push(Effect::ReadAt { token, offset });
            return;
        }
        let opened = leader.reads.open(token);
        let newest = leader.reads.round();
        self.prove(out); // A sole voter needs nobody.
        let waits = matches!(&self.role, Role::Leader(leader) if leader.reads.wait_beyond(0));
        if opened && waits {
            // Followers that wait for news carry the round at once: an idle quorum proves in one
            // round trip.
            let tells = |echo: Option<u64>| echo.is_some_and(|echo| echo < newest);
            self.unpark(|parked| parked.voter && tells(parked.fetch.round), out);
        }
    }

    /// Answers the reads whose round a majority has echoed, once all earlier commits are known
    /// [P49].
    pub(crate) fn prove(&mut self, out: &mut Vec<Effect>) {
        let Some(offset) = self.high_watermark else { return };
        let counts = self.is_voter() || mutant!(self, CountRemovedLeader);
        let Role::Leader(leader) = &mut self.role else { return };
        if !leader.reads.wait_beyond(0) {
            return;
        }
        let mut echoes = std::mem::take(&mut leader.reads.echoes);
        echoes.clear();
        echoes.extend(counts.then_some(u64::MAX)); // The leader itself, if it is a voter.
        echoes.extend(leader.voters.iter().map(|voter| voter.echo));
        let proved = reached(&mut echoes).unwrap_or(0);
        leader.reads.echoes = echoes;
        while let Some(tokens) = leader.reads.pop(proved) {
            out.extend(tokens.into_iter().map(|token| Effect::ReadAt { token, offset }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_join_a_round_until_a_message_carries_it() {
        let mut reads = Reads::default();
        assert!(reads.open(Token(1)));
        assert!(!reads.open(Token(2)));
        assert_eq!(reads.tell(), 1);
        assert!(reads.open(Token(3)));
        assert!(!reads.open(Token(4)));
        assert_eq!(reads.pop(0), None);
        assert_eq!(reads.pop(1), Some(vec![Token(1), Token(2)]));
        assert_eq!(reads.pop(1), None);
        assert!(reads.wait_beyond(1) && !reads.wait_beyond(2));
        assert_eq!(reads.pop(2), Some(vec![Token(3), Token(4)]));
        assert_eq!(reads.pop(2), None);
    }
}
