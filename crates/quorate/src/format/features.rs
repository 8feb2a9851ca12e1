//! The features of a new Kafka cluster: which there are, and which level each release begins with.
//!
//! Names, levels and what each needs are those of Apache Kafka 4.3.1, which `tests/interop` holds
//! them against. Only Kafka's controllers look at them; `kraft.version` is the quorum's own and
//! never among the records.

use super::FormatError;
use quorate_wire::record::metadata::{FeatureLevel, MetadataRecord};

/// The feature that all others of Kafka's metadata rest on.
const METADATA_VERSION: &str = "metadata.version";
/// The feature of the quorum itself.
pub(super) const KRAFT: &str = "kraft.version";

/// The metadata versions by level: the first is 7, the last that of Kafka 4.3.
const RELEASES: [&str; 24] = [
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2",
    "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0",
    "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0",
];
const OLDEST: i16 = 7;
const NEWEST: i16 = OLDEST + RELEASES.len() as i16 - 1;
/// From this metadata version on records may hold SCRAM credentials.
const SCRAM: i16 = 11;

/// A feature besides.
struct Feature {
    name: &'static str,
    most: i16,
    /// The metadata version that it needs.
    needs: i16,
    /// From which metadata version on a new cluster begins with the highest level, else with 0.
    begins: i16,
}

/// By name, as their records come.
const FEATURES: [Feature; 5] = [
    Feature { name: "eligible.leader.replicas.version", most: 1, needs: 23, begins: 26 },
    Feature { name: "group.version", most: 1, needs: OLDEST, begins: 22 },
    Feature { name: "share.version", most: 1, needs: OLDEST, begins: 28 },
    Feature { name: "streams.version", most: 1, needs: OLDEST, begins: 29 },
    Feature { name: "transaction.version", most: 2, needs: OLDEST, begins: 24 },
];

/// A metadata version in words, for messages.
fn release_of(level: i16) -> &'static str {
    let at = usize::try_from(level - OLDEST).unwrap_or_default();
    RELEASES.get(at).copied().unwrap_or("unknown")
}

/// The levels that a new cluster begins with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Levels {
    metadata: i16,
    /// The others, by name, above 0.
    others: Vec<(&'static str, i16)>,
}

/// Those of a release, the newest without one, with these levels in place of its own.
pub(super) fn levels(
    release: Option<&str>,
    asked: &[(String, i16)],
) -> Result<Levels, FormatError> {
    let mut metadata = match release {
        Some(release) => level_of(release)?,
        None => NEWEST,
    };
    let mut chosen = FEATURES.map(|_| None);
    for (name, level) in asked {
        if name == METADATA_VERSION {
            if release.is_some() {
                return Err(FormatError::TwoReleases);
            }
            metadata = in_range(METADATA_VERSION, *level, OLDEST, NEWEST)?;
        } else if name != KRAFT {
            let at = FEATURES.iter().position(|feature| feature.name == name);
            let at = at.ok_or_else(|| unknown(name))?;
            chosen[at] = Some(in_range(FEATURES[at].name, *level, 0, FEATURES[at].most)?);
        }
    }
    let mut others = Vec::new();
    for (feature, chosen) in FEATURES.iter().zip(chosen) {
        let own = if metadata >= feature.begins { feature.most } else { 0 };
        let level = chosen.unwrap_or(own);
        if level > 0 && metadata < feature.needs {
            let (needs, has) = (release_of(feature.needs), release_of(metadata));
            return Err(FormatError::FeatureNeeds { name: feature.name, level, needs, has });
        }
        if level > 0 {
            others.push((feature.name, level));
        }
    }
    Ok(Levels { metadata, others })
}

impl Levels {
    /// The metadata version in words, such as `4.3-IV0`.
    pub(super) fn release(&self) -> &'static str {
        release_of(self.metadata)
    }

    /// Refuses credentials that the release does not know.
    pub(super) fn check_scram(&self) -> Result<(), FormatError> {
        match self.metadata >= SCRAM {
            true => Ok(()),
            false => Err(FormatError::NoScramYet { has: self.release(), needs: release_of(SCRAM) }),
        }
    }

    /// As records: the metadata version, then the others by name.
    pub(super) fn records(&self) -> Vec<MetadataRecord> {
        let metadata = std::iter::once((METADATA_VERSION, self.metadata));
        let all = metadata.chain(self.others.iter().copied());
        all.map(|(name, feature_level)| {
            FeatureLevel { name: name.into(), feature_level, ..FeatureLevel::default() }.into()
        })
        .collect()
    }
}

