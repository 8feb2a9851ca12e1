//! The format level of a store (P79): at which level it begins, when it is raised and when not, and
//! what becomes of nodes that are older than it.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod world;

use quorate_base::{FormatLevel, Span};
use quorate_machine::Machine;
use quorate_node::FORMAT_FEATURE;
use quorate_node::config::{Cleanup, Config};
use quorate_raft::RoleName;
use quorate_wire::ErrorCode;
use quorate_wire::message::{
    AddRaftVoterRequest, AddRaftVoterResponse, ApiVersionsRequest, ApiVersionsResponse,
    FeatureUpdate, Listener, UpdateFeaturesRequest, UpdateFeaturesResponse,
};
use world::World;

const OLD: FormatLevel = FormatLevel(0);
const NEW: FormatLevel = FormatLevel(1);

fn level(world: &World, id: u32) -> FormatLevel {
    world.nodes[&id].replica.machine().format_level().unwrap()
}

/// Voters, all of which speak these levels; the first leader of them.
fn world(speak: &[FormatLevel], tune: fn(&mut Config)) -> (World, u32) {
    let mut world = World::new(speak.len() as u32, tune);
    for (id, newest) in (1..).zip(speak) {
        world.levels.insert(id, *newest);
        world.start(id).unwrap();
    }
    let leader = led(&mut world);
    (world, leader)
}

/// Who leads all nodes that run.
fn led(world: &mut World) -> u32 {
    world.until("all follow one leader", |world| {
        let leader = world.leader();
        let follows = |(id, node): (&u32, &world::Node)| {
            let view = node.replica.view();
            Some(*id) == leader || view.leader.map(|leader| leader.0) == leader
        };
        leader.is_some() && world.nodes.iter().all(follows)
    });
    world.leader().unwrap()
}

fn update(feature: &str, level: i16) -> UpdateFeaturesRequest {
    let feature_updates = vec![FeatureUpdate {
        feature: feature.to_owned(),
        max_version_level: level,
        ..FeatureUpdate::default()
    }];
    UpdateFeaturesRequest { feature_updates, ..UpdateFeaturesRequest::default() }
}

fn ask(world: &mut World, of: u32, request: UpdateFeaturesRequest) -> (ErrorCode, String) {
    let answer: UpdateFeaturesResponse = world.exchange(of, request);
    (answer.error_code, answer.error_message.unwrap_or_default())
}

/// Asks until it is done; a leader has to hear all voters first.
fn raise(world: &mut World, to: i16) {
    for _ in 0..100 {
        let leader = led(world);
        let (code, words) = ask(world, leader, update(FORMAT_FEATURE, to));
        if code == ErrorCode::None {
            return;
        }
        assert!(words.contains("has not told"), "{code:?}: {words}");
        world.round();
    }
    panic!("the voters tell nothing");
}

/// A refusal with these words, which changes nothing.
fn refused(world: &mut World, of: u32, request: UpdateFeaturesRequest, phrase: &str) -> ErrorCode {
    let before = level(world, of);
    let (code, words) = ask(world, of, request);
    assert!(code != ErrorCode::None && words.contains(phrase), "{code:?}: {words}");
    assert_eq!(level(world, of), before);
    code
}

#[track_caller]
fn everywhere(world: &mut World, at: FormatLevel) {
    world
        .until("all have applied it", |world| world.nodes.keys().all(|id| level(world, *id) == at));
}

/// Until every voter has told the leader that it speaks the new level.
fn all_have_told(world: &mut World, leader: u32) {
    world.until("all have told", |world| {
        let view = world.nodes[&leader].replica.view();
        view.followers.iter().all(|voter| voter.format_level == Some(NEW))
    });
}

/// A process of another build takes the place of this one.
fn becomes(world: &mut World, id: u32, newest: FormatLevel) {
    world.stop(id);
    world.levels.insert(id, newest);
    world.start(id).unwrap();
}

#[test]
fn an_empty_store_begins_at_the_newest_level_of_its_first_leader() {
    let (mut world, leader) = world(&[NEW; 3], |_| {});
    everywhere(&mut world, NEW);
    world.put(leader, 1);
    // Behind the leader's own record lies that of the level, and behind it the first write.
    assert_eq!(world.nodes[&leader].replica.view().end.0, 3);
    (1..=3).for_each(|id| becomes(&mut world, id, NEW));
    led(&mut world);
    everywhere(&mut world, NEW);
}

