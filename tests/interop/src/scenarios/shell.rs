//! Kafka's `MetadataShell` and our state of a cluster, fact by fact, of snapshots and whole logs
//! that controllers of Kafka's wrote.
//!
//! The shell prints Kafka's own state as a tree. What it should print is made here out of ours,
//! in its words; the two must be the same, nothing left over on either side.

use super::snapshots::{FIXTURES, snapshots};
use crate::scenario::{Failure, Stage, ensure};
use bytes::Bytes;
use quorate_log::{Fact, OsDisk, dump};
use quorate_machine::kafka::{Loader, MetadataImage, Partition};
use quorate_wire::record::metadata as record;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

const SHELL: &str = "org.apache.kafka.shell.MetadataShell";

/// Where a fact is in the shell's tree, and what it says.
type Facts = BTreeMap<String, String>;

/// Every snapshot with a state, and the logs that begin at 0.
pub fn fixtures(stage: &Stage, _: &Path) -> Result<(), Failure> {
    let mut compared = 0;
    for node in ["dynamic/c1", "dynamic/c3", "dynamic/c4", "static/c1", "static/c2"] {
        let folder = Path::new(FIXTURES).join("..").join(node).join("__cluster_metadata-0");
        let mut files = snapshots(&folder)?;
        files.retain(|file| !file.ends_with("00000000000000000000-0000000000.checkpoint"));
        files.push(folder.join("00000000000000000000.log"));
        for file in files.iter().filter(|file| file.exists()) {
            let (image, records) = load(file)?;
            let path = file.display().to_string();
            let input = "tree /image\nexit\n";
            let printed = stage.kafka.answer(SHELL, &["--snapshot", &path], input)?;
            let (theirs, ours) = (shown(&printed), expected(&image));
            let both = theirs.keys().chain(ours.keys());
            for at in both {
                let (kafkas, own) = (theirs.get(at), ours.get(at));
                ensure(kafkas == own, || {
                    format!("{path}: {at}\nours: {own:?}\nKafka's: {kafkas:?}")
                })?;
            }
            ensure(records > 20 && ours.len() > 20, || format!("{path} holds next to nothing"))?;
            compared += 1;
        }
    }
    ensure(compared == 14, || format!("{compared} files were compared"))
}

/// The state that a file describes, and how many records did.
fn load(file: &Path) -> Result<(MetadataImage, u64), Failure> {
    let mut loader = Loader::default();
    let (mut records, mut fault) = (0, None);
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut disk = OsDisk::new(file.parent().unwrap_or(Path::new(".")));
    dump(&mut disk, name, &mut |fact| {
        if let Fact::Record { record, control: None, .. } = fact {
            records += 1;
            let value = record.value.map(Bytes::copy_from_slice);
            fault = fault.take().or(loader.apply_value(value).err());
        }
    })?;
    match fault {
        Some(fault) => Err(fault.into()),
        None => Ok((loader.image().clone(), records)),
    }
}

/// The tree that the shell printed: a name ends in a colon, what is indented below it is inside.
fn shown(printed: &str) -> Facts {
    let mut facts = Facts::new();
    let mut path: Vec<&str> = Vec::new();
    for line in printed.lines().map(|line| line.trim_start_matches(">> ")) {
        let text = line.trim_start();
        path.truncate((line.len() - text.len()) / 2);
        match text.strip_suffix(':') {
            Some(name) => path.push(name),
            None if !path.is_empty() => drop(facts.insert(path.join("/"), text.to_owned())),
            None => {}
        }
    }
    // Of the file, not of the state; and the end of the shell's own conversation.
    facts.retain(|at, _| at != "provenance");
    facts
}

