//! A seed's plan: which faults happen and how often each, and what the clients ask.
//!
//! Draws only; what a step does to the world is the world's business, and a step that the protocol
//! does not forgive at its time is left out there.

use crate::options::Options;
use crate::plan::{Ask, Broken, Down, Garble, Naming, Step, When};
use crate::seats::Change;
use quorate_base::{Rng, Span, Time};

fn span(rng: &mut Rng, least_ms: u64, most_ms: u64) -> Span {
    Span(least_ms * 1_000 + rng.below((most_ms - least_ms) * 1_000))
}

/// Faults until `heal_ms`: each kind is on or off, and rare or frequent, for the whole run; and
/// some runs have few kinds.
pub(crate) fn faults(options: &Options, rng: &mut Rng) -> Vec<(Time, Step)> {
    let nodes = options.voters + options.observers;
    let until = Time(options.heal_ms * 1_000);
    let on = [2, 4, 6][rng.below(3) as usize];
    // Many faults hide what a single one would show: some runs have cuts and one kind more.
    let few = rng.one_in(3).then(|| [CUT, rng.below(u64::from(KINDS)) as u32]);
    let mut steps = Vec::new();
    for kind in 0..KINDS {
        let mut rng = rng.fork();
        let every = [200, 400, 1_000, 2_500, 6_000][rng.below(5) as usize];
        let happens = match few {
            Some(kinds) => kinds.contains(&kind),
            None => rng.below(8) < on,
        };
        if !happens {
            continue;
        }
        let mut at = Time(0) + span(&mut rng, 1, 2 * every);
        while at < until {
            fault(kind, nodes, at, &mut rng, &mut steps);
            at += span(&mut rng, 1, 2 * every);
        }
    }
    // Two thirds of the older nodes, one after the other or all at once, but for a run in four.
    let mut rng = rng.fork();
    let upgrades = !rng.one_in(4);
    for node in (1..=nodes as u32).filter(|node| options.older >> (node - 1) & 1 == 1) {
        if upgrades && !rng.one_in(3) {
            let at = Time(0) + span(&mut rng, 1, options.heal_ms);
            steps.push((at, Step::Upgrade { node, lasts: span(&mut rng, 1, 600) }));
        }
    }
    steps
}

/// How many kinds of faults there are.
const KINDS: u32 = 21;
/// The one that cuts the network both ways.
const CUT: u32 = 5;

fn fault(kind: u32, nodes: u64, at: Time, rng: &mut Rng, steps: &mut Vec<(Time, Step)>) {
    let node = 1 + rng.below(nodes) as u32;
    let lasts = match rng.below(3) {
        0 => span(rng, 1, 50),
        1 => span(rng, 50, 600),
        _ => span(rng, 300, 2_500),
    };
    let step = match kind {
        0 => Step::Crash { node, how: Down::Power, lasts },
        1 => Step::Crash { node, how: Down::Kill, lasts },
        2 => Step::Crash { node, how: Down::Stop, lasts },
        3 => Step::Pause { node, lasts },
        4 => Step::Slow { node, by: span(rng, 5, 300), lasts },
        CUT | 6 => {
            let (from, to) = parts(node, nodes, rng);
            Step::Cut { from, to, both: kind == CUT, lasts }
        }
        7 => Step::Reset { a: node, b: other(node, nodes, rng) },
        8 => Step::Resign { node },
        9 => {
            let room = [0, 100, 1_000, 5_000][rng.below(4) as usize];
            // Disks that are filled alike are full together.
            if rng.one_in(4) {
                let all = (1..=nodes as u32).map(|node| (at, Step::Fill { node, room, lasts }));
                steps.extend(all);
                return;
            }
            Step::Fill { node, room, lasts }
        }
        10 => {
            let what = Broken::NAMES[rng.below(4) as usize].0;
            Step::Fail { node, what, lasts }
        }
        // A disk that does nothing at all for a while.
        11 => Step::Slow { node, by: lasts, lasts },
        12 => Step::Wipe { node, lasts },
        // Mostly under a running node (an even number): it has to find out by itself.
        13 => Step::Rot { node, at: rng.below(1 << 32) & if rng.one_in(4) { !0 } else { !1 } },
        14 => {
            let most = [20, 1_000, 100_000][rng.below(3) as usize];
            Step::Clock { node, by: span(rng, 1, most), back: rng.one_in(2) }
        }
        15 => Step::Flood { node, lasts },
        17 | 18 => {
            let (from, to) = parts(node, nodes, rng);
            let how = if kind == 17 { Garble::Lose } else { Garble::Double };
            Step::Garble { from, to, how, one_in: [1, 4, 20][rng.below(3) as usize], lasts }
        }
        19 => {
            let mut row: Vec<u32> = (1..=nodes as u32).collect();
            for at in (1..row.len()).rev() {
                row.swap(at, rng.below(at as u64 + 1) as usize);
            }
            Step::Chain { nodes: row, lasts }
        }
        20 => Step::Silence { a: node, b: other(node, nodes, rng) },
        // A storm of restarts: of one node, or of all.
        _ => {
            let (one, mut at) = (rng.one_in(2), at);
            for _ in 0..3 + rng.below(12) {
                let node = if one { node } else { 1 + rng.below(nodes) as u32 };
                let how = if rng.one_in(2) { Down::Power } else { Down::Kill };
                steps.push((at, Step::Crash { node, how, lasts: span(rng, 1, 60) }));
                at += span(rng, 1, 150);
            }
            return;
        }
    };
    steps.push((at, step));
}

