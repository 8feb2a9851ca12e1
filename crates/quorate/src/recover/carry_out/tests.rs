//! What `carry_out` leaves of a directory that is cut short anywhere, that is damaged anywhere, or
//! that lacks a file: with the survey and the plan that a person's next run would make of it.

use super::super::survey::look;
use super::super::{Copied, Facts, Wish, plan};
use super::*;
use quorate_base::{Epoch, OffsetEpoch, Rng, Uuid};
use quorate_log::{
    Founding, MemoryDisk, Meta, Mode, SnapshotWriter, found, read_topic, repair, show_recovered,
};

const RECORDS: u64 = 40;
const SKIP: u64 = 5;
const ID: Uuid = Uuid::METADATA_TOPIC;

fn uuid(byte: u8) -> Uuid {
    Uuid([byte; 16])
}

fn partition() -> Options {
    options(&Topic { name: "t".into(), id: ID })
}

/// A static voter of three, with a vote in epoch 5 and records of epoch 4.
fn used(options: &Options, founding: &Founding) -> MemoryDisk {
    let mut disk = MemoryDisk::default();
    let meta = Meta { cluster: "c".into(), node: ReplicaId(1), directory: Some(uuid(1)) };
    found(&mut disk, &options.partition, &meta, ID, founding).unwrap();
    let recovery = repair(&mut disk, options, |_| false).unwrap();
    let mut log = Log::open(options.clone(), &recovery);
    let mut store = Store::open(disk.clone(), options, &recovery).unwrap();
    let voters: Vec<ReplicaId> = (1..=3).map(ReplicaId).collect();
    let election = Election { epoch: Epoch(4), leader: None, voted: None, voters };
    let mut batch = BatchBuilder::new(Offset::ZERO, Epoch(4), 1);
    (0..RECORDS).for_each(|_| batch.record(Some(b"key"), Some(b"value"), &[]));
    let end = batch.end();
    let mut jobs = vec![
        log.election(&election),
        log.append(Offset::ZERO, end, Epoch(4), batch.finish()),
        log.election(&Election { epoch: Epoch(5), ..election }),
    ];
    store.run(&mut jobs).unwrap();
    disk
}

/// Node 1 goes on alone; few offsets are passed over, for there are many runs.
fn alone() -> Wish {
    let voters = vec!["1@a:1".parse().unwrap()];
    Wish { voters, listener: "CONTROLLER".into(), skip: Some(SKIP), ..Wish::default() }
}

fn planned(facts: Facts) -> Plan {
    let copy = Copied { directory: "unused".into(), found: Ok(facts) };
    plan(&[copy], &alone()).unwrap()
}

/// The whole of the command on a disk.
fn run(disk: &mut MemoryDisk, options: &Options) -> Result<(Plan, Done), Error> {
    let plan = planned(look(disk.clone(), options, ID)?);
    let work = Work { plan: &plan, options: options.clone(), topic: ID, timestamp_ms: 2 };
    let done = work.carry(disk)?;
    Ok((plan, done))
}

fn bytes(disk: &MemoryDisk, path: &str) -> Vec<u8> {
    let mut reader = disk.clone();
    let file = reader.open(path, Mode::Read).unwrap();
    let mut bytes = vec![0; reader.len(&file).unwrap() as usize];
    reader.read(&file, 0, &mut bytes).unwrap();
    bytes
}

/// What must be true of a directory after a run that came to its end, whatever was before.
fn assert_recovered(disk: &MemoryDisk, before: &MemoryDisk, options: &Options, why: &str) {
    let (mut disk, partition) = (disk.fork(), &options.partition);
    assert_eq!(unfinished_recovery(&mut disk, partition).unwrap(), None, "{why}");
    let told = recoveries(&mut disk, partition).unwrap();
    let [told] = &told[..] else { panic!("{why}: {told:?}") };
    let facts = look(disk.clone(), options, ID).unwrap();
    assert!(facts.damage.is_empty(), "{why}: {facts:?}");
    assert_eq!(told.lost_from, Some(Offset(RECORDS)), "{why}");
    assert!(told.resumes_at >= Offset(RECORDS + OWN_RECORDS + SKIP), "{why}: {told:?}");
    assert_eq!((facts.last, facts.voter_ids()), {
        (OffsetEpoch::new(told.resumes_at, told.epoch), vec![ReplicaId(1)])
    });
    // A start finds nothing to mend, and may lead.
    let found = repair(&mut disk, options, |_| false).unwrap();
    assert!(found.notes.is_empty() && found.must_reach.is_none(), "{why}: {:?}", found.notes);
    let election = found.election.unwrap();
    assert_eq!((election.epoch, election.leader), (told.epoch, Some(ReplicaId(1))), "{why}");
    assert_eq!(read_topic(&mut disk, partition).unwrap(), ID);
    // Nothing of the log went, and what was before lies beside it.
    let log = format!("{partition}/00000000000000000000.log");
    let old = bytes(before, &log);
    assert!(bytes(&disk, &log).starts_with(&old), "{why}");
    for name in ["00000000000000000000.log", "quorum-state"] {
        let kept = format!("{partition}/{name}.before-epoch-{}", told.kept);
        assert_eq!(bytes(&disk, &kept), bytes(before, &format!("{partition}/{name}")), "{why}");
    }
}