#[test]
fn a_store_of_older_nodes_is_raised_once_all_speak_it() {
    let (mut world, leader) = world(&[OLD; 3], |_| {});
    world.put(leader, 1);
    everywhere(&mut world, OLD);
    refused(&mut world, leader, update(FORMAT_FEATURE, 1), "its newest is 0");
    for id in 1..=3 {
        let leader = led(&mut world);
        if level(&world, leader) == OLD && world.levels[&leader] == NEW {
            refused(&mut world, leader, update(FORMAT_FEATURE, 1), "every voter has to speak");
        }
        becomes(&mut world, id, NEW);
    }
    let leader = led(&mut world);
    world.put(leader, 2);
    everywhere(&mut world, OLD);
    let dry = UpdateFeaturesRequest { validate_only: true, ..update(FORMAT_FEATURE, 1) };
    all_have_told(&mut world, leader);
    assert_eq!(ask(&mut world, leader, dry), (ErrorCode::None, String::new()));
    assert_eq!(level(&world, leader), OLD, "only asked whether");
    raise(&mut world, 1);
    assert_eq!(level(&world, leader), NEW, "answered once it is committed and applied");
    everywhere(&mut world, NEW);
    let end = world.nodes[&leader].replica.view().end;
    assert_eq!(
        ask(&mut world, leader, update(FORMAT_FEATURE, 1)),
        (ErrorCode::None, String::new())
    );
    assert_eq!(world.nodes[&leader].replica.view().end, end, "nothing is written twice");
    refused(&mut world, leader, update(FORMAT_FEATURE, 0), "never goes back");
    refused(&mut world, leader, update(FORMAT_FEATURE, 2), "its newest is 1");
    let mut down = update(FORMAT_FEATURE, 0);
    down.feature_updates[0].upgrade_type = 3;
    assert_eq!(refused(&mut world, leader, down, "goes up only"), ErrorCode::InvalidRequest);
    let follower = (1..=3).find(|id| *id != leader).unwrap();
    let code =
        refused(&mut world, follower, update(FORMAT_FEATURE, 1), &format!("ask node {leader}"));
    assert_eq!(code, ErrorCode::NotController);
}

#[test]
fn a_raise_names_the_voters_that_are_older_and_those_that_are_silent() {
    let (mut world, leader) = world(&[OLD; 5], |_| {});
    world.put(leader, 1);
    // All but the last two, of which one is away.
    world.stop(5);
    (1..=3).for_each(|id| becomes(&mut world, id, NEW));
    let mut leader = led(&mut world);
    while world.levels[&leader] == OLD {
        becomes(&mut world, leader, OLD);
        world.until("another leads", |world| world.leader().is_some_and(|id| id != leader));
        leader = led(&mut world);
    }
    world.until("all have told", |world| {
        let view = world.nodes[&leader].replica.view();
        view.followers.iter().filter(|voter| voter.format_level.is_some()).count() == 3
    });
    let (code, words) = ask(&mut world, leader, update(FORMAT_FEATURE, 1));
    assert_eq!(code, ErrorCode::InvalidUpdateVersion);
    let told =
        "node 4 speaks quorate.format up to 0, node 5 has not told this leader what it speaks";
    assert!(words.contains(told), "{words}");
    world.levels.insert(5, NEW);
    world.start(5).unwrap();
    becomes(&mut world, 4, NEW);
    raise(&mut world, 1);
    everywhere(&mut world, NEW);
}

#[test]
fn an_older_node_that_comes_back_stops_itself_and_goes_on_once_upgraded() {
    let (mut world, leader) = world(&[OLD; 3], |_| {});
    world.put(leader, 1);
    (1..=3).for_each(|id| becomes(&mut world, id, NEW));
    raise(&mut world, 1);
    everywhere(&mut world, NEW);
    let leader = led(&mut world);
    world.put(leader, 2);
    let old = (1..=3).find(|id| *id != leader).unwrap();
    for _ in 0..2 {
        becomes(&mut world, old, OLD);
        let before = world.too_old.len();
        world.until("it stops", |world| world.too_old.len() > before);
        let (id, words) = world.too_old.last().unwrap();
        assert_eq!(*id, old);
        for phrase in ["at quorate.format 1", "speaks up to 0", "Start a build"] {
            assert!(words.contains(phrase), "{words}");
        }
        let leader = led(&mut world);
        world.put(leader, 3);
    }
    becomes(&mut world, old, NEW);
    led(&mut world);
    let leader = world.leader().unwrap();
    world.until("it has all", |world| {
        world.nodes[&old].replica.applied() == world.nodes[&leader].replica.applied()
    });
    everywhere(&mut world, NEW);
}

