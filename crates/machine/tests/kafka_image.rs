//! The state that Kafka's metadata records make: of what Kafka 4.3.1 wrote, of made-up histories,
//! and record by record.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test ends where a fact is missing; a test may use files, threads and clocks"
)]

use bytes::Bytes;
use quorate_base::{Epoch, Offset, Rng, Uuid};
use quorate_log::{Fact, OsDisk, dump};
use quorate_machine::kafka::{Fault, Loader, MetadataImage, Partition, Refused};
use quorate_machine::{Batch, Headers, Record};
use quorate_wire::record::metadata as record;
use quorate_wire::record::metadata::{FeatureLevel, MetadataRecord};
use quorate_wire::{Tags, arbitrary};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What Kafka 4.3.1 wrote; shared with the tests of the log.
fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../log/tests/fixtures/kafka-4.3.1")
}

/// All records of a file that are no control records, with their offsets.
fn values(file: &Path) -> Vec<(u64, Bytes)> {
    let mut disk = OsDisk::new(file.parent().unwrap());
    let mut values = Vec::new();
    dump(&mut disk, file.file_name().unwrap().to_str().unwrap(), &mut |fact| {
        if let Fact::Record { record, control: None, .. } = fact {
            values.push((record.offset.0, Bytes::copy_from_slice(record.value.unwrap())));
        }
    })
    .unwrap();
    values
}

/// The state of a file from this state on, after all records below an offset.
fn load(from: MetadataImage, file: &Path, end: u64) -> MetadataImage {
    let mut loader = Loader::new(from);
    for (offset, value) in values(file) {
        if offset < end {
            loader.apply_value(Some(value)).unwrap();
        }
    }
    assert!(!loader.in_transaction());
    loader.image().clone()
}

/// From nothing, by its own records.
#[track_caller]
fn rebuilt(image: &MetadataImage) -> MetadataImage {
    let mut again = MetadataImage::default();
    for (record, version) in image.records() {
        // As a snapshot would bring it.
        let value = record.encode(version).unwrap();
        let (record, _) = MetadataRecord::decode(value).unwrap();
        again.apply(record).unwrap();
    }
    again
}

const PARTITION: &str = "__cluster_metadata-0";

/// The log of a node that has it from its beginning, and the snapshots beside it.
fn snapshots(directory: &str) -> Vec<(u64, PathBuf)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(fixtures().join(directory).join(PARTITION)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(name) = name.strip_suffix(".checkpoint") else { continue };
        found.push((name.split('-').next().unwrap().parse().unwrap(), path));
    }
    found.sort();
    found
}

#[test]
fn kafkas_snapshots_and_logs_make_the_same_state() {
    let mut compared = 0;
    for directory in ["dynamic/c1", "dynamic/c3"] {
        let log = fixtures().join(directory).join(PARTITION).join("00000000000000000000.log");
        for (end, snapshot) in snapshots(directory) {
            let by_log = load(MetadataImage::default(), &log, end);
            let by_snapshot = load(MetadataImage::default(), &snapshot, u64::MAX);
            assert_eq!(by_log, by_snapshot, "{directory} at {end}");
            // Whoever goes on from the snapshot comes to the end of the log all the same.
            let rest = values(&log).into_iter().filter(|(offset, _)| *offset >= end);
            let mut loader = Loader::new(by_snapshot);
            rest.for_each(|(_, value)| loader.apply_value(Some(value)).unwrap());
            assert_eq!(*loader.image(), load(MetadataImage::default(), &log, u64::MAX));
            compared += 1;
        }
    }
    assert_eq!(compared, 4 + 5);
}

