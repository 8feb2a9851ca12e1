//! ACLs, SCRAM credentials and delegation tokens, each kept as the record that would make it.
//!
//! Nothing here judges an access.

use super::refused::Refused;
use super::shared_map::SharedMap;
use quorate_base::Uuid;
use quorate_wire::Tags;
use quorate_wire::record::metadata::{
    AccessControlEntry, DelegationToken, RemoveUserScramCredential, UserScramCredential,
};
use std::sync::Arc;

/// All ACLs, by id.
pub type Acls = SharedMap<Uuid, Arc<AccessControlEntry>>;

/// All SCRAM credentials, by mechanism and user.
pub type Credentials = SharedMap<(i8, Arc<str>), Arc<UserScramCredential>>;

/// All delegation tokens, by id.
pub type Tokens = SharedMap<Arc<str>, Arc<DelegationToken>>;

pub(super) fn add_acl(acls: &mut Acls, record: AccessControlEntry) {
    acls.insert(record.id, Arc::new(AccessControlEntry { tags: Tags::new(), ..record }));
}

pub(super) fn remove_acl(acls: &mut Acls, id: Uuid) -> Result<(), Refused> {
    acls.remove(&id).map(drop).ok_or(Refused::UnknownAcl { id })
}

pub(super) fn set_credential(credentials: &mut Credentials, record: UserScramCredential) {
    let key = (record.mechanism, Arc::from(record.name.as_str()));
    credentials.insert(key, Arc::new(UserScramCredential { tags: Tags::new(), ..record }));
}

pub(super) fn remove_credential(
    credentials: &mut Credentials,
    record: RemoveUserScramCredential,
) -> Result<(), Refused> {
    let (mechanism, user) = (record.mechanism, record.name);
    let removed = credentials.remove(&(mechanism, Arc::from(user.as_str())));
    removed.map(drop).ok_or(Refused::UnknownCredential { user, mechanism })
}

pub(super) fn set_token(tokens: &mut Tokens, record: DelegationToken) {
    let key = Arc::from(record.token_id.as_str());
    tokens.insert(key, Arc::new(DelegationToken { tags: Tags::new(), ..record }));
}