#[test]
fn an_older_node_stops_at_a_snapshot_too_and_one_alone_as_well() {
    let small: fn(&mut Config) = |config| {
        config.cleanup = Cleanup::Delete;
        (config.snapshot_bytes, config.segment_bytes) = (2_000, 1_000);
        config.retention_bytes = Some(0);
    };
    let (mut world, leader) = world(&[NEW; 3], small);
    everywhere(&mut world, NEW);
    (0..60).for_each(|number| world.put(leader, number));
    world.until("the log begins at a snapshot", |world| {
        world.nodes[&leader].replica.view().start.0 > 10
    });
    let old = (1..=3).find(|id| *id != leader).unwrap();
    world.stop(old);
    world.wipe(old);
    world.levels.insert(old, OLD);
    world.start(old).unwrap();
    world.until("it stops", |world| !world.too_old.is_empty());
    let words = &world.too_old[0].1;
    assert!(words.contains("the snapshot ") && words.contains("has it"), "{words}");
    // It has the snapshot now, and looks at it first of all.
    world.start(old).unwrap();
    world.until("it stops again", |world| world.too_old.len() == 2);
    becomes(&mut world, old, NEW);
    everywhere(&mut world, NEW);
    let at = |world: &World, id: u32| world.nodes[&id].replica.applied();
    world.until("it has all", |world| at(world, old) == at(world, leader));
    assert_eq!(world.peek(old, 59), world.peek(leader, 59));

    let (mut alone, _) = self::world(&[NEW], |_| {});
    everywhere(&mut alone, NEW);
    alone.put(1, 7);
    becomes(&mut alone, 1, OLD);
    alone.until("it stops", |world| !world.too_old.is_empty());
    becomes(&mut alone, 1, NEW);
    led(&mut alone);
    everywhere(&mut alone, NEW);
    assert!(alone.peek(1, 7).0.is_some());
}

#[test]
fn a_store_with_an_older_voter_begins_at_level_zero() {
    let (mut world, _) = world(&[NEW, NEW, OLD], |_| {});
    let leader = led(&mut world);
    world.put(leader, 1);
    everywhere(&mut world, OLD);
    assert_eq!(world.too_old, []);
}

#[test]
fn an_older_voter_that_was_away_when_the_store_began_stops_itself() {
    let mut world = World::new(3, |_| {});
    (1..=2).for_each(|id| world.start(id).unwrap());
    let leader = led(&mut world);
    everywhere(&mut world, NEW);
    world.levels.insert(3, OLD);
    world.start(3).unwrap();
    world.until("it stops", |world| !world.too_old.is_empty());
    world.put(leader, 1);
    becomes(&mut world, 3, NEW);
    everywhere(&mut world, NEW);
}

#[test]
fn a_majority_of_older_voters_keeps_an_empty_store_at_level_zero() {
    for seed in 0..4 {
        let (mut world, leader) = world(&[NEW, OLD, OLD], |_| {});
        // Whoever leads: a majority has fetched by the time it serves.
        let mut leader = leader;
        for round in 0..seed {
            let newest = world.levels[&leader];
            becomes(&mut world, leader, newest);
            leader = led(&mut world);
            world.put(leader, round);
        }
        world.put(leader, 9);
        everywhere(&mut world, OLD);
        assert_eq!(world.too_old, []);
    }
}

#[test]
fn two_who_ask_at_once_are_answered_with_one_record() {
    let (mut world, leader) = world(&[OLD; 3], |_| {});
    world.put(leader, 1);
    (1..=3).for_each(|id| becomes(&mut world, id, NEW));
    let leader = led(&mut world);
    all_have_told(&mut world, leader);
    let end = world.nodes[&leader].replica.view().end;
    let both = [update(FORMAT_FEATURE, 1), update(FORMAT_FEATURE, 1)];
    let answers: Vec<UpdateFeaturesResponse> = world.exchange_all(leader, both);
    assert!(answers.iter().all(|answer| answer.error_code == ErrorCode::None), "{answers:?}");
    assert_eq!(world.nodes[&leader].replica.view().end, end + 1);
}

#[test]
fn a_leader_that_is_cut_off_says_that_the_level_may_yet_be_committed() {
    let (mut world, leader) = world(&[OLD; 3], |config| config.request_timeout = Span::ms(500));
    world.put(leader, 1);
    (1..=3).for_each(|id| becomes(&mut world, id, NEW));
    let leader = led(&mut world);
    all_have_told(&mut world, leader);
    (1..=3).filter(|id| *id != leader).for_each(|id| world.stop(id));
    let (code, words) = ask(&mut world, leader, update(FORMAT_FEATURE, 1));
    assert_eq!(code, ErrorCode::RequestTimedOut);
    assert!(words.contains("it may still be committed"), "{words}");
    assert_eq!(level(&world, leader), OLD);
    (1..=3).filter(|id| *id != leader).for_each(|id| world.start(id).unwrap());
    raise(&mut world, 1);
    everywhere(&mut world, NEW);
}

