//! Reads the text of a plan, as a person may have edited it: what is wrong is said with its line,
//! with what is expected there, and with the form of the whole line.
//!
//! Takes nothing that would be without meaning: a number out of its range, a node that there is
//! not, a step after the faults. The form of each kind of step is in [`FORMS`].

use super::{Ask, Broken, Down, Garble, Naming, Plan, Step, When, parse_seed};
use crate::near::nearest;
use crate::options::Options;
use crate::seats::Change;
use quorate_base::{Span, Time};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

/// Why a text is no plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BadPlan {
    /// It has no line `seed …`.
    NoSeed,
    /// A line is no part of a plan.
    Line {
        /// Its number, from 1.
        line: usize,
        /// The line.
        text: String,
        /// What is wrong with it.
        fault: Fault,
    },
}

/// What is wrong with a line of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// No line begins so.
    Begin(String),
    /// No step has this name.
    Step(String),
    /// No number of the world has this name.
    Name(String),
    /// A word is not what has to stand there.
    Word {
        /// The word; `None` if the line ends before it.
        found: Option<String>,
        /// What may stand there.
        expected: String,
        /// How the line is written.
        form: &'static str,
    },
    /// The line goes on after its end.
    Beyond {
        /// The first word too many.
        found: String,
        /// How the line is written.
        form: &'static str,
    },
    /// An earlier line says it already.
    Twice {
        /// That line's number.
        before: usize,
    },
    /// The faults have ended by then, so it would never happen.
    Late {
        /// When they end.
        heal_ms: u64,
    },
}

/// How a line with the seed is written.
const SEED: &str = "seed HEX";
/// How a line with a number of the world is written.
const SET: &str = "set NAME NUMBER";
/// What a time looks like.
const TIME: &str = "a time such as 2s, 1.5s, 300ms or 40us";
/// The longest time, a little less than twelve days.
const LONGEST: u64 = 1_000_000 * 1_000_000;
/// Keys from here on are the world's own.
const KEYS: u64 = 1_000;

/// How each kind of step is written. Its name is the first word after the time.
const FORMS: [(&str, &str); 26] = [
    ("power", "TIME power NODE for TIME"),
    ("kill", "TIME kill NODE for TIME"),
    ("stop", "TIME stop NODE for TIME"),
    ("pause", "TIME pause NODE for TIME"),
    ("slow", "TIME slow NODE by TIME for TIME"),
    ("fill", "TIME fill NODE leaving BYTES for TIME"),
    ("fail", "TIME fail NODE write|sync|sync-dir|rename for TIME"),
    ("wipe", "TIME wipe NODE for TIME"),
    ("rot", "TIME rot NODE at NUMBER"),
    ("clock", "TIME clock NODE forward|back TIME"),
    ("flood", "TIME flood NODE for TIME"),
    ("cut", "TIME cut NODES | NODES for TIME, or TIME cut NODES > NODES for TIME"),
    ("lose", "TIME lose NODES > NODES one-in NUMBER for TIME"),
    ("double", "TIME double NODES > NODES one-in NUMBER for TIME"),
    ("chain", "TIME chain NODES for TIME"),
    ("silence", "TIME silence NODE NODE"),
    ("reset", "TIME reset NODE NODE"),
    ("resign", "TIME resign NODE"),
    ("upgrade", "TIME upgrade NODE for TIME"),
    ("downgrade", "TIME downgrade NODE for TIME"),
    ("raise", "TIME raise NUMBER at NODE dry|really, or TIME raise NUMBER at leader dry|really"),
    (
        "add",
        "TIME add NODE at NODE committed|early right|wrong|no-directory|no-listener, or TIME add NODE at leader committed|early right|wrong|no-directory|no-listener",
    ),
    (
        "remove",
        "TIME remove NODE at NODE right|wrong|no-directory, or TIME remove NODE at leader right|wrong|no-directory",
    ),
    ("replace", "TIME replace NODE for TIME"),
    ("move", "TIME move NODE for TIME"),
    ("client", "TIME client CLIENT put|delete|get|peek KEY … at NODE within TIME"),
];
/// How a client writes.
const WRITE: &str = "TIME client CLIENT put|delete KEY always|if-absent|if-present|if-seen \
                   stamped|plain at NODE within TIME";