/// What is left after a cut: a log that no node starts on, or the one that there was, or all.
fn assert_left(disk: &MemoryDisk, before: &MemoryDisk, options: &Options, why: &str) {
    let (mut disk, before) = (disk.fork(), look(before.fork(), options, ID).unwrap());
    let begun = unfinished_recovery(&mut disk, &options.partition).unwrap();
    let facts = look(disk.clone(), options, ID).unwrap();
    assert!(facts.last.offset >= Offset(RECORDS) && facts.last.epoch <= facts.epoch, "{why}");
    // The voters come last: whoever knows nothing of the note elects nobody before.
    let all = Offset(RECORDS + OWN_RECORDS + SKIP);
    assert!(facts.last.offset >= all || facts.voters.is_empty(), "{why}: {facts:?}");
    let whole = facts.last.offset >= all && !facts.recovered.is_empty();
    let untouched = facts.last == before.last && facts.election == before.election;
    assert!(begun.is_some() || whole || untouched, "{why}: {facts:?}");
}

/// The next epoch, with a vote for itself.
fn stand(disk: &MemoryDisk, options: &Options) {
    let recovery = repair(&mut disk.clone(), options, |_| false).unwrap();
    let log = Log::open(options.clone(), &recovery);
    let mut store = Store::open(disk.clone(), options, &recovery).unwrap();
    let election = recovery.election.unwrap();
    let epoch = Epoch(election.epoch.0 + 1);
    let voted = Some(quorate_base::ReplicaKey::new(ReplicaId(1), None));
    store.run(&mut vec![log.election(&Election { epoch, voted, ..election })]).unwrap();
}

/// Cut short anywhere, once or several times, and run again until it comes to its end: the loss is
/// that of the first run, no version and no epoch comes twice, what was there is kept.
#[test]
fn a_recovery_that_is_cut_short_is_run_again() {
    let options = partition();
    let before = used(&options, &Founding::default());
    let whole = before.fork();
    whole.limit_power(Some(1 << 40));
    run(&mut whole.clone(), &options).unwrap();
    let steps = (1 << 40) - whole.power().unwrap();
    assert_recovered(&whole, &before, &options, "uncut");
    let (mut cuts, mut begun, mut started) = (0, 0, 0);
    for power in 0..steps {
        let mut rng = Rng::new(power);
        let (mut disk, mut before) = (before.fork(), before.fork());
        let mut limit = power;
        let mut epoch = Epoch(5);
        for round in 0.. {
            let why = format!("power {power}, round {round}");
            disk.limit_power(Some(limit));
            match run(&mut disk.clone(), &options) {
                Ok((plan, _)) => {
                    assert!(plan.epoch > epoch, "{why}");
                    break;
                }
                Err(Error::Io { .. }) => {}
                Err(error) => panic!("{why}: {error}"),
            }
            cuts += 1;
            disk = disk.fork();
            match (power + round) % 4 {
                0 => disk.lose_unsynced(),
                1 => disk.kill(),
                _ => disk.crash(&mut rng),
            }
            assert_left(&disk, &before, &options, &why);
            if let Some(left) = unfinished_recovery(&mut disk, &options.partition).unwrap() {
                assert!(left.epoch > epoch || round > 0, "{why}");
                epoch = epoch.max(left.epoch);
                begun += 1;
            } else if rng.below(2) == 0
                && recoveries(&mut disk, &options.partition).unwrap().is_empty()
            {
                // A node may start on what is as it was, and stands for election in vain.
                stand(&disk, &options);
                (before, started) = (disk.fork(), started + 1);
            }
            limit = if round < 2 { rng.below(steps) } else { 1 << 40 };
        }
        disk.heal();
        // One that was cut behind its end is a second one, if it is run again.
        if recoveries(&mut disk, &options.partition).unwrap().len() == 1 {
            assert_recovered(&disk, &before, &options, &format!("power {power}"));
        }
    }
    assert!(cuts > 1_000 && begun > 500 && started > 500, "{cuts} cuts, {begun}, {started}");
}

