//! Records about who may do what: ACLs, SCRAM credentials, delegation tokens.
//!
//! Field names and numbers are Kafka's. Salts and keys are secrets in part: what prints a record
//! prints them, as Kafka's own tool does.

use crate::Error;
use crate::coder::{Coder, Tags, Walk};
use bytes::Bytes;
use quorate_base::Uuid;

/// An ACL is created.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccessControlEntry {
    /// Made for it by the controller.
    pub id: Uuid,
    /// 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user.
    pub resource_type: i8,
    /// The resource, or what its name begins with.
    pub resource_name: String,
    /// 3 literal, 4 prefixed.
    pub pattern_type: i8,
    /// Such as `User:alice`.
    pub principal: String,
    /// From where; `*` anywhere.
    pub host: String,
    /// 2 all, 3 read, 4 write and so on.
    pub operation: i8,
    /// 2 deny, 3 allow.
    pub permission_type: i8,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for AccessControlEntry {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.uuid("Id", &mut self.id)?;
        c.i8("ResourceType", &mut self.resource_type)?;
        c.string("ResourceName", &mut self.resource_name)?;
        c.i8("PatternType", &mut self.pattern_type)?;
        c.string("Principal", &mut self.principal)?;
        c.string("Host", &mut self.host)?;
        c.i8("Operation", &mut self.operation)?;
        c.i8("PermissionType", &mut self.permission_type)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// An ACL is deleted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemoveAccessControlEntry {
    /// Which one.
    pub id: Uuid,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for RemoveAccessControlEntry {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.uuid("Id", &mut self.id)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A user's SCRAM credential is set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UserScramCredential {
    /// The user.
    pub name: String,
    /// 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.
    pub mechanism: i8,
    /// The salt.
    pub salt: Bytes,
    /// The stored key.
    pub stored_key: Bytes,
    /// The server key.
    pub server_key: Bytes,
    /// How many rounds.
    pub iterations: i32,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for UserScramCredential {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.string("Name", &mut self.name)?;
        c.i8("Mechanism", &mut self.mechanism)?;
        c.bytes("Salt", &mut self.salt)?;
        c.bytes("StoredKey", &mut self.stored_key)?;
        c.bytes("ServerKey", &mut self.server_key)?;
        c.i32("Iterations", &mut self.iterations)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A user's SCRAM credential is deleted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemoveUserScramCredential {
    /// The user.
    pub name: String,
    /// As in [`UserScramCredential`].
    pub mechanism: i8,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for RemoveUserScramCredential {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.string("Name", &mut self.name)?;
        c.i8("Mechanism", &mut self.mechanism)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A delegation token is created or renewed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DelegationToken {
    /// Whose it is.
    pub owner: String,
    /// Who asked for it.
    pub requester: String,
    /// Who may renew it.
    pub renewers: Vec<String>,
    /// When it was made, in milliseconds since 1970.
    pub issue_timestamp: i64,
    /// Until when it can be renewed.
    pub max_timestamp: i64,
    /// Until when it is valid.
    pub expiration_timestamp: i64,
    /// Its id.
    pub token_id: String,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for DelegationToken {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.string("Owner", &mut self.owner)?;
        c.string("Requester", &mut self.requester)?;
        c.array("Renewers", &mut self.renewers, version)?;
        c.i64("IssueTimestamp", &mut self.issue_timestamp)?;
        c.i64("MaxTimestamp", &mut self.max_timestamp)?;
        c.i64("ExpirationTimestamp", &mut self.expiration_timestamp)?;
        c.string("TokenId", &mut self.token_id)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A delegation token is deleted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemoveDelegationToken {
    /// Which one.
    pub token_id: String,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for RemoveDelegationToken {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.string("TokenId", &mut self.token_id)?;
        c.unknown_tags(&mut self.tags)
    }
}