/// How a client reads.
const READ: &str = "TIME client CLIENT get|peek KEY at NODE within TIME";

/// See [`Plan::parse`].
pub(super) fn parse(text: &str) -> Result<Plan, BadPlan> {
    let mut plan = Plan { seed: 0, options: Options::default(), steps: Vec::new() };
    let lines: Vec<Line<'_>> = text.lines().zip(1..).map(Line::new).collect();
    // The numbers first: what a step may name depends on them.
    let mut said: BTreeMap<&str, &Line<'_>> = BTreeMap::new();
    for line in &lines {
        let name = match line.words[..] {
            ["seed", ..] => "seed",
            ["set", name, ..] => name,
            ["set"] => "",
            _ => continue,
        };
        plan.number(line).map_err(|fault| line.bad(fault))?;
        if let Some(before) = said.insert(name, line) {
            return Err(line.bad(Fault::Twice { before: before.number }));
        }
    }
    if !said.contains_key("seed") {
        return Err(BadPlan::NoSeed);
    }
    if let Some(line) = said.get("older") {
        plan.older(line).map_err(|fault| line.bad(fault))?;
    }
    let steps = |line: &&Line<'_>| !matches!(line.words[..], [] | ["seed" | "set", ..]);
    for line in lines.iter().filter(steps) {
        let step = plan.step(line).map_err(|fault| line.bad(fault))?;
        plan.steps.push(step);
    }
    plan.steps.sort_by_key(|(at, _)| *at);
    Ok(plan)
}

/// A line of the text.
struct Line<'a> {
    number: usize,
    text: &'a str,
    words: Vec<&'a str>,
}

impl<'a> Line<'a> {
    fn new((text, number): (&'a str, usize)) -> Line<'a> {
        let said = text.split('#').next().unwrap_or_default();
        Line { number, text: text.trim(), words: said.split_whitespace().collect() }
    }

    fn bad(&self, fault: Fault) -> BadPlan {
        BadPlan::Line { line: self.number, text: self.text.to_owned(), fault }
    }
}

impl Plan {
    /// A line with the seed or a number of the world.
    fn number(&mut self, line: &Line<'_>) -> Result<(), Fault> {
        let mut words = Words { left: line.words.iter(), form: SEED, nodes: 0 };
        if words.next() == Some("seed") {
            self.seed = words.take("a seed, 1 to 16 hexadecimal digits", parse_seed)?;
            return words.end();
        }
        words.form = SET;
        let name = words.take("the name of a number", |name| Some(name.to_owned()))?;
        let Some((place, range)) = self.options.entry(&name) else {
            return Err(Fault::Name(name));
        };
        *place = words.number(range)?;
        words.end()
    }

    /// `set older` names nodes that there are.
    fn older(&self, line: &Line<'_>) -> Result<(), Fault> {
        let nodes = self.nodes();
        match self.options.older >> nodes {
            0 => Ok(()),
            _ => Err(Fault::Word {
                found: line.words.last().map(|word| (*word).to_owned()),
                expected: format!("bits of nodes 1 to {nodes}, 0 to {}", (1_u64 << nodes) - 1),
                form: SET,
            }),
        }
    }

    /// A line with a step.
    fn step(&self, line: &Line<'_>) -> Result<(Time, Step), Fault> {
        let [first, rest @ ..] = &line.words[..] else { return Err(Fault::Begin(String::new())) };
        let at = parse_span(first).ok_or_else(|| Fault::Begin((*first).to_owned()))?;
        let name = rest.first().copied().unwrap_or_default();
        let Some((_, form)) = FORMS.iter().find(|(known, _)| *known == name) else {
            return Err(Fault::Step(name.to_owned()));
        };
        let mut words = Words { left: rest[1..].iter(), form, nodes: self.nodes() as u64 };
        let step = match name {
            "cut" | "lose" | "double" | "chain" => words.network(name)?,
            "client" => words.client(self.options.clients)?,
            "add" => words.change(Change::Add)?,
            "remove" => words.change(Change::Remove)?,
            "raise" => words.raise()?,
            _ => words.on_a_node(name)?,
        };
        words.end()?;
        let heal_ms = self.options.heal_ms;
        match at.0 <= heal_ms * 1_000 {
            true => Ok((Time(at.0), step)),
            false => Err(Fault::Late { heal_ms }),
        }
    }
}

/// The words of a line that were not read yet.
struct Words<'a> {
    left: std::slice::Iter<'a, &'a str>,
    form: &'static str,
    nodes: u64,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        self.left.next().copied()
    }

