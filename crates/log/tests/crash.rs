//! Cuts the power at every byte and every call of short histories, recovers, and compares with a
//! model: what is found is a state that existed (T5 of the field reports: the pair of election and
//! log), nothing that was reported durable is missing, and what was not whole is not there.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod common;

use common::{Node, election, formatted};
use quorate_base::{Epoch, Offset, Rng};
use quorate_log::{Election, MemoryDisk, Operation, Options};

/// One planned change.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Records and epoch.
    Append(u64, u32),
    Truncate(u64),
    Elect(u32),
    /// Everything so far becomes durable.
    Run,
}

use Step::{Append, Elect, Run, Truncate};

/// A state that a directory may be found in.
#[derive(Clone, PartialEq, Debug)]
struct State {
    election: Option<Election>,
    log: Vec<u8>,
    epochs: Vec<(Epoch, Offset)>,
}

const SEGMENT_BYTES: u64 = 400;

/// Two batches or three a segment, the second or third of them indexed.
fn options(segment_bytes: u64, tail_bytes: u64) -> Options {
    Options { index_interval_bytes: 100, ..common::options(segment_bytes, tail_bytes) }
}

/// Plays a history on a disk that loses power after some steps. Returns the states that existed and
/// the index of the newest one that was reported durable.
fn play(disk: &MemoryDisk, tail_bytes: u64, history: &[Step]) -> (Vec<State>, usize) {
    let options = options(SEGMENT_BYTES, tail_bytes);
    let (mut node, _) = Node::open(disk.clone(), options).unwrap();
    disk.limit_power(POWER.with(|power| power.get()));
    let mut states = vec![State { election: None, log: Vec::new(), epochs: Vec::new() }];
    let mut batches: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut durable = 0;
    for step in history {
        let mut state = states.last().unwrap().clone();
        match *step {
            Append(records, epoch) => {
                let base = node.log.end();
                node.append(records, epoch, 20);
                batches.push((base.0, common::batch(base, records, Epoch(epoch), 20).to_vec()));
            }
            Truncate(end) => {
                node.truncate(end);
                // Cuts need not be atomic over segments: every batch boundary on the way is a
                // state.
                while batches.last().is_some_and(|(base, _)| *base > end) {
                    batches.pop();
                    state.log = batches.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
                    let log_end = batches.last().map_or(0, |(base, _)| *base + 1);
                    state.epochs.retain(|(_, first)| first.0 < log_end);
                    states.push(state.clone());
                }
                batches.retain(|(base, _)| *base < end);
            }
            Elect(epoch) => {
                node.elect(epoch);
                state.election = Some(election(epoch));
            }
            Run => {
                if node.store.run(&mut node.jobs).is_err() {
                    return (states, durable);
                }
                node.log.durable(node.log.end());
                node.log.check();
                // With nothing in memory the end of a segment that was cut stays unknown until a
                // start.
                if tail_bytes > 0 {
                    common::check_indexes(&disk.fork(), 100);
                }
                durable = states.len() - 1;
                continue;
            }
        }
        state.log = batches.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        state.epochs = node.log.epochs().entries().to_vec();
        states.push(state);
    }
    (states, durable)
}

