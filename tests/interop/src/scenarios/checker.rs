//! The kill loop's history before a checker that shares no code with ours: porcupine, with a model
//! of its own. And both checkers before histories that must be refused.
//!
//! Seeds are new in each run and printed; QUORATE_SEED repeats one.

use crate::histories::{call, lost, random, stale, twice};
use crate::porcupine::Porcupine;
use crate::scenario::{Failure, ensure, seed};
use quorate_base::Rng;
use quorate_kill::history::{Ask, Call, Condition, Told};
use quorate_kill::judge::order;
use quorate_kill::{Options, json, run};
use quorate_sim::linear::Verdict;
use std::fs;
use std::path::Path;

const KILLS: u32 = 12;
/// Random histories on which both checkers must agree.
const HISTORIES: u32 = 5_000;

pub fn accepts_the_kill_loop(
    checker: &Porcupine,
    binary: &Path,
    directory: &Path,
) -> Result<(), Failure> {
    fs::create_dir_all(directory)?;
    let options = Options::new(binary.to_owned(), directory.join("nodes"), seed(), KILLS);
    let summary = run(&options, |_| {})?;
    print!("{summary}");
    ensure(summary.failures.is_empty(), || "our own judges refuse the run".into())?;
    ensure(summary.kills >= KILLS && summary.acknowledged > 0, || "too little happened".into())?;

    let history = json::lines(&summary.history);
    let judged = checker.judge(&history, &directory.join("history.jsonl"))?;
    print!("porcupine: {}", judged.printed);
    ensure(judged.accepted == judged.keys, || "porcupine refuses the run".into())?;
    let all = (summary.keys, summary.calls, summary.unknown);
    let seen = (judged.keys as u32, judged.calls as usize, judged.unknown as usize);
    ensure(all == seen, || format!("of {all:?} keys, calls, unknown it judged {seen:?}"))?;

    let run = &summary.history;
    let lies =
        [("lost write", lost(run)), ("stale read", stale(run)), ("put done twice", twice(run))];
    for (lie, planted) in lies {
        let (key, altered) =
            planted.ok_or_else(|| Failure(format!("the run has no place for a {lie}")))?;
        let file = directory.join(format!("{}.jsonl", lie.replace(' ', "-")));
        let judged = checker.judge(&json::lines(&altered), &file)?;
        ensure(judged.refused.iter().eq([&key]) && judged.undecided == 0, || {
            format!("a {lie} in key {key} goes through:\n{}", judged.printed)
        })?;
        let calls: Vec<&Call> = altered.iter().filter(|call| call.key == key).collect();
        ensure(matches!(order(&calls), Verdict::Not { .. }), || {
            format!("our own checker lets a {lie} in key {key} through")
        })?;
    }
    Ok(())
}

pub fn agrees(checker: &Porcupine, _: &Path, directory: &Path) -> Result<(), Failure> {
    fs::create_dir_all(directory)?;
    let seed = seed();
    println!("{HISTORIES} random histories of seed {seed}");
    let mut rng = Rng::new(seed);
    let known = known();
    let mut histories: Vec<Vec<Call>> =
        (0..HISTORIES).map(|key| random(key, &mut rng.fork())).collect();
    histories.extend(known.iter().map(|(.., history)| history.clone()));
    let calls: Vec<Call> = histories.iter().flatten().cloned().collect();
    let judged = checker.judge(&json::lines(&calls), &directory.join("random.jsonl"))?;
    println!("porcupine: {}", judged.printed.lines().last().unwrap_or_default());
    ensure(judged.undecided == 0 && judged.calls as usize == calls.len(), || {
        "porcupine did not judge all of them".into()
    })?;

    for history in &histories {
        let Some(first) = history.first() else { continue };
        let ours = order(&history.iter().collect::<Vec<_>>());
        let ours = match ours {
            Verdict::Linearizable => true,
            Verdict::Not { .. } => false,
            Verdict::Undecided => return Err(Failure("our checker gave up".into())),
        };
        let theirs = !judged.refused.contains(&first.key);
        ensure(ours == theirs, || {
            let shown: Vec<String> = history.iter().map(ToString::to_string).collect();
            format!("linearizable: we say {ours}, porcupine {theirs}\n{}", shown.join("\n"))
        })?;
    }
    for (why, expect, history) in &known {
        let accepted = !judged.refused.contains(&history[0].key);
        ensure(accepted == *expect, || format!("both checkers are wrong on: {why}"))?;
    }
    let few = u64::from(HISTORIES) / 10;
    ensure(judged.accepted > few && judged.refused.len() as u64 > few, || {
        format!("one-sided: {} accepted, {} refused", judged.accepted, judged.refused.len())
    })
}

/// Histories whose verdict is known, each of a key of its own.
fn known() -> Vec<(&'static str, bool, Vec<Call>)> {
    let put = |value| Ask::Put { value, condition: Condition::Always };
    let delete = Ask::Delete { condition: Condition::Always };
    let found = |version, value| Told::Found { version, value, state: version + 1 };
    let written = |version, previous| Told::Written { version, previous };
    let absent = Told::Absent { state: Some(9) };
    type Line = (u64, u64, Ask, Told);
    let first: Line = (1, 2, put(7), written(4, None));
    let second: Line = (3, 4, put(8), written(5, Some(4)));
    let unknown: Line = (1, 2, put(7), Told::Unknown);
    let histories: Vec<(&'static str, bool, Vec<Line>)> = vec![
        ("an acknowledged write is there", true, vec![first, (3, 4, Ask::Get, found(4, 7))]),
        ("an acknowledged write is lost", false, vec![first, (3, 4, Ask::Get, absent)]),
        ("a stale read", false, vec![first, second, (5, 6, Ask::Get, found(4, 7))]),
        ("a write done twice", false, vec![first, second, (5, 6, Ask::Get, found(6, 7))]),
        (
            "an unknown write done late",
            true,
            vec![unknown, (3, 4, Ask::Get, absent), (5, 6, Ask::Get, found(4, 7))],
        ),
        (
            "an unknown write done twice",
            false,
            vec![
                unknown,
                (3, 4, Ask::Get, found(4, 7)),
                (5, 6, delete, Told::Deleted { at: 5, previous: 4 }),
                (7, 8, Ask::Get, found(6, 7)),
            ],
        ),
        (
            "one unknown write cannot be two versions",
            false,
            vec![unknown, (3, 4, put(8), written(6, Some(5))), (5, 6, put(9), written(8, Some(7)))],
        ),
        (
            "a write done before it was asked for",
            false,
            vec![(1, 2, Ask::Get, found(4, 7)), (3, 4, put(7), Told::Unknown)],
        ),
    ];
    let mut key = HISTORIES;
    let each = histories.into_iter().map(|(why, expect, lines)| {
        let calls = lines
            .into_iter()
            .map(|(begin, end, ask, told)| call(key, begin, end, ask, told))
            .collect();
        key += 1;
        (why, expect, calls)
    });
    each.collect()
}
