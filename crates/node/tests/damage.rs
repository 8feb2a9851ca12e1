//! A bit of an old record flips on the disk of a running leader: the follower that asks for it gets
//! it all the same, from the next leader, and the old one begins anew and repairs itself. So does a
//! node that finds the damage when it starts, if others have what it lost.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod world;

use quorate_base::Span;
use quorate_log::Disk;
use quorate_machine::Machine;
use quorate_node::start::StartError;
use quorate_node::status::PlaceInLog;
use world::{Node, SEGMENT, World};

#[test]
fn a_leader_with_a_damaged_record_hands_over_and_the_follower_gets_it_from_the_next() {
    let mut world = World::new(3, |_| {});
    (1..=3).for_each(|id| world.start(id).unwrap());
    world.until("somebody leads", |world| world.leader().is_some());
    let old = world.leader().unwrap();
    let late = (1..=3).find(|id| *id != old).unwrap();
    world.stop(late);
    for number in 0..20 {
        world.put(old, number);
    }
    let end = world.nodes[&old].replica.view().end;
    world.disks[old as usize - 1].flip_bit(SEGMENT, 2_000, 0);
    world.start(late).unwrap();
    world.until("the late one has all", |world| {
        world.nodes[&late].replica.applied() >= end && world.leader().is_some()
    });
    assert_eq!(world.anew.len(), 1, "{:?}", world.anew);
    let (who, why) = &world.anew[0];
    assert_eq!(*who, old);
    assert!(why.contains(SEGMENT) && why.contains("checksum"), "{why}");
    assert_ne!(world.leader(), Some(old));
    let digests: Vec<u64> =
        world.nodes.values().map(|node| node.replica.machine().digest()).collect();
    assert_eq!(digests.len(), 2);
    assert_eq!(digests[0], digests[1]);
    // Its start reads everything, and sets aside what is damaged.
    world.start(old).unwrap();
    let notes = &world.notes;
    let told = |note: &String| note.contains(SEGMENT) && note.contains("is not elected");
    assert!(notes.iter().any(told), "{notes:?}");
    let lost = world.nodes[&old].replica.view();
    assert!(lost.end < end && lost.must_reach.is_some_and(|reach| reach.offset >= end));
    let told = world.nodes[&old].replica.status().must_reach.unwrap();
    assert_eq!(Some(told), lost.must_reach.map(PlaceInLog::from));
    world.until("the old leader has all again", |world| {
        let node = &world.nodes[&old].replica;
        node.applied() >= end && node.view().must_reach.is_none()
    });
    assert_eq!(world.nodes[&old].replica.machine().digest(), digests[0]);
}

/// It votes for nobody that lacks what it held before it has that again, and remembers that over
/// starts.
#[test]
fn a_node_whose_log_is_damaged_at_a_start_elects_nobody_that_lacks_what_it_held() {
    let mut world = World::new(3, |_| {});
    (1..=3).for_each(|id| world.start(id).unwrap());
    world.until("somebody leads", |world| world.leader().is_some());
    let leader = world.leader().unwrap();
    let [damaged, other] = [1, 2].map(|more| (leader + more - 1) % 3 + 1);
    world.stop(other);
    for number in 0..20 {
        world.put(leader, number);
    }
    let end = world.nodes[&leader].replica.view().end;
    world
        .until("the follower has all", |world| world.nodes[&damaged].replica.view().durable >= end);
    world.stop(damaged);
    world.stop(leader);
    world.disks[damaged as usize - 1].flip_bit(SEGMENT, 1_500, 0);
    // The two that are left have no majority that knows what was acknowledged.
    world.start(other).unwrap();
    world.start(damaged).unwrap();
    assert!(!world.notes.is_empty());
    for _ in 0..2 {
        let until = world.now + Span::ms(60_000);
        while world.now < until {
            world.round();
            assert_eq!(world.leader(), None);
        }
        let status = world.nodes[&damaged].replica.status();
        let (why, reach) = (status.not_ready_because.unwrap(), status.must_reach.unwrap());
        assert!(why.contains("the leader has not answered"), "{why}");
        let place = format!("back at offset {} of epoch {}", reach.offset, reach.epoch);
        assert!(why.contains(&place) && why.contains("start the voters that are down"), "{why}");
        assert!(why.contains(&status.damaged.unwrap()), "{why}");
        world.stop(damaged);
        world.start(damaged).unwrap();
        assert_eq!(world.notes, [""; 0]);
        assert!(world.nodes[&damaged].replica.view().must_reach.is_some());
    }
    world.start(leader).unwrap();
    world.until("everybody has all again", |world| {
        let has = |node: &Node| node.replica.applied() >= end;
        world.leader() == Some(leader) && world.nodes.values().all(has)
    });
    assert_eq!(world.nodes[&damaged].replica.view().must_reach, None);
}