    fn wrong(&self, found: Option<&str>, expected: impl Into<String>) -> Fault {
        let (found, expected) = (found.map(str::to_owned), expected.into());
        Fault::Word { found, expected, form: self.form }
    }

    /// The next word, if it can be read.
    fn take<T>(
        &mut self,
        expected: impl Into<String>,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Fault> {
        let word = self.next();
        word.and_then(read).ok_or_else(|| self.wrong(word, expected))
    }

    /// One of these words.
    fn one_of<T: Copy>(&mut self, words: &[(&str, T)]) -> Result<T, Fault> {
        let names: Vec<String> = words.iter().map(|(name, _)| format!("`{name}`")).collect();
        self.take(names.join(" or "), |word| {
            words.iter().find(|(name, _)| *name == word).map(|(_, what)| *what)
        })
    }

    fn word(&mut self, word: &str) -> Result<(), Fault> {
        self.one_of(&[(word, ())])
    }

    fn number(&mut self, range: RangeInclusive<u64>) -> Result<u64, Fault> {
        let expected = match *range.end() {
            u64::MAX if *range.start() == 0 => "a number".to_owned(),
            u64::MAX => format!("a number from {} on", range.start()),
            end => format!("a number, {} to {end}", range.start()),
        };
        self.take(expected, |word| word.parse().ok().filter(|number| range.contains(number)))
    }

    fn node(&mut self) -> Result<u32, Fault> {
        let nodes = self.nodes;
        self.take(format!("a node, 1 to {nodes}"), |word| node(word, nodes))
    }

    /// Nodes, none of them twice.
    fn nodes(&mut self) -> Result<Vec<u32>, Fault> {
        let nodes = self.nodes;
        let expected = format!("nodes such as 1,2 (each 1 to {nodes}, none twice), or `none`");
        self.take(expected, |word| {
            let read = word.split(',').map(|id| node(id, nodes)).collect();
            let read: Vec<u32> = if word == "none" { Some(Vec::new()) } else { read }?;
            let twice = read.iter().enumerate().any(|(at, id)| read[..at].contains(id));
            (!twice).then_some(read)
        })
    }

    fn span(&mut self) -> Result<Span, Fault> {
        self.take(TIME, parse_span)
    }

    /// `for TIME`.
    fn lasts(&mut self) -> Result<Span, Fault> {
        self.word("for")?;
        self.span()
    }

    /// No more words.
    fn end(&mut self) -> Result<(), Fault> {
        match self.next() {
            Some(word) => Err(Fault::Beyond { found: word.to_owned(), form: self.form }),
            None => Ok(()),
        }
    }

    /// Whom an administrator asks: a node, or `None` for the leader.
    fn asks(&mut self) -> Result<Option<u32>, Fault> {
        let nodes = self.nodes;
        self.take(format!("a node, 1 to {nodes}, or `leader`"), |word| match word {
            "leader" => Some(None),
            word => Some(Some(self::node(word, nodes)?)),
        })
    }

    fn raise(&mut self) -> Result<Step, Fault> {
        let level = self.number(0..=u64::from(u16::MAX >> 1))? as u16;
        self.word("at")?;
        let asks = self.asks()?;
        let validate_only = self.one_of(&[("dry", true), ("really", false)])?;
        Ok(Step::Raise { level, asks, validate_only })
    }

    /// Steps between nodes.
    fn network(&mut self, name: &str) -> Result<Step, Fault> {
        let from = self.nodes()?;
        if name == "chain" {
            return Ok(Step::Chain { nodes: from, lasts: self.lasts()? });
        }
        if name == "cut" {
            let both = self.one_of(&[("|", true), (">", false)])?;
            return Ok(Step::Cut { from, both, to: self.nodes()?, lasts: self.lasts()? });
        }
        self.word(">")?;
        let to = self.nodes()?;
        self.word("one-in")?;
        let one_in = self.number(1..=u64::MAX)?;
        let how = if name == "lose" { Garble::Lose } else { Garble::Double };
        Ok(Step::Garble { from, to, how, one_in, lasts: self.lasts()? })
    }

    /// Steps whose first word is a node.
    fn on_a_node(&mut self, name: &str) -> Result<Step, Fault> {
        let node = self.node()?;
        Ok(match name {
            "power" => Step::Crash { node, how: Down::Power, lasts: self.lasts()? },
            "kill" => Step::Crash { node, how: Down::Kill, lasts: self.lasts()? },
            "stop" => Step::Crash { node, how: Down::Stop, lasts: self.lasts()? },
            "pause" => Step::Pause { node, lasts: self.lasts()? },
            "wipe" => Step::Wipe { node, lasts: self.lasts()? },
            "flood" => Step::Flood { node, lasts: self.lasts()? },
            "downgrade" => Step::Downgrade { node, lasts: self.lasts()? },
            "upgrade" => Step::Upgrade { node, lasts: self.lasts()? },
            "replace" => Step::Replace { node, lasts: self.lasts()? },
            "move" => Step::Move { node, lasts: self.lasts()? },
            "resign" => Step::Resign { node },
            "silence" => Step::Silence { a: node, b: self.node()? },
            "reset" => Step::Reset { a: node, b: self.node()? },
            "slow" => {
                self.word("by")?;
                Step::Slow { node, by: self.span()?, lasts: self.lasts()? }
            }
            "fill" => {
                self.word("leaving")?;
                Step::Fill { node, room: self.number(0..=u64::MAX)?, lasts: self.lasts()? }
            }
            "fail" => {
                let what = self.one_of(&Broken::NAMES.map(|(broken, name)| (name, broken)))?;
                Step::Fail { node, what, lasts: self.lasts()? }
            }
            "rot" => {
                self.word("at")?;
                Step::Rot { node, at: self.number(0..=u64::MAX)? }
            }
            "clock" => {
                let back = self.one_of(&[("forward", false), ("back", true)])?;
                Step::Clock { node, by: self.span()?, back }
            }
            _ => return Err(Fault::Step(name.to_owned())),
        })
    }

    /// Another voter, or one less.
    fn change(&mut self, change: Change) -> Result<Step, Fault> {
        let node = self.node()?;
        self.word("at")?;
        let asks = self.asks()?;
        let adds = change == Change::Add;
        let when_committed = match adds {
            true => self.one_of(&[("committed", true), ("early", false)])?,
            false => true,
        };
        // Where one listens that is to go, nobody asks.
        let namings = if adds { &Naming::NAMES[..] } else { &Naming::NAMES[..3] };
        let namings: Vec<_> = namings.iter().map(|(naming, name)| (*name, *naming)).collect();
        Ok(Step::Change { change, node, asks, when_committed, naming: self.one_of(&namings)? })
    }

    /// What a client asks.
    fn client(&mut self, clients: u64) -> Result<Step, Fault> {
        let client = self.take(format!("a client, 1 to {clients}"), |word| node(word, clients))?;
        let verbs = ["put", "delete", "get", "peek"].map(|verb| (verb, verb));
        let verb = self.one_of(&verbs)?;
        self.form = if ["put", "delete"].contains(&verb) { WRITE } else { READ };
        let key = self.take(format!("a key, k0 to k{}", KEYS - 1), |word| {
            word.strip_prefix('k')?.parse().ok().filter(|key| u64::from(*key) < KEYS)
        })?;
        let ask = match verb {
            "get" => Ask::Get { key },
            "peek" => Ask::Peek { key },
            _ => {
                let when = self.one_of(&[
                    ("always", When::Always),
                    ("if-absent", When::Absent),
                    ("if-present", When::Present),
                    ("if-seen", When::Seen),
                ])?;
                let stamped = self.one_of(&[("stamped", true), ("plain", false)])?;
                match verb {
                    "put" => Ask::Put { key, when, stamped },
                    _ => Ask::Delete { key, when, stamped },
                }
            }
        };
        self.word("at")?;
        let node = self.node()?;
        self.word("within")?;
        Ok(Step::Ask { client, ask, node, patience: self.span()? })
    }
}

fn node(word: &str, nodes: u64) -> Option<u32> {
    word.parse().ok().filter(|node| (1..=nodes).contains(&u64::from(*node)))
}

/// A time with its unit: seconds with up to six decimals, milliseconds with up to three, or
/// microseconds.
pub fn parse_span(text: &str) -> Option<Span> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
    let decimals = match &text[digits.len()..] {
        "s" => 6,
        "ms" => 3,
        "us" => 0,
        _ => return None,
    };
    let (whole, part) = match digits.split_once('.') {
        Some((_, "")) => return None,
        Some((whole, part)) => (whole, part),
        None => (digits, ""),
    };
    if part.len() > decimals || !(part.bytes().chain(whole.bytes())).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let micros: u64 = format!("{part:0<decimals$}0").parse::<u64>().ok()? / 10;
    let micros = whole.checked_mul(10_u64.pow(decimals as u32))?.checked_add(micros)?;
    (micros <= LONGEST).then_some(Span(micros))
}