#[test]
fn those_who_ask_for_versions_are_told_the_levels() {
    type Supported = Vec<(String, i16, i16)>;
    let told = |world: &mut World, id: u32| -> (Supported, Vec<(String, i16)>) {
        let hello = ApiVersionsRequest {
            client_software_name: "test".into(),
            client_software_version: "1".into(),
            ..ApiVersionsRequest::default()
        };
        let answer: ApiVersionsResponse = world.exchange(id, hello);
        assert_eq!(answer.finalized_features_epoch >= 0, !answer.finalized_features.is_empty());
        let supported = answer.supported_features.into_iter();
        let finalized = answer.finalized_features.into_iter();
        (
            supported.map(|at| (at.name, at.min_version, at.max_version)).collect(),
            finalized.map(|at| (at.name, at.max_version_level)).collect(),
        )
    };
    let kraft = ("kraft.version".to_owned(), 0, 1);
    let (mut old, _) = world(&[OLD], |_| {});
    let (supported, finalized) = told(&mut old, 1);
    assert_eq!(supported, [kraft.clone(), (FORMAT_FEATURE.to_owned(), 0, 0)]);
    assert_eq!(finalized, []);
    let (mut new, _) = world(&[NEW], |_| {});
    everywhere(&mut new, NEW);
    let (supported, finalized) = told(&mut new, 1);
    assert_eq!(supported, [kraft, (FORMAT_FEATURE.to_owned(), 0, 1)]);
    assert_eq!(finalized, [(FORMAT_FEATURE.to_owned(), 1)]);
    let (code, words) = ask(&mut new, 1, update("kraft.version", 1));
    assert_eq!(code, ErrorCode::None, "{words}");
    let (_, finalized) = told(&mut new, 1);
    assert_eq!(finalized, [("kraft.version".to_owned(), 1), (FORMAT_FEATURE.to_owned(), 1)]);
}

#[test]
fn an_older_observer_is_not_made_a_voter() {
    let (mut world, leader) = world(&[NEW], |_| {});
    everywhere(&mut world, NEW);
    let (code, words) = ask(&mut world, leader, update("kraft.version", 1));
    assert_eq!(code, ErrorCode::None, "{words}");
    let added = |world: &mut World, id: u32| {
        let meta = quorate_log::Meta::read(&mut world.disks[id as usize - 1]).unwrap();
        let listener = Listener {
            name: "CONTROLLER".into(),
            host: format!("n{id}"),
            port: 9093,
            ..Listener::default()
        };
        let request = AddRaftVoterRequest {
            voter_id: id as i32,
            voter_directory_id: meta.directory.unwrap(),
            listeners: vec![listener],
            ..AddRaftVoterRequest::default()
        };
        let answer: AddRaftVoterResponse = world.exchange(1, request);
        (answer.error_code, answer.error_message.unwrap_or_default())
    };
    let id = world.add_observer();
    let (code, words) = added(&mut world, id);
    assert_eq!(code, ErrorCode::RequestTimedOut);
    assert!(words.contains("has not told this leader which quorate.format"), "{words}");
    // One that has not come to the record yet: it would be a voter, and stop.
    world.levels.insert(id, OLD);
    world.start(id).unwrap();
    world.until("the leader has heard it", |world| {
        world.nodes[&1].replica.view().observers.iter().any(|other| other.format_level.is_some())
    });
    let (code, words) = added(&mut world, id);
    assert_eq!(code, ErrorCode::InvalidRequest);
    assert!(words.contains("speaks quorate.format up to 0"), "{words}");
    world.until("it stops", |world| !world.too_old.is_empty());
    let seen = added(&mut world, id);
    assert_eq!(seen.0, ErrorCode::InvalidRequest);
    assert!(seen.1.contains("speaks quorate.format up to 0"), "{}", seen.1);
    becomes(&mut world, id, NEW);
    world.until("it has all", |world| {
        let leader = &world.nodes[&1].replica;
        leader
            .view()
            .observers
            .iter()
            .any(|other| other.format_level == Some(NEW) && other.end == Some(leader.view().end))
    });
    let (code, words) = added(&mut world, id);
    assert_eq!(code, ErrorCode::None, "{words}");
    assert_eq!(world.nodes[&id].replica.view().role, RoleName::Follower);
}