/// `4.3-IV0`; or `4.3` and `4.3.1` for the newest of that release.
fn level_of(release: &str) -> Result<i16, FormatError> {
    let exact = RELEASES.iter().position(|known| *known == release);
    let short = || {
        let mut parts = release.split('.');
        let (major, minor) = (parts.next()?, parts.next()?);
        let patch = parts.next().is_none_or(|patch| patch.parse::<u8>().is_ok());
        let prefix = format!("{major}.{minor}-");
        let plain = patch && parts.next().is_none();
        RELEASES.iter().rposition(|known| plain && known.starts_with(&prefix))
    };
    let found = exact.or_else(short).and_then(|at| i16::try_from(at).ok());
    found.map(|at| OLDEST + at).ok_or_else(|| FormatError::UnknownRelease {
        release: release.to_owned(),
        least: RELEASES[0],
        most: RELEASES[RELEASES.len() - 1],
    })
}

fn in_range(name: &'static str, level: i16, least: i16, most: i16) -> Result<i16, FormatError> {
    match (least..=most).contains(&level) {
        true => Ok(level),
        false => Err(FormatError::BadLevel { name, level, least, most }),
    }
}

fn unknown(name: &str) -> FormatError {
    let known = [KRAFT, METADATA_VERSION].into_iter();
    let known = known.chain(FEATURES.iter().map(|feature| feature.name));
    FormatError::UnknownFeature { name: name.to_owned(), known: known.collect() }
}

/// `NAME=LEVEL`, as `--feature` takes it.
///
/// # Errors
/// [`FormatError::UnknownFeature`], and [`FormatError::BadFeature`] where it does not look so.
pub fn feature(text: &str) -> Result<(String, i16), FormatError> {
    let bad = || FormatError::BadFeature { text: text.to_owned() };
    let (name, level) = text.split_once('=').ok_or_else(bad)?;
    let level = level.trim().parse().map_err(|_| bad())?;
    let name = name.trim();
    let known = name == KRAFT || name == METADATA_VERSION;
    if !known && FEATURES.iter().all(|feature| feature.name != name) {
        return Err(unknown(name));
    }
    Ok((name.to_owned(), level))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Kafka 4.3.1's `version-mapping` prints, of the releases where something changes.
    #[test]
    fn each_release_begins_with_the_levels_of_kafkas() {
        let check = |release: &str, expected: &str| {
            let found = levels(Some(release), &[]).unwrap();
            let others: String = found
                .others
                .iter()
                .map(|(name, level)| format!(" {}={level}", &name[..2]))
                .collect();
            assert_eq!(format!("{}{others}", found.metadata), expected, "{release}");
        };
        check("3.3", "7");
        check("3.3-IV3", "7");
        check("3.5", "11");
        check("3.7", "19");
        check("3.9", "21");
        check("4.0-IV0", "22 gr=1");
        check("4.0-IV1", "23 gr=1");
        check("4.0-IV2", "24 gr=1 tr=2");
        check("4.0", "25 gr=1 tr=2");
        check("4.1-IV0", "26 el=1 gr=1 tr=2");
        check("4.2-IV0", "28 el=1 gr=1 sh=1 tr=2");
        check("4.2", "29 el=1 gr=1 sh=1 st=1 tr=2");
        check("4.3.1", "30 el=1 gr=1 sh=1 st=1 tr=2");
        assert_eq!(levels(None, &[]).unwrap(), levels(Some("4.3-IV0"), &[]).unwrap());
    }

    #[test]
    fn what_no_release_has_is_refused_with_what_there_is() {
        let refused = |release: Option<&str>, asked: &[(&str, i16)], says: &str| {
            let asked: Vec<(String, i16)> =
                asked.iter().map(|(name, level)| ((*name).to_owned(), *level)).collect();
            let why = levels(release, &asked).unwrap_err().to_string();
            assert!(why.contains(says), "{why}");
        };
        for release in ["3.2", "3.3-IV2", "4.4-IV0", "4.3.x", "4.3.1.2", "30", "4", ""] {
            refused(Some(release), &[], "3.3-IV3 to 4.3-IV0");
        }
        refused(None, &[("group.version", 2)], "0 to 1");
        refused(None, &[("group.version", -1)], "0 to 1");
        refused(None, &[("metadata.version", 31)], "7 to 30");
        refused(Some("4.0"), &[("metadata.version", 25)], "--release-version");
        refused(None, &[("no.version", 1)], "share.version");
        refused(Some("3.9"), &[("eligible.leader.replicas.version", 1)], "4.0-IV1");
        let why = feature("share.version=x").unwrap_err().to_string();
        assert!(why.contains("NAME=LEVEL"), "{why}");
        let changed = levels(None, &[feature("group.version=0").unwrap()]).unwrap();
        assert!(changed.others.iter().all(|(name, _)| *name != "group.version"));
        let older = levels(None, &[feature("metadata.version=25").unwrap()]).unwrap();
        assert_eq!(older, levels(Some("4.0"), &[]).unwrap());
    }
}
