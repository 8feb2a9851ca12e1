//! The whole state, and what each record does to it.
//!
//! Kafka's semantics, taken from KIP-500, 631, 746, 858, 900 and 966 and from what a Kafka
//! controller does when it replays its log. A record that it would refuse is refused here, and
//! changes nothing.

use super::access::{self, Acls, Credentials, Tokens};
use super::brokers::{self, Brokers, Controllers};
use super::configs::Configs;
use super::features::Features;
use super::quotas::Quotas;
use super::refused::Refused;
use super::topics::Topics;
use quorate_wire::record::metadata::{MetadataRecord, ProducerIds};

/// The state of a cluster at some offset. A clone shares everything, and costs ten references.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MetadataImage {
    features: Features,
    brokers: Brokers,
    controllers: Controllers,
    topics: Topics,
    configs: Configs,
    quotas: Quotas,
    /// The first producer id that is free; `None` before the first were handed out.
    next_producer_id: Option<i64>,
    acls: Acls,
    credentials: Credentials,
    tokens: Tokens,
}

impl MetadataImage {
    /// Feature levels.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Registered brokers.
    pub fn brokers(&self) -> &Brokers {
        &self.brokers
    }

    /// Registered controllers.
    pub fn controllers(&self) -> &Controllers {
        &self.controllers
    }

    /// Topics and partitions.
    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    /// Configs.
    pub fn configs(&self) -> &Configs {
        &self.configs
    }

    /// Client quotas.
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// The first producer id that is free; `None` before the first were handed out.
    pub fn next_producer_id(&self) -> Option<i64> {
        self.next_producer_id
    }

    /// ACLs.
    pub fn acls(&self) -> &Acls {
        &self.acls
    }

    /// SCRAM credentials.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Delegation tokens.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Applies one record; one that is refused changes nothing. Marks of transactions have no
    /// effect on a state: see [`super::Loader`].
    pub fn apply(&mut self, record: MetadataRecord) -> Result<(), Refused> {
        match record {
            MetadataRecord::RegisterBroker(record) => {
                return brokers::register(&mut self.brokers, record);
            }
            MetadataRecord::UnregisterBroker(record) => {
                return brokers::unregister(&mut self.brokers, &record);
            }
            MetadataRecord::FenceBroker(record) => {
                return brokers::fence(&mut self.brokers, record.id, record.epoch, true);
            }
            MetadataRecord::UnfenceBroker(record) => {
                return brokers::fence(&mut self.brokers, record.id, record.epoch, false);
            }
            MetadataRecord::BrokerRegistrationChange(record) => {
                return brokers::change(&mut self.brokers, record);
            }
            MetadataRecord::RegisterController(record) => {
                return brokers::register_controller(&mut self.controllers, record);
            }
            MetadataRecord::Topic(record) => return self.topics.create(record),
            MetadataRecord::Partition(record) => return self.topics.describe(&record),
            MetadataRecord::PartitionChange(record) => return self.topics.change(&record),
            MetadataRecord::RemoveTopic(record) => {
                let name = self.topics.remove(record.topic_id)?;
                self.configs.remove_topic(&name);
            }
            MetadataRecord::ClearElr(record) => return self.topics.clear_elr(record),
            MetadataRecord::Config(record) => self.configs.apply(record),
            MetadataRecord::FeatureLevel(record) => return self.features.apply(record),
            MetadataRecord::ClientQuota(record) => self.quotas.apply(record),
            MetadataRecord::ProducerIds(record) => return self.hand_out(&record),
            MetadataRecord::AccessControlEntry(record) => access::add_acl(&mut self.acls, record),
            MetadataRecord::RemoveAccessControlEntry(record) => {
                return access::remove_acl(&mut self.acls, record.id);
            }
            MetadataRecord::UserScramCredential(record) => {
                access::set_credential(&mut self.credentials, record);
            }
            MetadataRecord::RemoveUserScramCredential(record) => {
                return access::remove_credential(&mut self.credentials, record);
            }
            MetadataRecord::DelegationToken(record) => access::set_token(&mut self.tokens, record),
            MetadataRecord::RemoveDelegationToken(record) => {
                self.tokens.remove(record.token_id.as_str());
            }
            MetadataRecord::NoOp(_)
            | MetadataRecord::ZkMigrationState(_)
            | MetadataRecord::BeginTransaction(_)
            | MetadataRecord::EndTransaction(_)
            | MetadataRecord::AbortTransaction(_) => {}
        }
        Ok(())
    }

    fn hand_out(&mut self, record: &ProducerIds) -> Result<(), Refused> {
        let (free, found) = (self.next_producer_id.unwrap_or(-1), record.next_producer_id);
        if found <= free {
            return Err(Refused::ProducerIdsUsed { free, found });
        }
        self.next_producer_id = Some(found);
        Ok(())
    }

    /// The records that make this state out of nothing, each with its version, in the order of
    /// Kafka's snapshots. Versions are those of `metadata.version`; where the state does not fit
    /// into them, which no log of Kafka's brings about, the oldest that takes it.
    ///
    /// [`MetadataImage::into_records`] of a clone, which costs nothing.
    pub fn records(&self) -> impl Iterator<Item = (MetadataRecord, i16)> + Send + 'static {
        self.clone().into_records()
    }

    /// As [`MetadataImage::records`]. Of topics and configs none is made before it is asked for.
    pub fn into_records(self) -> impl Iterator<Item = (MetadataRecord, i16)> + Send + 'static {
        let version = self.features.partition_version();
        let (topics, configs) = (self.topics.clone(), self.configs.clone());
        let before: Vec<_> = self.records_before_topics().collect();
        let after = std::iter::once_with(move || self.records_after_configs().collect::<Vec<_>>());
        before
            .into_iter()
            .chain(topics.into_records(version))
            .chain(configs.into_records())
            .chain(after.flatten())
    }

    fn records_before_topics(&self) -> impl Iterator<Item = (MetadataRecord, i16)> {
        let brokers = self.brokers.iter();
        let brokers = brokers.map(|(_, broker)| brokers::broker_record(broker, &self.features));
        let controllers = self.controllers.iter().map(|(_, one)| ((**one).clone().into(), 0));
        self.features.records().chain(brokers).chain(controllers)
    }

    fn records_after_configs(&self) -> impl Iterator<Item = (MetadataRecord, i16)> {
        let producer_ids = self.next_producer_id.map(|next_producer_id| {
            let record = ProducerIds { broker_id: -1, next_producer_id, ..ProducerIds::default() };
            (record.into(), 0)
        });
        let acls = self.acls.iter().map(|(_, acl)| ((**acl).clone().into(), 0));
        let scram = self.credentials.iter().map(|(_, one)| ((**one).clone().into(), 0));
        let tokens = self.tokens.iter().map(|(_, token)| ((**token).clone().into(), 0));
        self.quotas.records().chain(producer_ids).chain(acls).chain(scram).chain(tokens)
    }
}