/// The smallest input of what was found: no room behind the voters, room, run again.
#[test]
fn a_recovery_that_finds_no_room_is_run_again() {
    let options = partition();
    let before = used(&options, &Founding::default());
    let (mut failed, mut begun) = (0, 0);
    for room in (0..).step_by(7) {
        let mut disk = before.fork();
        disk.limit_room(Some(room));
        let why = format!("room {room}");
        let Err(error) = run(&mut disk, &options) else { break };
        assert!(matches!(error, Error::Io { .. }), "{why}: {error}");
        failed += 1;
        // The command ended, the machine did not.
        assert_left(&disk, &before, &options, &why);
        begun += u32::from(unfinished_recovery(&mut disk, &options.partition).unwrap().is_some());
        disk.limit_room(None);
        let (plan, done) = run(&mut disk, &options).unwrap();
        assert_recovered(&disk, &before, &options, &why);
        assert!(done.kept.iter().all(|(path, _)| !path.ends_with(".tmp")), "{done:?}");
        // What is kept needs no room a second time, however many runs it took.
        let names = disk.list(&options.partition).unwrap();
        let kept = names.iter().filter_map(|name| name.split_once(".before-epoch-"));
        let epochs: Vec<&str> = kept.map(|(_, epoch)| epoch).collect();
        assert_eq!(epochs, vec![plan.kept.to_string(); done.kept.len()], "{why}");
    }
    assert!(failed > 50 && begun > 20, "{failed} failed, {begun} of them begun");
}

/// A second one has lost nothing; what the first one lost is lost all the same.
#[test]
fn what_an_earlier_recovery_lost_is_still_told_after_another() {
    let options = partition();
    let mut disk = used(&options, &Founding::default());
    run(&mut disk, &options).unwrap();
    let (plan, _) = run(&mut disk, &options).unwrap();
    assert_eq!((plan.loss, plan.before.len()), (None, 1));
    let told = recoveries(&mut disk, &options.partition).unwrap();
    let lost: Vec<Option<Offset>> = told.iter().map(|by| by.lost_from).collect();
    assert_eq!(lost, [Some(Offset(RECORDS)), None]);
    assert!(told[0].epoch < told[1].epoch && told[0].resumes_at < told[1].resumes_at);
}

