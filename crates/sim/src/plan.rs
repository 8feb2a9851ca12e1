//! A run as a value: the world's numbers, and what happens when. One seed gives one plan; a plan
//! has a text, one line a step, that a person can read, cut down and run again.
//!
//! Nothing in a plan depends on how the run goes: a step that finds its node down is a step without
//! effect. So any subset of the lines is a plan too, which is what makes shrinking possible.

mod parse;
mod text;

use crate::draw::{changes, faults, levels, workload};
use crate::options::Options;
use crate::seats::Change;
use quorate_base::{Rng, Span, Time};

pub use parse::{BadPlan, Fault, parse_span};

/// A run that has not happened yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Where all random choices of the run come from.
    pub seed: u64,
    /// The world's numbers.
    pub options: Options,
    /// What happens, by time.
    pub steps: Vec<(Time, Step)>,
}

/// One thing that happens to the world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// A node goes down and comes back.
    Crash {
        /// Which.
        node: u32,
        /// In what way.
        how: Down,
        /// For how long.
        lasts: Span,
    },
    /// A node does nothing for a while; the network keeps what is sent to it.
    Pause {
        /// Which.
        node: u32,
        /// For how long.
        lasts: Span,
    },
    /// A node's disk takes longer.
    Slow {
        /// Which.
        node: u32,
        /// How much longer.
        by: Span,
        /// For how long.
        lasts: Span,
    },
    /// A node's disk is full after so many more bytes, whatever process writes them.
    Fill {
        /// Which.
        node: u32,
        /// Bytes that still fit.
        room: u64,
        /// For how long.
        lasts: Span,
    },
    /// A node's disk fails the next call of a kind. The process must end.
    Fail {
        /// Which.
        node: u32,
        /// The call.
        what: Broken,
        /// For how long the node is down then.
        lasts: Span,
    },
    /// A node goes down and comes back with its directory formatted anew. Static voters do not
    /// forgive this at any time: it happens only if all others are up, agree on a leader, and have
    /// durably all that the node has. Where the log names the voters it is another replica then,
    /// and a voter is lost: that happens to a minority at a time.
    Wipe {
        /// Which.
        node: u32,
        /// For how long it is down.
        lasts: Span,
    },
    /// A bit of a log or of a snapshot flips that was durable, under a process that runs or between
    /// two. The node must repair itself, and votes only for who holds what it had until then; so it
    /// happens to a minority of the voters at a time.
    Rot {
        /// Which.
        node: u32,
        /// A number that says which bit.
        at: u64,
    },
    /// A node's clocks jump: forward those of day and of the process, back that of the day.
    Clock {
        /// Which.
        node: u32,
        /// How far.
        by: Span,
        /// In which direction.
        back: bool,
    },
    /// A stranger asks a node more than it can answer at once, and goes on until it is over.
    Flood {
        /// Which.
        node: u32,
        /// For how long.
        lasts: Span,
    },
    /// Nothing passes from some nodes to others; what is sent waits, as TCP lets it.
    Cut {
        /// From whom.
        from: Vec<u32>,
        /// To whom.
        to: Vec<u32>,
        /// Whether the other direction is cut too.
        both: bool,
        /// For how long.
        lasts: Span,
    },
    /// Frames from some nodes to others get lost, or arrive twice, and the connection lives on:
    /// what a proxy or a peer that misbehaves may do, and TCP alone never does.
    Garble {
        /// From whom.
        from: Vec<u32>,
        /// To whom.
        to: Vec<u32>,
        /// What becomes of them.
        how: Garble,
        /// One frame in so many.
        one_in: u64,
        /// For how long.
        lasts: Span,
    },
    /// Each node of a row sees only its neighbours.
    Chain {
        /// The row.
        nodes: Vec<u32>,
        /// For how long.
        lasts: Span,
    },
    /// All connections that two nodes have to each other swallow what is sent on them, and neither
    /// is told, as behind a firewall that forgot them. New ones can be made.
    Silence {
        /// One.
        a: u32,
        /// The other.
        b: u32,
    },
    /// All connections between two nodes break.
    Reset {
        /// One.
        a: u32,
        /// The other.
        b: u32,
    },
    /// A node is asked to give up leadership, if it leads.
    Resign {
        /// Which.
        node: u32,
    },
    /// A node that is older than the others is asked to stop, and comes back as they are.
    Upgrade {
        /// Which.
        node: u32,
        /// For how long it is down.
        lasts: Span,
    },
    /// A node is asked to stop, and comes back with a build that speaks no format level.
    Downgrade {
        /// Which.
        node: u32,
        /// For how long it is down.
        lasts: Span,
    },
    /// An administrator asks for a format level, on a connection of its own.
    Raise {
        /// Which.
        level: u16,
        /// Who is asked; `None` for whoever leads.
        asks: Option<u32>,
        /// Only whether it would be taken.
        validate_only: bool,
    },
    /// An administrator asks for one voter more or one less, on a connection of its own.
    Change {
        /// Which of the two.
        change: Change,
        /// The node that is to count, or not.
        node: u32,
        /// Who is asked; `None` for whoever leads.
        asks: Option<u32>,
        /// Whether the answer is to wait for the commit.
        when_committed: bool,
        /// What the request says of the node.
        naming: Naming,
    },
    /// A voter goes down and comes back with an empty disk, as after `Wipe`. Then an administrator
    /// has the old one removed and the new one added, and asks until that is done.
    Replace {
        /// Which.
        node: u32,
        /// For how long it is down.
        lasts: Span,
    },
    /// A node is killed and comes back where its name is another one. It is reached by its old name
    /// too.
    Move {
        /// Which.
        node: u32,
        /// For how long it is down.
        lasts: Span,
    },
    /// A client asks for something, once what it asked before is decided.
    Ask {
        /// Which client.
        client: u32,
        /// For what.
        ask: Ask,
        /// Where first.
        node: u32,
        /// How long it waits there.
        patience: Span,
    },
}

