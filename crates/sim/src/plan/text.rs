//! The text of a plan: how each step is written, and how it is read back. Says nothing of what a
//! step does.

use super::{Ask, Broken, Down, Garble, Plan, Step, When};
use quorate_base::Span;
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

pub(super) fn parse_span(text: &str) -> Option<Span> {
    let (seconds, rest) = text.strip_suffix('s')?.split_once('.')?;
    (rest.len() == 6).then_some(())?;
    Some(Span(seconds.parse::<u64>().ok()? * 1_000_000 + rest.parse::<u64>().ok()?))
}

fn parse_ids(text: &str) -> Option<Vec<u32>> {
    match text {
        "none" => Some(Vec::new()),
        text => text.split(',').map(|id| id.parse().ok()).collect(),
    }
}

pub(super) fn parse_step(words: &[&str]) -> Option<Step> {
    Some(match words {
        [how @ ("kill" | "power" | "stop"), node, "for", lasts] => Step::Crash {
            node: node.parse().ok()?,
            how: match *how {
                "kill" => Down::Kill,
                "power" => Down::Power,
                _ => Down::Stop,
            },
            lasts: parse_span(lasts)?,
        },
        ["pause", node, "for", lasts] => {
            Step::Pause { node: node.parse().ok()?, lasts: parse_span(lasts)? }
        }
        ["slow", node, "by", by, "for", lasts] => {
            Step::Slow { node: node.parse().ok()?, by: parse_span(by)?, lasts: parse_span(lasts)? }
        }
        ["fill", node, "leaving", room, "for", lasts] => Step::Fill {
            node: node.parse().ok()?,
            room: room.parse().ok()?,
            lasts: parse_span(lasts)?,
        },
        ["fail", node, what, "for", lasts] => Step::Fail {
            node: node.parse().ok()?,
            what: Broken::parse(what)?,
            lasts: parse_span(lasts)?,
        },
        ["wipe", node, "for", lasts] => {
            Step::Wipe { node: node.parse().ok()?, lasts: parse_span(lasts)? }
        }
        ["rot", node, "at", at] => Step::Rot { node: node.parse().ok()?, at: at.parse().ok()? },
        ["clock", node, way @ ("forward" | "back"), by] => {
            Step::Clock { node: node.parse().ok()?, by: parse_span(by)?, back: *way == "back" }
        }
        ["flood", node, "for", lasts] => {
            Step::Flood { node: node.parse().ok()?, lasts: parse_span(lasts)? }
        }
        ["cut", from, arrow @ ("|" | ">"), to, "for", lasts] => Step::Cut {
            from: parse_ids(from)?,
            to: parse_ids(to)?,
            both: *arrow == "|",
            lasts: parse_span(lasts)?,
        },
        [verb @ ("lose" | "double"), from, ">", to, "one-in", one_in, "for", lasts] => {
            Step::Garble {
                from: parse_ids(from)?,
                to: parse_ids(to)?,
                how: if *verb == "lose" { Garble::Lose } else { Garble::Double },
                one_in: one_in.parse().ok()?,
                lasts: parse_span(lasts)?,
            }
        }
        ["chain", nodes, "for", lasts] => {
            Step::Chain { nodes: parse_ids(nodes)?, lasts: parse_span(lasts)? }
        }
        ["silence", a, b] => Step::Silence { a: a.parse().ok()?, b: b.parse().ok()? },
        ["reset", a, b] => Step::Reset { a: a.parse().ok()?, b: b.parse().ok()? },
        ["upgrade", node, "for", lasts] => {
            Step::Upgrade { node: node.parse().ok()?, lasts: parse_span(lasts)? }
        }
        ["resign", node] => Step::Resign { node: node.parse().ok()? },
        ["client", client, ask @ .., "at", node, "within", patience] => Step::Ask {
            client: client.parse().ok()?,
            ask: parse_ask(ask)?,
            node: node.parse().ok()?,
            patience: parse_span(patience)?,
        },
        _ => return None,
    })
}

fn parse_ask(words: &[&str]) -> Option<Ask> {
    let key = |text: &str| text.strip_prefix('k')?.parse().ok();
    let when = |text: &str| {
        Some(match text {
            "always" => When::Always,
            "if-absent" => When::Absent,
            "if-present" => When::Present,
            "if-seen" => When::Seen,
            _ => return None,
        })
    };
    Some(match words {
        ["put", k, w, how @ ("stamped" | "plain")] => {
            Ask::Put { key: key(k)?, when: when(w)?, stamped: *how == "stamped" }
        }
        ["delete", k, w, how @ ("stamped" | "plain")] => {
            Ask::Delete { key: key(k)?, when: when(w)?, stamped: *how == "stamped" }
        }
        ["get", k] => Ask::Get { key: key(k)? },
        ["peek", k] => Ask::Peek { key: key(k)? },
        _ => return None,
    })
}