#[test]
fn the_marker_is_documented_and_told_at_a_start() {
    let salvage = Salvage {
        kept: Epoch(1_000_006),
        epoch: Epoch(1_000_006),
        lost_from: Some(Offset(40)),
        resumes_at: Offset(1_000_043),
        time_ms: 1_796_050_696_806,
        voters: "1@a.example:9093:dP9DCmJHzi2tQ-b3VuMiuw".into(),
    };
    let text = show_recovered(std::slice::from_ref(&salvage));
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/FORMATS.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(&format!("```text\n{text}```\n")), "{text}");

    let folder = std::env::temp_dir().join(format!("quorate-marker-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("t-0")).unwrap();
    assert_eq!(recovered(&folder, "t"), Vec::<String>::new());
    let told = |text: &str| {
        std::fs::write(folder.join("t-0").join(RECOVERY_FILES[1]), text).unwrap();
        recovered(&folder, "t")
    };
    let whole = Salvage { lost_from: None, ..salvage.clone() };
    let [lossy, whole] = &told(&show_recovered(&[salvage, whole]))[..] else { panic!() };
    assert!(lossy.contains("from offset 40 on") && lossy.contains("at offset 1000043"), "{lossy}");
    assert!(whole.contains("nothing was lost"), "{whole}");
    assert!(told("version=1\n").is_empty(), "half of it says nothing");
    std::fs::remove_dir_all(folder).unwrap();
}

/// With first voters, a snapshot, and a log: all that a directory may have.
fn with_snapshot(options: &Options) -> MemoryDisk {
    let at = crate::HostPort { host: "a".into(), port: 1 };
    let first = crate::InitialController { id: ReplicaId(1), at, directory: uuid(1) };
    let voters = head("C", std::slice::from_ref(&first));
    let founding = Founding { voters: voters.clone(), ..Founding::default() };
    let disk = used(options, &founding);
    let id = OffsetEpoch::new(Offset(RECORDS), Epoch(4));
    let snapshot = SnapshotWriter::create(disk.clone(), &options.partition, id, 1, &voters);
    snapshot.unwrap().freeze().unwrap();
    disk
}

/// Whatever byte of whatever file has changed: a survey ends, changes nothing, and does not
/// call a log whole that is shorter than it was; what is damaged can be recovered from as far
/// as it says. Only whose the directory is nobody can guess.
#[test]
fn no_changed_byte_makes_a_copy_whole_and_short_or_useless() {
    let options = partition();
    let (mut looked, mut refused, mut damaged) = (0, 0, 0);
    for disk in [used(&options, &Founding::default()), with_snapshot(&options)] {
        let whole = look(disk.fork(), &options, ID).unwrap();
        assert_eq!((whole.last.offset, whole.damage.len()), (Offset(RECORDS), 0), "{whole:?}");
        for path in quorate_log::files(&disk, "").unwrap() {
            let old = bytes(&disk, &path);
            // Most of the mark's file is room between its slots.
            for at in (0..old.len()).filter(|at| old.len() < 2_000 || at % 64 < 48) {
                let mut changed = old.clone();
                changed[at] ^= 1 << (at % 8);
                let rotten = disk.fork();
                rotten.put(&path, &changed);
                looked += 1;
                match look(rotten.clone(), &options, ID) {
                    Err(error) => {
                        refused += 1;
                        assert_eq!(path, "meta.properties", "byte {at}: {error}");
                    }
                    Ok(facts) if facts.damage.is_empty() => {
                        let same = facts.last == whole.last && facts.meta.node == whole.meta.node;
                        assert!(same || path == "meta.properties", "{path} {at}: {facts:?}");
                    }
                    Ok(facts) => {
                        damaged += 1;
                        assert_saved(&rotten, &options, &facts, &format!("{path} {at}"));
                    }
                }
                assert!(bytes(&rotten, &path) == changed, "{path} was changed by a look");
            }
        }
    }
    assert!(looked > 3_000 && refused > 50 && damaged > 600, "{looked} {refused} {damaged}");
}

/// What is right of a damaged directory goes on, and a node starts with it.
fn assert_saved(rotten: &MemoryDisk, options: &Options, facts: &Facts, why: &str) {
    let mut mended = rotten.fork();
    let (plan, _) = run(&mut mended, options).unwrap();
    assert_eq!(plan.loss, Some(facts.last.offset), "{why}");
    // Whoever starts on it finds nothing wrong, and may lead.
    let found = repair(&mut mended, options, |_| false).unwrap();
    assert_eq!((found.end, found.must_reach), (plan.resumes(), None), "{why}");
    assert_eq!(found.election.unwrap().epoch, plan.epoch, "{why}");
    assert_eq!(read_topic(&mut mended, &options.partition).unwrap(), ID, "{why}");
    let after = look(mended, options, ID).unwrap();
    assert!(after.damage.is_empty() && after.voter_ids() == [ReplicaId(1)], "{why}: {after:?}");
}

/// Whatever file is missing: a snapshot or the log is enough.
#[test]
fn what_lacks_a_file_is_recovered_from_as_far_as_the_others_reach() {
    let options = partition();
    let disk = with_snapshot(&options);
    let mut saved = 0;
    for path in quorate_log::files(&disk, "").unwrap() {
        if path == "meta.properties" {
            continue;
        }
        let mut without = disk.fork();
        without.remove(&path).unwrap();
        without.sync_dir(path.rsplit_once('/').map_or("", |(dir, _)| dir)).unwrap();
        let facts = look(without.clone(), &options, ID).unwrap();
        assert_eq!(facts.last.offset, Offset(RECORDS), "{path}: {facts:?}");
        let kept = ["quorum-state", ".log"].iter().any(|name| path.ends_with(name));
        assert!(!facts.damage.is_empty() || !kept, "{path} is a loss");
        let renamed = facts.replaced.len() == 1;
        assert_eq!(renamed, path.ends_with("partition.metadata"), "{path}: {facts:?}");
        let mut mended = without.fork();
        let (plan, _) = run(&mut mended, &options).unwrap();
        let found = repair(&mut mended, &options, |_| false).unwrap();
        assert_eq!((found.end, found.must_reach), (plan.resumes(), None), "{path}");
        assert_eq!(read_topic(&mut mended, &options.partition).unwrap(), ID, "{path}");
        saved += 1;
    }
    assert!(saved > 7, "{saved} files");

    // Neither a record nor a snapshot.
    let mut nothing = used(&options, &Founding::default());
    nothing.remove(&format!("{}/00000000000000000000.log", options.partition)).unwrap();
    let none = look(nothing, &options, ID).unwrap_err();
    assert!(matches!(none, Error::Lost { .. }), "{none}");
}