thread_local! {
    static POWER: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

/// What recovery finds.
fn found(disk: &MemoryDisk, options: &Options) -> State {
    let (mut node, recovery) = Node::open(disk.clone(), options.clone()).unwrap();
    let state = State {
        election: recovery.election.clone(),
        log: node.read(recovery.start.0, recovery.end.0, 1),
        epochs: recovery.epochs.entries().to_vec(),
    };
    common::check_indexes(disk, options.index_interval_bytes);
    // Whoever opens it again finds the same and has nothing to mend.
    let (_, again) = Node::open(disk.clone(), options.clone()).unwrap();
    assert_eq!(again.notes, []);
    assert_eq!((again.end, &again.epochs), (recovery.end, &recovery.epochs));
    // All that was recovered is durable.
    let lost = disk.fork();
    lost.lose_unsynced();
    let (_, after) = Node::open(lost, options.clone()).unwrap();
    assert_eq!((after.end, after.election), (recovery.end, recovery.election));
    state
}

/// Cuts the power everywhere in a history; each time looks at what a kill, a total loss of what was
/// unsynced, and some partial losses leave.
fn cut_everywhere(tail_bytes: u64, history: &[Step]) {
    let options = options(SEGMENT_BYTES, tail_bytes);
    let mut cuts = 0;
    for power in 0.. {
        POWER.set(Some(power));
        let disk = formatted();
        let (states, durable) = play(&disk, tail_bytes, history);
        let finished = disk.power() != Some(0);
        for seed in 0..6 {
            let disk = disk.fork();
            match seed {
                0 => disk.kill(),
                1 => disk.lose_unsynced(),
                _ => disk.crash(&mut Rng::new(power * 6 + seed)),
            }
            let state = found(&disk, &options);
            assert!(
                states[durable..].contains(&state),
                "power {power}, seed {seed}: {durable} of {} states were durable; found election \
                 {:?}, {} bytes, epochs {:?}",
                states.len(),
                state.election,
                state.log.len(),
                state.epochs,
            );
        }
        cuts += 1;
        if finished {
            break;
        }
    }
    assert!(cuts > 500, "the history is worth {cuts} cuts only");
}

#[test]
fn appends_over_segments() {
    let history = [
        Elect(1),
        Append(1, 1),
        Run,
        Append(2, 1),
        Append(1, 1),
        Run,
        Append(3, 1),
        Append(1, 1),
        Append(1, 1),
        Run,
    ];
    cut_everywhere(1 << 20, &history);
}

#[test]
fn elections_between_appends_of_one_group() {
    let history = [
        Elect(1),
        Append(1, 1),
        Append(1, 1),
        Elect(2),
        Append(1, 2),
        Elect(4),
        Append(2, 4),
        Run,
        Append(1, 4),
        Elect(5),
        Run,
    ];
    cut_everywhere(1 << 20, &history);
}

#[test]
fn truncations_within_and_across_segments() {
    let history = [
        Append(1, 1),
        Append(1, 1),
        Append(1, 2),
        Run,
        Append(1, 2),
        Append(1, 2),
        Append(1, 2),
        Truncate(5),
        Append(1, 3),
        Run,
        Elect(4),
        Truncate(2),
        Append(2, 4),
        Append(1, 4),
        Run,
        Truncate(0),
        Append(1, 5),
        Run,
    ];
    cut_everywhere(1 << 20, &history);
}

/// The same with nothing in memory, so that places are looked for on disk.
#[test]
fn truncations_at_places_that_only_the_disk_knows() {
    let history = [
        Append(1, 1),
        Append(1, 1),
        Append(1, 2),
        Run,
        Append(1, 2),
        Append(1, 2),
        Append(1, 2),
        Run,
        Truncate(4),
        Append(1, 3),
        Run,
        Truncate(1),
        Append(2, 4),
        Run,
    ];
    cut_everywhere(0, &history);
}

/// Power fails again while recovery mends what the first failure left.
#[test]
fn a_crash_during_recovery() {
    let history = [
        Append(1, 1),
        Append(1, 1),
        Append(1, 2),
        Append(1, 2),
        Append(1, 3),
        Append(1, 3),
        Run,
        Elect(4),
        Truncate(3),
        Append(3, 4),
        Append(1, 4),
        Run,
    ];
    let options = options(SEGMENT_BYTES, 0);
    let mut again = 0;
    for power in (0..2_000).step_by(7) {
        POWER.set(Some(power));
        let disk = formatted();
        let (states, durable) = play(&disk, 0, &history);
        disk.crash(&mut Rng::new(power));
        for second in 0.. {
            let disk = disk.fork();
            disk.limit_power(Some(second));
            let finished = quorate_log::recover(&mut disk.clone(), &options).is_ok();
            if second % 3 == 0 {
                disk.kill()
            } else {
                disk.crash(&mut Rng::new(second))
            }
            let state = found(&disk, &options);
            assert!(states[durable..].contains(&state), "power {power}, then {second}");
            if finished {
                break;
            }
            again += 1;
        }
    }
    assert!(again > 1_000, "{again} second crashes");
}

/// T32: a write or sync that fails once leaves no hole; after a restart the log goes on.
#[test]
fn a_call_that_fails_once_ends_the_store_and_loses_nothing_that_was_durable() {
    for operation in [Operation::Write, Operation::Sync, Operation::SyncDir, Operation::Rename] {
        let disk = formatted();
        let options = options(SEGMENT_BYTES, 1 << 20);
        let (mut node, _) = Node::open(disk.clone(), options.clone()).unwrap();
        node.append(1, 1, 20);
        node.run();
        disk.fail_next(operation);
        node.append(1, 2, 20);
        let error = node.store.run(&mut node.jobs).unwrap_err().to_string();
        assert!(error.contains("made to fail"), "{operation:?}: {error}");
        disk.kill();
        let (mut node, recovery) = Node::open(disk.clone(), options.clone()).unwrap();
        assert!(recovery.end >= Offset(1), "{operation:?}");
        let end = node.log.end().0;
        node.append(1, 3, 20);
        node.run();
        disk.lose_unsynced();
        let (_, recovery) = Node::open(disk, options).unwrap();
        assert_eq!(recovery.end, Offset(end + 1), "{operation:?}");
    }
}

#[test]
fn a_full_disk_is_an_error_and_its_torn_batch_is_cut() {
    let disk = formatted();
    let options = options(1 << 20, 1 << 20);
    let (mut node, _) = Node::open(disk.clone(), options.clone()).unwrap();
    node.append(1, 1, 20);
    node.run();
    disk.limit_room(Some(50));
    node.append(1, 1, 20);
    let error = node.store.run(&mut node.jobs).unwrap_err().to_string();
    assert!(error.starts_with("cannot write __cluster_metadata-0/0000000000"), "{error}");
    disk.kill();
    let (node, recovery) = Node::open(disk, options).unwrap();
    assert_eq!(node.log.end(), Offset(1));
    let note = recovery.notes[0].to_string();
    assert!(note.contains("position=91 cut=50 end=1 expected 61 bytes, found 50"), "{note}");
}