/// What we would write is what Kafka wrote, but for the order of some.
#[test]
fn our_records_of_a_state_are_those_of_kafkas_snapshot() {
    let mut compared = 0;
    for directory in ["dynamic/c1", "dynamic/c3", "dynamic/c4"] {
        for (end, snapshot) in snapshots(directory) {
            let image = load(MetadataImage::default(), &snapshot, u64::MAX);
            let shown = |record: &MetadataRecord, version| {
                // Kafka's features and quota entities come in the order of a hash map.
                let mut record = record.clone();
                if let MetadataRecord::RegisterBroker(broker) = &mut record {
                    broker.features.sort_by(|a, b| a.name.cmp(&b.name));
                }
                if let MetadataRecord::RegisterController(controller) = &mut record {
                    controller.features.sort_by(|a, b| a.name.cmp(&b.name));
                }
                if let MetadataRecord::ClientQuota(quota) = &mut record {
                    quota.entity.sort_by(|a, b| a.entity_type.cmp(&b.entity_type));
                }
                record.json(version)
            };
            let kafkas = values(&snapshot).into_iter().map(|(_, value)| {
                let (record, version) = MetadataRecord::decode(value).unwrap();
                shown(&record, version)
            });
            let mut kafkas: Vec<String> = kafkas.collect();
            let mut ours: Vec<String> =
                image.records().map(|(record, version)| shown(&record, version)).collect();
            assert_eq!(ours.first(), kafkas.first(), "metadata.version comes first");
            kafkas.sort();
            ours.sort();
            assert_eq!(ours, kafkas, "{directory} at {end}");
            compared += usize::from(!ours.is_empty());
        }
    }
    assert_eq!(compared, 3 + 4 + 3);
}

#[test]
fn the_state_of_a_real_log_is_what_was_done_to_the_cluster() {
    let log = fixtures().join("dynamic/c3").join(PARTITION).join("00000000000000000000.log");
    let image = load(MetadataImage::default(), &log, u64::MAX);
    assert_eq!(image.features().metadata_version(), Some(30));
    assert_eq!(image.features().level("eligible.leader.replicas.version"), Some(1));
    let brokers: Vec<i32> = image.brokers().iter().map(|(id, _)| *id).collect();
    assert_eq!(brokers, [101]);
    let offsets = image.topics().get(image.topics().id_of("__consumer_offsets").unwrap()).unwrap();
    assert_eq!(offsets.partitions.len(), 3);
    assert_eq!(image.configs().get(2, "__consumer_offsets", "cleanup.policy"), Some("compact"));
    assert_eq!(image.topics().id_of("gone"), None);
    assert_eq!(rebuilt(&image), image);
    let shown = image.leaves().map(|leaf| format!("{:?} {}", leaf.path, leaf.value));
    assert!(shown.into_iter().any(|line| line.contains("\"features\"") && line.ends_with(" 30")));
}

fn any_record(rng: &mut Rng) -> MetadataRecord {
    if rng.one_in(40) {
        let feature_level = rng.below(32) as i16;
        let name = "metadata.version".to_owned();
        return FeatureLevel { name, feature_level, tags: Tags::new() }.into();
    }
    let types = MetadataRecord::TYPES;
    let (api_key, _, newest) = types[rng.below(types.len() as u64) as usize];
    let version = rng.below(newest as u64 + 1) as i16;
    arbitrary::narrow_metadata(api_key, version, rng).unwrap()
}

/// What is refused changes nothing, what is applied survives a snapshot, and a clone stays as it
/// was: for any history.
#[test]
fn any_history_makes_a_state_that_its_records_make_again() {
    let mut applied: BTreeMap<&str, u64> = BTreeMap::new();
    let mut reasons: Vec<Refused> = Vec::new();
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut image = MetadataImage::default();
        let mut kept: Vec<(MetadataImage, Vec<String>)> = Vec::new();
        let text = |image: &MetadataImage| -> Vec<String> {
            image.records().map(|(record, version)| record.json(version)).collect()
        };
        for step in 0..400 {
            let record = any_record(&mut rng);
            let before = image.clone();
            let name = record.type_name();
            match image.apply(record.clone()) {
                Ok(()) => *applied.entry(name).or_default() += 1,
                Err(why) => {
                    assert_eq!(
                        image, before,
                        "seed {seed}: {record} changed what it was refused by"
                    );
                    assert!(!why.to_string().is_empty());
                    let kind = std::mem::discriminant(&why);
                    if !reasons.iter().any(|seen| std::mem::discriminant(seen) == kind) {
                        reasons.push(why);
                    }
                }
            }
            if step % 80 == 0 {
                kept.push((image.clone(), text(&image)));
            }
        }
        assert_eq!(rebuilt(&image), image, "seed {seed}");
        assert_eq!(
            rebuilt(&image).leaves().collect::<Vec<_>>(),
            image.leaves().collect::<Vec<_>>()
        );
        let paths: Vec<_> = image.leaves().map(|leaf| leaf.path).collect();
        assert!(paths.is_sorted_by(|a, b| a < b && !b.starts_with(a)), "seed {seed}: {paths:?}");
        for (image, shown) in kept {
            assert_eq!(text(&image), shown, "seed {seed}: a clone changed");
        }
    }
    assert_eq!(applied.len(), MetadataRecord::TYPES.len(), "{applied:?}");
    assert_eq!(reasons.len(), 12, "all but those of transactions: {reasons:?}");
}

