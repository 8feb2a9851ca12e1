//! Records without a state of their own: the marks of metadata transactions (KIP-868), and records
//! that change nothing.

use crate::Error;
use crate::coder::{Coder, Tags, Walk};

/// A metadata transaction begins.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BeginTransaction {
    /// Tag 0: what for, in words.
    pub name: Option<String>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for BeginTransaction {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        let name = &mut self.name;
        c.tags(&mut self.tags, |c, open| {
            c.tag(open, 0, name, None, |c, name| c.nullable_string("Name", name))
        })
    }
}

/// A metadata transaction takes effect.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EndTransaction {
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for EndTransaction {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.unknown_tags(&mut self.tags)
    }
}

/// A metadata transaction has no effect.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AbortTransaction {
    /// Tag 0: why, in words.
    pub reason: Option<String>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for AbortTransaction {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        let reason = &mut self.reason;
        c.tags(&mut self.tags, |c, open| {
            c.tag(open, 0, reason, None, |c, reason| c.nullable_string("Reason", reason))
        })
    }
}

/// Nothing, so that the high watermark moves.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NoOp {
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for NoOp {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.unknown_tags(&mut self.tags)
    }
}

/// How far the migration from ZooKeeper was.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ZkMigrationState {
    /// 0 none, 1 during, 2 before, 3 after the migration, 4 ZooKeeper alone.
    pub zk_migration_state: i8,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for ZkMigrationState {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i8("ZkMigrationState", &mut self.zk_migration_state)?;
        c.unknown_tags(&mut self.tags)
    }
}
