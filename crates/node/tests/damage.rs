//! A bit of an old record flips on the disk of a running leader: the follower that asks for it gets
//! it all the same, from the next leader, and the old one begins anew.

#![allow(clippy::unwrap_used)]

mod world;

use quorate_machine::Machine;
use world::{SEGMENT, World};

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
    // Its start reads everything, and says what is damaged.
    let refused = world.start(old).unwrap_err().to_string();
    assert!(refused.contains(SEGMENT), "{refused}");
}