fn topic(name: &str, id: u8) -> MetadataRecord {
    record::Topic { name: name.to_owned(), topic_id: Uuid([id; 16]), tags: Tags::new() }.into()
}

fn partition(id: u8, partition_id: i32, replicas: &[i32]) -> record::Partition {
    record::Partition {
        partition_id,
        topic_id: Uuid([id; 16]),
        replicas: replicas.to_vec(),
        isr: replicas.to_vec(),
        leader: replicas[0],
        leader_epoch: 0,
        partition_epoch: 0,
        ..record::Partition::default()
    }
}

fn change(id: u8, partition_id: i32) -> record::PartitionChange {
    let topic_id = Uuid([id; 16]);
    record::PartitionChange { partition_id, topic_id, ..record::PartitionChange::default() }
}

fn with_one_partition() -> MetadataImage {
    let mut image = MetadataImage::default();
    image.apply(topic("t", 7)).unwrap();
    image.apply(partition(7, 0, &[1, 2, 3]).into()).unwrap();
    image
}

fn only(image: &MetadataImage) -> &Partition {
    image.topics().get(Uuid([7; 16])).unwrap().partitions.get(&0).unwrap()
}

#[test]
fn a_leader_that_is_named_begins_a_new_epoch_even_if_it_is_the_same() {
    let mut image = with_one_partition();
    image.apply(record::PartitionChange { leader: 1, ..change(7, 0) }.into()).unwrap();
    assert_eq!((only(&image).leader, only(&image).leader_epoch), (1, 1));
    assert_eq!(only(&image).partition_epoch, 1);
    image.apply(record::PartitionChange { isr: Some(vec![1]), ..change(7, 0) }.into()).unwrap();
    assert_eq!((only(&image).leader_epoch, only(&image).partition_epoch), (1, 2));
    assert_eq!((only(&image).isr(), only(&image).replicas()), (&[1][..], &[1, 2, 3][..]));
    let unclean = record::PartitionChange { leader_recovery_state: 1, ..change(7, 0) };
    image.apply(unclean.into()).unwrap();
    assert!(only(&image).recovering);
}

#[test]
fn directories_are_one_a_replica() {
    let mut image = with_one_partition();
    assert_eq!(only(&image).directories(), [Uuid::ZERO; 3]);
    // Unknown ones follow the replicas, known ones must be named.
    let more = Some(vec![1, 2, 3, 4]);
    image.apply(record::PartitionChange { replicas: more, ..change(7, 0) }.into()).unwrap();
    assert_eq!(only(&image).directories(), [Uuid::ZERO; 4]);
    let known = Some(vec![Uuid([9; 16]); 4]);
    image.apply(record::PartitionChange { directories: known, ..change(7, 0) }.into()).unwrap();
    let fewer = record::PartitionChange { replicas: Some(vec![1]), ..change(7, 0) };
    let why =
        Refused::Directories { topic: Uuid([7; 16]), partition: 0, replicas: 1, directories: 4 };
    assert_eq!(image.apply(fewer.into()), Err(why));
}

