//! What `/status` remembers of a node's roles: each change once.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod world;

use quorate_node::status::RoleChange;
use world::World;

#[test]
fn a_change_of_role_that_comes_with_a_leader_is_told_once() {
    let mut world = World::new(3, |_| {});
    (1..=3).for_each(|id| world.start(id).unwrap());
    for _ in 0..4 {
        world.until("somebody leads", |world| world.leader().is_some());
        let leader = world.leader().unwrap();
        world.stop(leader);
        world.until("another leads", |world| world.leader().is_some_and(|next| next != leader));
        world.start(leader).unwrap();
        world.until("the old one follows", |world| {
            world.nodes[&leader].replica.view().leader.is_some()
        });
    }
    let mut followed = 0;
    for (id, node) in &world.nodes {
        let changes = node.replica.status().changes;
        followed += changes.iter().filter(|change| change.role == "follower").count();
        let same =
            |pair: &[RoleChange]| RoleChange { at_ms: pair[1].at_ms, ..pair[0].clone() } == pair[1];
        assert!(!changes.windows(2).any(same), "node {id}: {changes:#?}");
    }
    assert!(followed >= 4, "only {followed} times did one follow");
}
