//! The text of a plan: how each step is written. `parse.rs` reads it back; neither says anything of
//! what a step does.

use super::{Ask, Down, Garble, Plan, Step, When};
use crate::seats::Change;
use std::fmt;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {:x}", self.seed)?;
        for (name, number) in self.options.entries() {
            writeln!(f, "set {name} {number}")?;
        }
        for (at, step) in &self.steps {
            writeln!(f, "{} {step}", Seconds(at.0))?;
        }
        Ok(())
    }
}

/// Microseconds, as seconds.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

struct Ids<'a>(&'a [u32]);

impl fmt::Display for Ids<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (index, id) in self.0.iter().enumerate() {
            write!(f, "{}{id}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Crash { node, how, lasts } => {
                let how = match how {
                    Down::Kill => "kill",
                    Down::Power => "power",
                    Down::Stop => "stop",
                };
                write!(f, "{how} {node} for {}", Seconds(lasts.0))
            }
            Step::Pause { node, lasts } => write!(f, "pause {node} for {}", Seconds(lasts.0)),
            Step::Slow { node, by, lasts } => {
                write!(f, "slow {node} by {} for {}", Seconds(by.0), Seconds(lasts.0))
            }
            Step::Cut { from, to, both, lasts } => {
                let arrow = if *both { "|" } else { ">" };
                write!(f, "cut {} {arrow} {} for {}", Ids(from), Ids(to), Seconds(lasts.0))
            }
            Step::Fill { node, room, lasts } => {
                write!(f, "fill {node} leaving {room} for {}", Seconds(lasts.0))
            }
            Step::Fail { node, what, lasts } => {
                write!(f, "fail {node} {} for {}", what.name(), Seconds(lasts.0))
            }
            Step::Wipe { node, lasts } => write!(f, "wipe {node} for {}", Seconds(lasts.0)),
            Step::Rot { node, at } => write!(f, "rot {node} at {at}"),
            Step::Clock { node, by, back } => {
                let way = if *back { "back" } else { "forward" };
                write!(f, "clock {node} {way} {}", Seconds(by.0))
            }
            Step::Garble { from, to, how, one_in, lasts } => {
                let verb = match how {
                    Garble::Lose => "lose",
                    Garble::Double => "double",
                };
                let (from, to) = (Ids(from), Ids(to));
                write!(f, "{verb} {from} > {to} one-in {one_in} for {}", Seconds(lasts.0))
            }
            Step::Chain { nodes, lasts } => {
                write!(f, "chain {} for {}", Ids(nodes), Seconds(lasts.0))
            }
            Step::Silence { a, b } => write!(f, "silence {a} {b}"),
            Step::Flood { node, lasts } => write!(f, "flood {node} for {}", Seconds(lasts.0)),
            Step::Reset { a, b } => write!(f, "reset {a} {b}"),
            Step::Resign { node } => write!(f, "resign {node}"),
            Step::Upgrade { node, lasts } => write!(f, "upgrade {node} for {}", Seconds(lasts.0)),
            Step::Downgrade { node, lasts } => {
                write!(f, "downgrade {node} for {}", Seconds(lasts.0))
            }
            Step::Raise { level, asks, validate_only } => {
                write!(f, "raise {level} at ")?;
                match asks {
                    Some(asks) => write!(f, "{asks}")?,
                    None => f.write_str("leader")?,
                }
                f.write_str(if *validate_only { " dry" } else { " really" })
            }
            Step::Change { change, node, asks, when_committed, naming } => {
                let verb = if *change == Change::Add { "add" } else { "remove" };
                write!(f, "{verb} {node} at ")?;
                match asks {
                    Some(asks) => write!(f, "{asks}")?,
                    None => f.write_str("leader")?,
                }
                if *change == Change::Add {
                    f.write_str(if *when_committed { " committed" } else { " early" })?;
                }
                write!(f, " {}", naming.name())
            }
            Step::Replace { node, lasts } => write!(f, "replace {node} for {}", Seconds(lasts.0)),
            Step::Move { node, lasts } => write!(f, "move {node} for {}", Seconds(lasts.0)),
            Step::Ask { client, ask, node, patience } => {
                write!(f, "client {client} {ask} at {node} within {}", Seconds(patience.0))
            }
        }
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = |f: &mut fmt::Formatter<'_>, verb, key: &u32, when: &When, stamped: &bool| {
            let when = match when {
                When::Always => "always",
                When::Absent => "if-absent",
                When::Present => "if-present",
                When::Seen => "if-seen",
            };
            write!(f, "{verb} k{key} {when} {}", if *stamped { "stamped" } else { "plain" })
        };
        match self {
            Ask::Put { key, when, stamped } => write(f, "put", key, when, stamped),
            Ask::Delete { key, when, stamped } => write(f, "delete", key, when, stamped),
            Ask::Get { key } => write!(f, "get k{key}"),
            Ask::Peek { key } => write!(f, "peek k{key}"),
        }
    }
}