#[test]
fn a_topic_goes_with_its_partitions_and_configs() {
    let mut image = with_one_partition();
    let config = |resource_type, value: Option<&str>| record::Config {
        resource_type,
        resource_name: "t".to_owned(),
        name: "retention.ms".to_owned(),
        value: value.map(str::to_owned),
        tags: Tags::new(),
    };
    image.apply(config(2, Some("1")).into()).unwrap();
    image.apply(config(32, Some("2")).into()).unwrap();
    assert_eq!(image.configs().get(2, "t", "retention.ms"), Some("1"));
    let remove = record::RemoveTopic { topic_id: Uuid([7; 16]), tags: Tags::new() };
    image.apply(remove.clone().into()).unwrap();
    assert_eq!((image.topics().len(), image.topics().partitions()), (0, 0));
    assert_eq!(image.configs().get(2, "t", "retention.ms"), None);
    assert_eq!(image.configs().get(32, "t", "retention.ms"), Some("2"));
    assert_eq!(image.apply(remove.into()), Err(Refused::UnknownTopic { id: Uuid([7; 16]) }));
    image.apply(config(32, None).into()).unwrap();
    assert_eq!(image, MetadataImage::default());
    // The name is free again, for another topic.
    image.apply(topic("t", 8)).unwrap();
    assert!(matches!(image.apply(topic("t", 9)), Err(Refused::TopicExists { .. })));
}

#[test]
fn eligible_leaders_are_forgotten_of_one_topic_or_of_all() {
    let mut image = with_one_partition();
    let elr = Some(vec![2]);
    let change = record::PartitionChange { eligible_leader_replicas: elr, ..change(7, 0) };
    image.apply(change.clone().into()).unwrap();
    assert_eq!(only(&image).elr(), [2]);
    let clear = |name: &str| record::ClearElr { topic_name: name.to_owned(), tags: Tags::new() };
    assert!(matches!(image.apply(clear("u").into()), Err(Refused::UnknownTopicName { .. })));
    for name in ["t", ""] {
        image.apply(change.clone().into()).unwrap();
        let epoch = only(&image).partition_epoch;
        image.apply(clear(name).into()).unwrap();
        assert_eq!((only(&image).elr().len(), only(&image).partition_epoch), (0, epoch + 1));
        image.apply(clear(name).into()).unwrap();
        assert_eq!(only(&image).partition_epoch, epoch + 1, "there was nothing to forget");
    }
}

#[test]
fn brokers_change_only_in_the_epoch_that_is_named() {
    let mut image = MetadataImage::default();
    let broker = record::RegisterBroker { broker_id: 5, broker_epoch: 9, ..Default::default() };
    image.apply(broker.into()).unwrap();
    assert!(image.brokers().get(&5).unwrap().fenced);
    let change = |broker_epoch, fenced| record::BrokerRegistrationChange {
        broker_id: 5,
        broker_epoch,
        fenced,
        ..Default::default()
    };
    image.apply(change(9, -1).into()).unwrap();
    image.apply(change(9, 0).into()).unwrap();
    assert!(!image.brokers().get(&5).unwrap().fenced);
    let why = Refused::OtherBrokerEpoch { broker: 5, registered: 9, found: 8 };
    assert_eq!(image.apply(change(8, 1).into()), Err(why));
    let why = Refused::BadValue { field: "Fenced", found: 2 };
    assert_eq!(image.apply(change(9, 2).into()), Err(why));
    let gone = record::UnregisterBroker { broker_id: 5, broker_epoch: 9, tags: Tags::new() };
    image.apply(gone.into()).unwrap();
    assert_eq!(image.apply(change(9, 1).into()), Err(Refused::UnknownBroker { broker: 5 }));
}

