//! What a refused format says to a person: what is wrong, what it means, what to do.

use super::{FormatError, founding};
use std::fmt;

impl FormatError {
    /// What is wrong with who is to vote.
    pub(super) fn of_voters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatError::TwoVoterLists { flag } => write!(
                f,
                "{flag} and controller.quorum.voters both say who votes: with the flag the voters are in the log and \
                 can be changed, with the setting they are in every node's file; remove controller.quorum.voters and \
                 set controller.quorum.bootstrap.servers, or leave the flag out"
            ),
            FormatError::KraftVersion { level, flag: Some(flag) } => write!(
                f,
                "kraft.version={level} does not go with {flag}, whose voters are in the log: that is \
                 kraft.version={}, also when it is not said; leave the feature out",
                founding::KRAFT_VERSION
            ),
            FormatError::KraftVersion { level, flag: None } => write!(
                f,
                "kraft.version={level} needs voters that are in the log, and nothing here says who they are: add \
                 --standalone, --initial-controllers or --no-initial-controllers and remove \
                 controller.quorum.voters, or leave the feature out"
            ),
            FormatError::NotAmong { node } => write!(
                f,
                "node {node} is not among the initial controllers: it would know voters that it has never heard of, \
                 and could not be one; add it to the list, the same on every node, or format it with \
                 --no-initial-controllers if it joins later"
            ),
            FormatError::OtherVoters { directory, how } => write!(
                f,
                "{} is formatted already, and otherwise: {how}. Nothing was changed. No node has used it: remove it, and \
                 format it again, or ask for what it is",
                directory.display()
            ),
            FormatError::BadController { text, why } => write!(
                f,
                "'{text}' is no initial controller: {why}; write ID@HOST:PORT:DIRECTORY, such as \
                 1@a.example:9093:JEXY6aqzQY-32P5TStzaFg, one for each voter with commas between"
            ),
            FormatError::SameController { what, one, other } => write!(
                f,
                "the initial controllers {one} and {other} share {what}: they would be taken for each other; give \
                 each its own"
            ),
            FormatError::NoAddress { listener, at, why } => write!(
                f,
                "the voters would be told that this node is at {at}, which {why}: set advertised.listeners, or a \
                 host and port in listeners, for {listener}"
            ),
            FormatError::BadCluster(_)
            | FormatError::NoId
            | FormatError::Directory { .. }
            | FormatError::Lock(_)
            | FormatError::Files { .. }
            | FormatError::NoEntropy(_)
            | FormatError::UnknownRelease { .. }
            | FormatError::TwoReleases
            | FormatError::BadFeature { .. }
            | FormatError::UnknownFeature { .. }
            | FormatError::BadLevel { .. }
            | FormatError::FeatureNeeds { .. }
            | FormatError::NoScramYet { .. }
            | FormatError::BadScram { .. } => Ok(()),
        }
    }

    /// What is wrong with the first records of a Kafka cluster.
    pub(super) fn of_records(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatError::UnknownRelease { release, least, most } => write!(
                f,
                "'{release}' is no release that a cluster can begin with: write {least} to {most}, or a release such as \
                 4.3 for its newest level"
            ),
            FormatError::TwoReleases => f.write_str(
                "--release-version and --feature metadata.version=… say the same thing twice: leave one out",
            ),
            FormatError::BadFeature { text } => {
                write!(f, "'{text}' is no level of a feature: write NAME=LEVEL, such as group.version=1")
            }
            FormatError::UnknownFeature { name, known } => {
                write!(f, "there is no feature '{name}'; there are {}", known.join(", "))
            }
            FormatError::BadLevel { name, level, least, most } => {
                write!(f, "{name}={level} is no level that there is: write {least} to {most}")
            }
            FormatError::FeatureNeeds { name, level, needs, has } => write!(
                f,
                "{name}={level} needs the release {needs}, and this cluster would begin with {has}: name a newer one \
                 with --release-version, or leave the feature out"
            ),
            FormatError::NoScramYet { has, needs } => write!(
                f,
                "a cluster that begins with {has} has no SCRAM credentials in its metadata: name {needs} or newer with \
                 --release-version, or leave --add-scram out"
            ),
            FormatError::BadScram { why } => write!(
                f,
                "this is no SCRAM credential: {why}; write SCRAM-SHA-256=[name=alice,password=…], with \
                 iterations=…, salt=… (base64), or saltedpassword=… (base64) in place of the password"
            ),
            FormatError::BadCluster(_)
            | FormatError::NoId
            | FormatError::Directory { .. }
            | FormatError::Lock(_)
            | FormatError::Files { .. }
            | FormatError::NoEntropy(_)
            | FormatError::TwoVoterLists { .. }
            | FormatError::KraftVersion { .. }
            | FormatError::NotAmong { .. }
            | FormatError::OtherVoters { .. }
            | FormatError::BadController { .. }
            | FormatError::SameController { .. }
            | FormatError::NoAddress { .. } => Ok(()),
        }
    }
}
