//! Brokers and controllers as they are registered.
//!
//! A registration is kept as the record that would make it, its listeners and features sorted by
//! name, its directories by id, as Kafka's snapshots have them. Whether a broker is alive is not
//! known here, only whether it is fenced.

use super::features::Features;
use super::refused::Refused;
use super::shared_map::SharedMap;
use quorate_base::Uuid;
use quorate_wire::Tags;
use quorate_wire::record::metadata::{
    BrokerRegistrationChange, MetadataRecord, RegisterBroker, RegisterController,
    RegisteredEndpoint, RegisteredFeature, UnregisterBroker,
};
use std::sync::Arc;

/// All registered brokers, by id.
pub type Brokers = SharedMap<i32, Arc<RegisterBroker>>;

/// All registered controllers, by id.
pub type Controllers = SharedMap<i32, Arc<RegisterController>>;

/// In the order of names; of two with one name the later one counts.
fn canonical(
    end_points: Vec<RegisteredEndpoint>,
    features: Vec<RegisteredFeature>,
) -> (Vec<RegisteredEndpoint>, Vec<RegisteredFeature>) {
    fn sorted<T>(all: Vec<T>, name: fn(&T) -> &str) -> Vec<T> {
        let mut all: Vec<T> = all.into_iter().rev().collect();
        // Stable, so that of equal names the later one is the first now.
        all.sort_by(|a, b| name(a).cmp(name(b)));
        all.dedup_by(|a, b| name(a) == name(b));
        all
    }
    let mut end_points = sorted(end_points, |end_point| &end_point.name);
    let mut features = sorted(features, |feature| &feature.name);
    end_points.iter_mut().for_each(|end_point| end_point.tags = Tags::new());
    features.iter_mut().for_each(|feature| feature.tags = Tags::new());
    (end_points, features)
}

/// What a Kafka controller makes no registration of.
fn check(end_points: &[RegisteredEndpoint]) -> Result<(), Refused> {
    for end_point in end_points {
        if !(0..=3).contains(&end_point.security_protocol) {
            let found = end_point.security_protocol.into();
            return Err(Refused::BadValue { field: "SecurityProtocol", found });
        }
    }
    Ok(())
}

/// In Kafka's order of ids: as two signed numbers of 64 bits.
fn sort_dirs(dirs: &mut [Uuid]) {
    dirs.sort_by_key(|id| {
        let half = |bytes: &[u8]| {
            bytes.iter().fold(0u64, |half, byte| half << 8 | u64::from(*byte)) as i64
        };
        (half(&id.0[..8]), half(&id.0[8..]))
    });
}

pub(super) fn register(brokers: &mut Brokers, mut record: RegisterBroker) -> Result<(), Refused> {
    check(&record.end_points)?;
    if record.end_points.iter().any(|end_point| end_point.name.is_empty()) {
        return Err(Refused::UnnamedListener { broker: record.broker_id });
    }
    (record.end_points, record.features) = canonical(record.end_points, record.features);
    sort_dirs(&mut record.log_dirs);
    record.tags = Tags::new();
    brokers.insert(record.broker_id, Arc::new(record));
    Ok(())
}

pub(super) fn unregister(brokers: &mut Brokers, record: &UnregisterBroker) -> Result<(), Refused> {
    registered(brokers, record.broker_id, record.broker_epoch)?;
    brokers.remove(&record.broker_id);
    Ok(())
}

/// The registration that a record changes.
fn registered(
    brokers: &mut Brokers,
    broker: i32,
    epoch: i64,
) -> Result<&mut RegisterBroker, Refused> {
    let Some(found) = brokers.get(&broker) else {
        return Err(Refused::UnknownBroker { broker });
    };
    let registered = found.broker_epoch;
    if registered != epoch {
        return Err(Refused::OtherBrokerEpoch { broker, registered, found: epoch });
    }
    let found = brokers.get_mut(&broker).map(Arc::make_mut);
    found.ok_or(Refused::UnknownBroker { broker })
}

pub(super) fn fence(
    brokers: &mut Brokers,
    broker: i32,
    epoch: i64,
    fenced: bool,
) -> Result<(), Refused> {
    registered(brokers, broker, epoch)?.fenced = fenced;
    Ok(())
}

pub(super) fn change(
    brokers: &mut Brokers,
    record: BrokerRegistrationChange,
) -> Result<(), Refused> {
    let fenced = match record.fenced {
        -1 => Some(false),
        0 => None,
        1 => Some(true),
        other => return Err(Refused::BadValue { field: "Fenced", found: other.into() }),
    };
    let in_controlled_shutdown = match record.in_controlled_shutdown {
        0 => None,
        1 => Some(true),
        other => {
            return Err(Refused::BadValue { field: "InControlledShutdown", found: other.into() });
        }
    };
    let broker = registered(brokers, record.broker_id, record.broker_epoch)?;
    broker.fenced = fenced.unwrap_or(broker.fenced);
    broker.in_controlled_shutdown = in_controlled_shutdown.unwrap_or(broker.in_controlled_shutdown);
    if !record.log_dirs.is_empty() {
        broker.log_dirs = record.log_dirs;
        sort_dirs(&mut broker.log_dirs);
    }
    if record.cordoned_log_dirs.is_some() {
        broker.cordoned_log_dirs = record.cordoned_log_dirs;
    }
    Ok(())
}

pub(super) fn register_controller(
    controllers: &mut Controllers,
    mut record: RegisterController,
) -> Result<(), Refused> {
    check(&record.end_points)?;
    (record.end_points, record.features) = canonical(record.end_points, record.features);
    record.tags = Tags::new();
    controllers.insert(record.controller_id, Arc::new(record));
    Ok(())
}

/// The record of a registration at the version that `metadata.version` asks for, or a newer one if
/// the registration does not fit into that.
pub(super) fn broker_record(broker: &RegisterBroker, features: &Features) -> (MetadataRecord, i16) {
    let needed = match broker {
        RegisterBroker { cordoned_log_dirs: Some(_), .. } => 4,
        RegisterBroker { log_dirs, .. } if !log_dirs.is_empty() => 3,
        RegisterBroker { is_migrating_zk_broker: true, .. } => 2,
        RegisterBroker { in_controlled_shutdown: true, .. } => 1,
        RegisterBroker { .. } => 0,
    };
    let version = features.register_broker_version().max(needed);
    (broker.clone().into(), version)
}