/// Of three voters two are damaged, and the third does not have what they held.
#[test]
fn two_damaged_voters_say_why_there_is_no_leader_and_what_to_do() {
    let mut world = World::new(3, |_| {});
    (1..=3).for_each(|id| world.start(id).unwrap());
    world.until("somebody leads", |world| world.leader().is_some());
    let leader = world.leader().unwrap();
    let [follower, behind] = [1, 2].map(|more| (leader + more - 1) % 3 + 1);
    world.stop(behind);
    (0..20).for_each(|number| world.put(leader, number));
    let end = world.nodes[&leader].replica.view().end;
    world.until("it has all", |world| world.nodes[&follower].replica.view().durable >= end);
    for id in [follower, leader] {
        world.stop(id);
        world.disks[id as usize - 1].flip_bit(SEGMENT, 1_500, 0);
    }
    (1..=3).for_each(|id| world.start(id).unwrap());
    let until = world.now + Span::ms(30_000);
    while world.now < until {
        world.round();
        assert_eq!(world.leader(), None);
    }
    for (id, node) in &world.nodes {
        let status = node.replica.status();
        let why = status.not_ready_because.unwrap();
        let silent = ["no leader is known", "the leader has not answered", "does not answer"];
        assert!(silent.iter().any(|silent| why.contains(silent)), "{id}: {why}");
        let says = why.contains("was damaged") && why.contains("put the directory of one back");
        assert_eq!(says, *id != behind, "{id}: {why}");
        assert_eq!(status.damaged.is_some(), *id != behind, "{id}");
    }
}

#[test]
fn the_only_voter_refuses_and_says_why_and_what_to_do() {
    let mut world = World::new(1, |_| {});
    world.start(1).unwrap();
    world.until("it leads", |world| world.leader().is_some());
    for number in 0..20 {
        world.put(1, number);
    }
    world.stop(1);
    world.disks[0].flip_bit(SEGMENT, 2_000, 0);
    let before = world.disks[0].contents(SEGMENT).unwrap();
    for _ in 0..2 {
        let refused = world.start(1).unwrap_err();
        assert!(matches!(refused, StartError::Alone { .. }), "{refused}");
        let refused = refused.to_string();
        for part in [SEGMENT, "checksum", "the only voter", "quorate log verify", "from a copy"] {
            assert!(refused.contains(part), "{refused}");
        }
    }
    assert_eq!(world.disks[0].contents(SEGMENT).unwrap(), before);
    assert!(world.disks[0].contents("__cluster_metadata-0/quorate-must-reach").is_none());
}

/// Without the vote that it gave, a node could give a second one; a repair does not change that.
#[test]
fn a_damaged_log_without_its_election_state_is_refused() {
    let mut world = World::new(3, |_| {});
    (1..=3).for_each(|id| world.start(id).unwrap());
    world.until("somebody leads", |world| world.leader().is_some());
    let leader = world.leader().unwrap();
    (0..20).for_each(|number| world.put(leader, number));
    world.stop(leader);
    let disk = world.disks[leader as usize - 1].clone();
    disk.clone().remove("__cluster_metadata-0/quorum-state").unwrap();
    disk.flip_bit(SEGMENT, 70, 0);
    for _ in 0..2 {
        let refused = world.start(leader).unwrap_err().to_string();
        assert!(refused.contains("quorum-state"), "{refused}");
    }
}