/// So that a state is the same by the log and by Kafka's snapshot, which has them in order.
#[test]
fn directories_listeners_and_features_of_a_broker_have_an_order() {
    let id = |first: u8, last: u8| {
        let mut bytes = [0; 16];
        (bytes[0], bytes[15]) = (first, last);
        Uuid(bytes)
    };
    let feature = |name: &str, max_supported_version| record::RegisteredFeature {
        name: name.to_owned(),
        max_supported_version,
        ..Default::default()
    };
    let broker = record::RegisterBroker {
        log_dirs: vec![id(1, 2), id(0x80, 1), id(1, 1), id(0, 9)],
        features: vec![feature("b", 1), feature("a", 2), feature("b", 3)],
        ..Default::default()
    };
    let mut image = MetadataImage::default();
    image.apply(broker.clone().into()).unwrap();
    let found = image.brokers().get(&0).unwrap();
    // Java's order: the highest bit is a sign.
    assert_eq!(found.log_dirs, [id(0x80, 1), id(0, 9), id(1, 1), id(1, 2)]);
    assert_eq!(found.features, [feature("a", 2), feature("b", 3)]);

    let unnamed = record::RegisterBroker { end_points: vec![Default::default()], ..broker.clone() };
    assert_eq!(image.apply(unnamed.into()), Err(Refused::UnnamedListener { broker: 0 }));
    let odd = record::RegisteredEndpoint { security_protocol: 4, ..Default::default() };
    let odd = record::RegisterController { end_points: vec![odd], ..Default::default() };
    let why = Refused::BadValue { field: "SecurityProtocol", found: 4 };
    assert_eq!(image.apply(odd.into()), Err(why));
}

#[test]
fn a_transaction_takes_effect_at_its_end_or_not_at_all() {
    let begin = || MetadataRecord::from(record::BeginTransaction::default());
    let end = || MetadataRecord::from(record::EndTransaction::default());
    let abort = || MetadataRecord::from(record::AbortTransaction::default());
    let mut loader = Loader::default();
    loader.apply(topic("a", 1)).unwrap();
    assert_eq!(loader.apply(end()), Err(Refused::NoTransaction));
    assert_eq!(loader.apply(abort()), Err(Refused::NoTransaction));
    loader.apply(begin()).unwrap();
    loader.apply(topic("b", 2)).unwrap();
    assert_eq!(loader.apply(begin()), Err(Refused::InTransaction));
    assert!(loader.in_transaction() && loader.image().topics().len() == 1);
    loader.apply(abort()).unwrap();
    assert_eq!(loader.image().topics().len(), 1);
    loader.apply(begin()).unwrap();
    loader.apply(topic("b", 2)).unwrap();
    loader.apply(end()).unwrap();
    assert!(!loader.in_transaction() && loader.image().topics().len() == 2);
}

#[test]
fn what_is_left_out_is_told() {
    let mut loader = Loader::default();
    assert_eq!(loader.apply_value(None), Err(Fault::NoValue));
    let unknown = Bytes::from_static(&[1, 99, 0, 0]);
    let told = loader.apply_value(Some(unknown)).unwrap_err().to_string();
    assert_eq!(told, "no metadata record of type 99, here version 0, is known");
    let lost = MetadataRecord::from(change(7, 3)).encode(0).unwrap();
    let told = loader.apply_value(Some(lost)).unwrap_err().to_string();
    let id = Uuid([7; 16]);
    assert_eq!(told, format!("PARTITION_CHANGE_RECORD: no topic has the id {id}"));
    assert_eq!(*loader.image(), MetadataImage::default());

    // Of a batch the rest is taken.
    let (lost, good) = (change(7, 3).into(), topic("t", 7));
    let values = [lost, good].map(|record: MetadataRecord| record.encode(0).unwrap());
    let record = |at: usize| Record {
        offset: Offset(20 + at as u64),
        key: None,
        value: Some(&values[at]),
        headers: Headers::NONE,
    };
    let batch = Batch {
        base: Offset(20),
        end: Offset(22),
        epoch: Epoch(1),
        timestamp_ms: 0,
        records: &[record(0), record(1)],
    };
    let mut told = Vec::new();
    loader.apply_batch(&batch, &mut |offset, fault| told.push((offset, fault.to_string())));
    let why = format!("PARTITION_CHANGE_RECORD: no topic has the id {id}");
    assert_eq!(told, [(Offset(20), why)]);
    assert_eq!(loader.image().topics().len(), 1);
}