impl fmt::Display for BadPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadPlan::NoSeed => {
                write!(f, "no line gives the seed; write one such as `seed 4f1c`")
            }
            BadPlan::Line { line, text, fault } => write!(f, "line {line}: {text}\n  {fault}"),
        }
    }
}

impl std::error::Error for BadPlan {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meant = |f: &mut fmt::Formatter<'_>, near: Option<&str>| match near {
            Some(near) => write!(f, " (is `{near}` meant?)"),
            None => Ok(()),
        };
        match self {
            Fault::Begin(word) => {
                write!(f, "`{word}` begins no line: write `{SEED}`, `{SET}`, or {TIME} and a step")
            }
            Fault::Step(word) => {
                let names = FORMS.map(|(name, _)| name);
                match word.is_empty() {
                    true => write!(f, "no step follows the time")?,
                    false => write!(f, "`{word}` is no step")?,
                }
                meant(f, nearest(word, names))?;
                write!(f, "; steps are {}", names.join(", "))
            }
            Fault::Name(name) => {
                let names = Options::default().entries();
                write!(f, "no number of the world is called `{name}`")?;
                meant(f, nearest(name, names.iter().map(|(name, _)| *name)))?;
                write!(f, "; a plan of any seed has all of them (`--plan`)")
            }
            Fault::Word { found: Some(word), expected, form } => {
                write!(
                    f,
                    "`{word}` stands where this is expected: {expected}\n  it is written {form}"
                )
            }
            Fault::Word { found: None, expected, form } => {
                write!(f, "it ends where this is expected: {expected}\n  it is written {form}")
            }
            Fault::Beyond { found, form } => {
                write!(f, "`{found}` is too much\n  it is written {form}")
            }
            Fault::Twice { before } => write!(f, "line {before} says this already; keep one"),
            Fault::Late { heal_ms } => {
                write!(f, "it would never happen: all faults end at {heal_ms} ms (`set heal_ms`)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a plan with this line as its third.
    fn said(line: &str) -> String {
        let text = format!("# three nodes, four clients, 8 s\nseed 1\n{line}\n");
        match Plan::parse(&text) {
            Ok(plan) => format!("taken: {plan}"),
            Err(bad @ BadPlan::Line { line: 3, .. }) => {
                let said = bad.to_string();
                let said = said.strip_prefix(&format!("line 3: {line}\n  "));
                said.unwrap_or_else(|| panic!("{bad}")).replace("\n  ", "; ")
            }
            Err(bad) => bad.to_string(),
        }
    }

    #[test]
    fn a_line_that_is_wrong_is_told_what_is_expected_there() {
        for (line, tells) in [
            // The seed and the numbers.
            ("seed xyz", "`xyz` stands where this is expected: a seed"),
            (
                "seed 11112222333344445",
                "`11112222333344445` stands where this is expected: a seed, 1 to 16 hex",
            ),
            ("seed", "it ends where this is expected: a seed"),
            ("seed 2", "line 2 says this already"),
            (
                "set voterz 3",
                "no number of the world is called `voterz` (is `voters` meant?); a plan of any",
            ),
            ("set qqqqqqq 3", "no number of the world is called `qqqqqqq`; a plan of any seed"),
            ("set voters", "it ends where this is expected: a number, 1 to 15"),
            ("set voters 0", "`0` stands where this is expected: a number, 1 to 15"),
            ("set voters 1000", "`1000` stands where this is expected: a number, 1 to 15"),
            ("set voters -1", "`-1` stands where this is expected: a number"),
            ("set voters 3 4", "`4` is too much; it is written set NAME NUMBER"),
            ("set older 8", "`8` stands where this is expected: bits of nodes 1 to 3, 0 to 7"),
            ("set", "it ends where this is expected: the name of a number"),
            // What begins a line, and which step it is.
            ("power 2 for 1s", "`power` begins no line: write `seed HEX`, `set NAME NUMBER`, or a"),
            ("1.5 power 2 for 1s", "`1.5` begins no line"),
            ("1s", "no step follows the time; steps are power, kill"),
            ("1s explode 2", "`explode` is no step; steps are power, kill"),
            ("1s sIlence 1 2", "`sIlence` is no step (is `silence` meant?); steps"),
            ("9s kill 1 for 1s", "it would never happen: all faults end at 8000 ms"),
            // Words, times, nodes.
            (
                "1s power 2",
                "it ends where this is expected: `for`; it is written TIME power NODE for",
            ),
            ("1s power 2 for", "it ends where this is expected: a time such as 2s, 1.5s"),
            ("1s power 2 for 1.5", "`1.5` stands where this is expected: a time such as"),
            (
                "1s power 2 for 1.1234567s",
                "`1.1234567s` stands where this is expected: a time such as",
            ),
            (
                "1s power 2 for 99999999s",
                "`99999999s` stands where this is expected: a time such as",
            ),
            ("1s power 5 for 1s", "`5` stands where this is expected: a node, 1 to 3"),
            ("1s power 0 for 1s", "`0` stands where this is expected: a node, 1 to 3"),
            ("1s power 2 for 1s soon", "`soon` is too much; it is written TIME power NODE"),
            ("1s kill", "it ends where this is expected: a node, 1 to 3"),
            ("1s reset 1", "it ends where this is expected: a node"),
            ("1s silence 1 x", "`x` stands where this is expected: a node"),
            ("1s slow 1 for 1s", "`for` stands where this is expected: `by`"),
            ("1s fill 1 leaving few for 1s", "`few` stands where this is expected: a number"),
            (
                "1s fail 1 read for 1s",
                "`read` stands where this is expected: `write` or `sync` or `sync-dir` or",
            ),
            ("1s rot 1 on 5", "`on` stands where this is expected: `at`"),
            ("1s clock 1 on 5s", "`on` stands where this is expected: `forward` or `back`"),
            ("1s cut 1,2 - 3 for 1s", "`-` stands where this is expected: `|` or `>`"),
            (
                "1s cut 1,4 | 3 for 1s",
                "`1,4` stands where this is expected: nodes such as 1,2 (each 1 to 3, none",
            ),
            ("1s cut 1,1 | 3 for 1s", "`1,1` stands where this is expected: nodes such as"),
            ("1s lose 1 | 3 one-in 2 for 1s", "`|` stands where this is expected: `>`"),
            (
                "1s lose 1 > 3 one-in 0 for 1s",
                "`0` stands where this is expected: a number from 1 on",
            ),
            ("1s chain 1, 2 for 1s", "`1,` stands where this is expected: nodes"),
            // Clients.
            (
                "1s client 5 get k0 at 1 within 1s",
                "`5` stands where this is expected: a client, 1 to 4",
            ),
            (
                "1s client 1 take k0 at 1 within 1s",
                "`take` stands where this is expected: `put` or `delete` or",
            ),
            (
                "1s client 1 put k3 at 2 within 1s",
                "`at` stands where this is expected: `always` or `if-absent` or",
            ),
            (
                "1s client 1 put k3 always at 2 within 1s",
                "`at` stands where this is expected: `stamped` or `plain`",
            ),
            (
                "1s client 1 get 3 at 2 within 1s",
                "`3` stands where this is expected: a key, k0 to k999",
            ),
            (
                "1s client 1 get k1000 at 2 within 1s",
                "`k1000` stands where this is expected: a key",
            ),
            (
                "1s client 1 get k3 always at 2 within 1s",
                "`always` stands where this is expected: `at`; it is written TIME client CLIENT get|peek KEY at NODE within TIME",
            ),
            // Voters.
            ("1s add 4 at leader early right", "`4` stands where this is expected: a node, 1 to 3"),
            (
                "1s add 3 at any early right",
                "`any` stands where this is expected: a node, 1 to 3, or `leader`",
            ),
            (
                "1s add 3 at 1 right",
                "`right` stands where this is expected: `committed` or `early`",
            ),
            (
                "1s remove 3 at leader no-listener",
                "`no-listener` stands where this is expected: `right` or `wrong` or `no-directory`;",
            ),
            ("1s replace 3", "it ends where this is expected: `for`"),
            ("1s client 1 get k3 at 2", "it ends where this is expected: `within`"),
        ] {
            let said = said(line);
            assert!(said.starts_with(tells), "{line}: {said}");
        }
    }

    #[test]
    fn a_plan_without_a_seed_is_none() {
        for text in ["", "# seed 1\n", "set voters 3\n1s kill 1 for 1s\n"] {
            assert_eq!(Plan::parse(text), Err(BadPlan::NoSeed), "{text}");
        }
    }

    #[test]
    fn times_have_a_unit_and_no_more_digits_than_microseconds() {
        for (text, micros) in [
            ("1s", 1_000_000),
            ("1.5s", 1_500_000),
            ("1.500000s", 1_500_000),
            ("0.000001s", 1),
            ("1500ms", 1_500_000),
            ("0.25ms", 250),
            ("40us", 40),
            ("0s", 0),
        ] {
            assert_eq!(parse_span(text), Some(Span(micros)), "{text}");
        }
        let none =
            ["", "s", "1", ".5s", "1.s", "-1s", "+1s", "1.5us", "1.2345ms", "1 s", "1m", "1.2.3s"];
        for text in none.into_iter().chain(["18446744073709551615s", "1e3s"]) {
            assert_eq!(parse_span(text), None, "{text}");
        }
    }

    #[test]
    fn neither_the_order_of_lines_nor_comments_mean_anything() {
        let plain = "seed 1\nset voters 5\n1.000000s kill 5 for 2.000000s\n\
                     3.000000s cut none > 1,2 for 0.100000s\n";
        let edited = "# why\n3s cut none > 1,2 for 100ms # soon over\n\n  1s kill 5 for 2s#\n\
                      set voters 5\nseed 0x1\n";
        assert_eq!(Plan::parse(edited), Plan::parse(plain));
        assert!(Plan::parse(plain).is_ok());
    }

    /// The form that is shown is one that is taken.
    #[test]
    fn each_step_is_taken_as_its_form_has_it() {
        for (name, form) in FORMS.into_iter().chain([("client", WRITE), ("client", READ)]) {
            let mut shown = 0;
            for form in form.split(", or ").filter(|form| !form.contains('…')) {
                let line: Vec<&str> = form
                    .split_whitespace()
                    .map(|word| match word {
                        "TIME" => "1s",
                        "NODE" => "2",
                        "NODES" => "1,2",
                        "CLIENT" => "3",
                        "KEY" => "k1",
                        "BYTES" | "NUMBER" => "7",
                        word => word.split('|').find(|part| !part.is_empty()).unwrap_or("|"),
                    })
                    .collect();
                let plan = Plan::parse(&format!("seed 1\n{}", line.join(" ")));
                assert_eq!(plan.map(|plan| plan.steps.len()), Ok(1), "{name}: {form}");
                shown += 1;
            }
            assert!(shown > 0 || name == "client");
        }
    }
}