/// What a request for other voters says of the one that it is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Naming {
    /// The truth.
    Right,
    /// A directory that no node ever had.
    Wrong,
    /// No directory.
    Nothing,
    /// The directory, but not where it listens.
    Nowhere,
}

impl Naming {
    pub(crate) const NAMES: [(Naming, &'static str); 4] = [
        (Naming::Right, "right"),
        (Naming::Wrong, "wrong"),
        (Naming::Nothing, "no-directory"),
        (Naming::Nowhere, "no-listener"),
    ];

    fn name(self) -> &'static str {
        Naming::NAMES.iter().find(|(naming, _)| *naming == self).map_or("", |(_, name)| name)
    }
}

/// How a node goes down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Down {
    /// The process dies; what it wrote stays, peers see closed connections.
    Kill,
    /// The machine loses power: what was not synced is lost in part, and peers see nothing.
    Power,
    /// It is asked to stop, hands over and ends.
    Stop,
}

/// What becomes of a frame on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Garble {
    /// It never arrives.
    Lose,
    /// It arrives twice.
    Double,
}

/// A call of the disk that fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// A write, which does nothing.
    Write,
    /// A sync of a file.
    Sync,
    /// A sync of a directory.
    SyncDir,
    /// A rename.
    Rename,
}

impl Broken {
    pub(crate) const NAMES: [(Broken, &'static str); 4] = [
        (Broken::Write, "write"),
        (Broken::Sync, "sync"),
        (Broken::SyncDir, "sync-dir"),
        (Broken::Rename, "rename"),
    ];

    fn name(self) -> &'static str {
        Broken::NAMES.iter().find(|(broken, _)| *broken == self).map_or("", |(_, name)| name)
    }
}

/// What a client asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Write a key. The value is the run's to choose: no two are equal.
    Put {
        /// Which key.
        key: u32,
        /// When to.
        when: When,
        /// Whether under the client's session, and so repeated until decided.
        stamped: bool,
    },
    /// Remove a key.
    Delete {
        /// Which key.
        key: u32,
        /// When to.
        when: When,
        /// As in `Put`.
        stamped: bool,
    },
    /// Read a key, and see all that was acknowledged.
    Get {
        /// Which key.
        key: u32,
    },
    /// Read a key as this node has it.
    Peek {
        /// Which key.
        key: u32,
    },
}

/// The condition of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// None.
    Always,
    /// The key is absent.
    Absent,
    /// The key is present.
    Present,
    /// The key has the version that this client saw last.
    Seen,
}

impl Plan {
    /// The plan of a seed.
    pub fn of_seed(seed: u64) -> Plan {
        let mut rng = Rng::new(seed);
        let options = Options::draw(&mut rng.fork());
        let mut steps = faults(&options, &mut rng.fork());
        steps.extend(workload(&options, &mut rng.fork()));
        steps.extend(changes(&options, &mut rng.fork()));
        steps.extend(levels(&options, &mut rng.fork()));
        // What would happen after the faults does not happen, and a plan says only what does.
        steps.retain(|(at, _)| at.0 <= options.heal_ms * 1_000);
        steps.sort_by_key(|(at, _)| *at);
        Plan { seed, options, steps }
    }

    /// Reads what [`std::fmt::Display`] writes. Empty lines are passed over, and so is all from a
    /// `#` to the end of its line. The order of the lines means nothing.
    pub fn parse(text: &str) -> Result<Plan, BadPlan> {
        parse::parse(text)
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        (self.options.voters + self.options.observers) as usize
    }
}

/// A seed as the plan and the command line write it: up to 16 hexadecimal digits.
pub fn parse_seed(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| hexadecimal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_its_text() {
        for seed in 0..200 {
            let plan = Plan::of_seed(seed);
            assert_eq!(Plan::parse(&plan.to_string()), Ok(plan), "seed {seed}");
        }
    }
}