/// What the shell should print.
fn expected(image: &MetadataImage) -> Facts {
    let mut facts = Facts::new();
    let mut put = |at: String, value: String| drop(facts.insert(at, value));
    for (id, one) in image.acls().iter() {
        put(format!("acls/byId/{id}"), acl(one));
    }
    for (entity, key, value) in image.quotas().iter() {
        let parts = entity.iter().map(|(kind, name)| {
            let kind = if &**kind == "client-id" { "clientId" } else { kind };
            let name = name.as_deref().unwrap_or("");
            format!("{kind}({name})")
        });
        let entity = parts.collect::<Vec<_>>().join("_");
        put(format!("clientQuotas/{entity}/{key}"), format!("{value:?}"));
    }
    for (id, one) in image.brokers().iter() {
        put(format!("cluster/brokers/{id}"), broker(one));
    }
    for (id, one) in image.controllers().iter() {
        let record::RegisterController { incarnation_id, zk_migration_ready, .. } = &**one;
        let said = format!(
            "ControllerRegistration(id={id}, incarnationId={incarnation_id}, zkMigrationReady={zk_migration_ready}, {})",
            reached(&one.end_points, &one.features)
        );
        put(format!("cluster/controllers/{id}"), said);
    }
    for (resource, key, value) in image.configs().iter() {
        let kind = if resource.resource_type == 2 { "TOPIC" } else { "BROKER" };
        let colon = if resource.name.is_empty() { "" } else { ":" };
        put(format!("configs/{kind}{colon}{}/{key}", resource.name), value.to_string());
    }
    for (name, level) in image.features().iter() {
        match &**name {
            // The fixtures have no other.
            "metadata.version" if level == 30 => {
                put("features/metadataVersion".to_owned(), "Optional[4.3-IV0]".to_owned());
            }
            name => put(format!("features/finalized_{name}"), level.to_string()),
        }
    }
    let next = image.next_producer_id().unwrap_or(-1);
    put("producerIds/nextProducerId".to_owned(), next.to_string());
    for ((mechanism, user), one) in image.credentials().iter() {
        let mechanism = if *mechanism == 1 { "SCRAM-SHA-256" } else { "SCRAM-SHA-512" };
        let record::UserScramCredential { salt, stored_key, server_key, iterations, .. } = &**one;
        let [salt, stored, server] = [salt, stored_key, server_key].map(|bytes| hex(bytes));
        let said = format!(
            "ScramCredentialData(salt={salt}, storedKey={stored}, serverKey={server}, iterations={iterations})"
        );
        put(format!("scram/{mechanism}/{user}"), said);
    }
    for (id, topic) in image.topics().iter() {
        for folder in [format!("topics/byId/{id}"), format!("topics/byName/{}", topic.name)] {
            put(format!("{folder}/id"), id.to_string());
            put(format!("{folder}/name"), topic.name.to_string());
            for (number, one) in topic.partitions.iter() {
                put(format!("{folder}/{number}"), partition(one));
            }
        }
    }
    facts
}

fn acl(acl: &record::AccessControlEntry) -> String {
    let name = |names: &[&'static str], number: i8| {
        names.get(number as usize).copied().unwrap_or("not in the fixtures")
    };
    let resource = name(&["", "", "TOPIC", "GROUP", "CLUSTER"], acl.resource_type);
    let pattern = name(&["", "", "", "LITERAL", "PREFIXED"], acl.pattern_type);
    let operation = name(&["", "", "ALL", "READ", "WRITE"], acl.operation);
    let permission = name(&["", "", "DENY", "ALLOW"], acl.permission_type);
    format!(
        "StandardAcl[resourceType={resource}, resourceName={}, patternType={pattern}, principal={}, host={}, operation={operation}, permissionType={permission}]",
        acl.resource_name, acl.principal, acl.host,
    )
}

fn broker(broker: &record::RegisterBroker) -> String {
    let rack = match &broker.rack {
        Some(rack) => format!("Optional[{rack}]"),
        None => "Optional.empty".to_owned(),
    };
    let cordoned = broker.cordoned_log_dirs.as_deref().map_or("null".to_owned(), list);
    format!(
        "BrokerRegistration(id={}, epoch={}, incarnationId={}, {}, rack={rack}, fenced={}, inControlledShutdown={}, isMigratingZkBroker={}, directories={}, cordonedDirectories={cordoned})",
        broker.broker_id,
        broker.broker_epoch,
        broker.incarnation_id,
        reached(&broker.end_points, &broker.features),
        broker.fenced,
        broker.in_controlled_shutdown,
        broker.is_migrating_zk_broker,
        list(&broker.log_dirs),
    )
}

fn reached(
    end_points: &[record::RegisteredEndpoint],
    features: &[record::RegisteredFeature],
) -> String {
    let listeners = end_points.iter().map(|at| {
        let protocol = if at.security_protocol == 0 { "PLAINTEXT" } else { "not in the fixtures" };
        format!(
            "Endpoint(listenerName='{}', securityProtocol={protocol}, host='{}', port={})",
            at.name, at.host, at.port
        )
    });
    let features = features.iter().map(|feature| {
        let (min, max) = (feature.min_supported_version, feature.max_supported_version);
        format!("{}: {min}-{max}", feature.name)
    });
    let [listeners, features] =
        [listeners.collect::<Vec<_>>(), features.collect()].map(|all| all.join(", "));
    format!("listeners=[{listeners}], supportedFeatures={{{features}}}")
}

fn partition(partition: &Partition) -> String {
    let recovery = if partition.recovering { "RECOVERING" } else { "RECOVERED" };
    format!(
        "PartitionRegistration(replicas={}, directories={}, isr={}, removingReplicas={}, addingReplicas={}, elr={}, lastKnownElr={}, leader={}, leaderRecoveryState={recovery}, leaderEpoch={}, partitionEpoch={})",
        list(partition.replicas()),
        list(partition.directories()),
        list(partition.isr()),
        list(partition.removing()),
        list(partition.adding()),
        list(partition.elr()),
        list(partition.last_known_elr()),
        partition.leader,
        partition.leader_epoch,
        partition.partition_epoch,
    )
}

/// As Java shows a list.
fn list<T: Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    format!("[{}]", items.join(", "))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