/// One node alone and the others, in either order, or any two parts.
fn parts(node: u32, nodes: u64, rng: &mut Rng) -> (Vec<u32>, Vec<u32>) {
    let (alone, first) = (rng.one_in(2), rng.one_in(2));
    let here = |id: &u32| if alone { (*id == node) == first } else { rng.one_in(2) };
    (1..=nodes as u32).partition(here)
}

/// Another node than this one, if there is one.
fn other(node: u32, nodes: u64, rng: &mut Rng) -> u32 {
    1 + (u64::from(node) + rng.below(nodes - 1)) as u32 % nodes as u32
}

/// What administrators ask of the voters, until the faults end.
pub(crate) fn changes(options: &Options, rng: &mut Rng) -> Vec<(Time, Step)> {
    let mut steps = Vec::new();
    // Static voters refuse all of it.
    if options.dynamic == 0 && !rng.one_in(12) {
        return steps;
    }
    let until = Time(options.heal_ms * 1_000);
    let nodes = options.voters + options.observers;
    let every = [100, 250, 600, 1_500][rng.below(4) as usize];
    let wrong = [2, 8, 40][rng.below(3) as usize];
    let mut at = Time(0) + span(rng, 1, 2 * every);
    while at < until {
        // Two at once, now and then.
        let count = if rng.one_in(6) { 2 } else { 1 };
        for _ in 0..count {
            let node = 1 + rng.below(nodes) as u32;
            if rng.one_in(12) {
                steps.push((at, Step::Replace { node, lasts: span(rng, 1, 300) }));
                continue;
            }
            if rng.one_in(12) {
                steps.push((at, Step::Move { node, lasts: span(rng, 1, 300) }));
                continue;
            }
            let change = if rng.one_in(2) { Change::Add } else { Change::Remove };
            let asks = rng.one_in(4).then(|| 1 + rng.below(nodes) as u32);
            let when_committed = change == Change::Remove || !rng.one_in(3);
            let namings = if change == Change::Add { 3 } else { 2 };
            let naming = match rng.one_in(wrong) {
                true => Naming::NAMES[1 + rng.below(namings) as usize].0,
                false => Naming::Right,
            };
            steps.push((at, Step::Change { change, node, asks, when_committed, naming }));
        }
        // Whoever appends it may be alone with it.
        if rng.one_in(10) {
            let alone = 1 + rng.below(nodes) as u32;
            let others = (1..=nodes as u32).filter(|node| *node != alone).collect();
            let (from, lasts) = (vec![alone], span(rng, 100, 1_500));
            let cut = Step::Cut { from, to: others, both: true, lasts };
            steps.push((at + span(rng, 0, 8), cut));
        }
        at += span(rng, 1, 2 * every);
    }
    steps
}

/// Older builds that are upgraded, or come back, and what is asked of the format level, until the
/// faults end.
pub(crate) fn levels(options: &Options, rng: &mut Rng) -> Vec<(Time, Step)> {
    let (mut steps, nodes) = (Vec::new(), options.voters + options.observers);
    let old = options.older | options.level_zero;
    if old == 0 && !rng.one_in(4) {
        return steps;
    }
    let heal_ms = options.heal_ms;
    for node in (1..=nodes as u32).filter(|node| old >> (node - 1) & 1 == 1) {
        if !rng.one_in(4) {
            let at = Time(0) + span(rng, 1, heal_ms / 2);
            steps.push((at, Step::Upgrade { node, lasts: span(rng, 1, 300) }));
        }
    }
    let every = [200, 600, 1_500][rng.below(3) as usize];
    let (returns, mut at) = (rng.one_in(3), Time(0) + span(rng, 1, 2 * every));
    while at < Time(heal_ms * 1_000) {
        let level = if rng.one_in(10) { 2 * rng.below(2) as u16 } else { 1 };
        let asks = rng.one_in(5).then(|| 1 + rng.below(nodes) as u32);
        steps.push((at, Step::Raise { level, asks, validate_only: rng.one_in(5) }));
        if returns && rng.one_in(4) {
            let (node, lasts) = (1 + rng.below(nodes) as u32, span(rng, 1, 300));
            steps.push((at, Step::Downgrade { node, lasts }));
            let back = at + span(rng, 300, 2_500);
            steps.push((back, Step::Upgrade { node, lasts: span(rng, 1, 100) }));
        }
        at += span(rng, 1, 2 * every);
    }
    steps
}

/// What clients ask, until the faults end.
pub(crate) fn workload(options: &Options, rng: &mut Rng) -> Vec<(Time, Step)> {
    let until = Time(options.heal_ms * 1_000);
    let nodes = options.voters + options.observers;
    let keys = [1, 3, 8][rng.below(3) as usize];
    let stamped = [0, 1, 2][rng.below(3) as usize];
    let every_ms = [8, 30, 80][rng.below(3) as usize] * options.clients;
    let mut steps = Vec::new();
    for client in 1..=options.clients as u32 {
        let mut rng = rng.fork();
        let mut at = Time(0) + span(&mut rng, 1, 2 * every_ms);
        while at < until {
            let key = rng.below(keys) as u32;
            let when = match rng.below(8) {
                0 => When::Absent,
                1 => When::Present,
                2 | 3 => When::Seen,
                _ => When::Always,
            };
            let stamped = rng.below(2) < stamped;
            let ask = match rng.below(10) {
                0..4 => Ask::Put { key, when, stamped },
                4 => Ask::Delete { key, when, stamped },
                5 => Ask::Peek { key },
                _ => Ask::Get { key },
            };
            let node = 1 + rng.below(nodes) as u32;
            let longest = [100, 1_000, 4_000][rng.below(3) as usize];
            let patience = span(&mut rng, 20, longest);
            steps.push((at, Step::Ask { client, ask, node, patience }));
            at += span(&mut rng, 1, 2 * every_ms);
        }
    }
    steps
}
