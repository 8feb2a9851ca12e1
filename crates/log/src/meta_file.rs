//! `meta.properties`: whose directory this is. Written once, by `format`, as the last file: where
//! it is, formatting was complete.

use crate::Error;
use crate::disk::Disk;
use crate::error::BadText;
use crate::file::read_file;
use bytes::Bytes;
use quorate_base::{ReplicaId, Uuid};

/// Its name.
pub(crate) const NAME: &str = "meta.properties";

/// The cluster, the node and the directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meta {
    /// `cluster.id`
    pub cluster: String,
    /// `node.id`
    pub node: ReplicaId,
    /// `directory.id`; absent in directories that Kafka made before it knew them.
    pub directory: Option<Uuid>,
}

impl Meta {
    /// Reads the file of a directory.
    pub fn read<D: Disk>(disk: &mut D) -> Result<Meta, Error> {
        match read_file(disk, NAME)? {
            Some(bytes) => Meta::decode(&bytes).map_err(|bad| bad.at(NAME)),
            None => Err(Error::NotFormatted { path: NAME.to_owned() }),
        }
    }

    /// Whether the directory belongs to the configured node, and cluster where one is configured.
    pub fn check(&self, cluster: Option<&str>, node: ReplicaId) -> Result<(), Error> {
        let foreign = |property, expected: String, found: String| Error::Foreign {
            path: NAME.to_owned(),
            property,
            expected,
            found,
        };
        match cluster {
            Some(cluster) if cluster != self.cluster => {
                Err(foreign("cluster.id", cluster.to_owned(), self.cluster.clone()))
            }
            Some(_) | None if node != self.node => {
                Err(foreign("node.id", node.to_string(), self.node.to_string()))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The file, version 1.
    pub(crate) fn encode(&self) -> Bytes {
        let mut text = String::from("version=1\n");
        text.push_str(&format!("cluster.id={}\n", escape(&self.cluster)));
        text.push_str(&format!("node.id={}\n", self.node));
        if let Some(directory) = self.directory {
            text.push_str(&format!("directory.id={directory}\n"));
        }
        text.into()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Meta, BadText> {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| BadText::new(error.valid_up_to(), "text", "other bytes"))?;
        let properties = properties(text);
        let find = |name: &str| properties.iter().find(|(_, key, _)| key == name);
        let need = |name: &str| {
            find(name).ok_or_else(|| BadText::new(text.len(), format!("a line {name}="), "none"))
        };
        let (at, _, version) = need("version")?;
        if version != "1" {
            let found = match version.as_str() {
                "0" => "0 (a directory of the times of ZooKeeper)",
                other => other,
            };
            return Err(BadText::new(*at, "version=1", found));
        }
        let (_, _, cluster) = need("cluster.id")?;
        let (at, _, node) = need("node.id")?;
        let parsed = node.parse::<i32>().ok().and_then(|node| u32::try_from(node).ok());
        let node = parsed.ok_or_else(|| BadText::new(*at, "node.id from 0 to 2147483647", node))?;
        let directory =
            match find("directory.id") {
                Some((at, _, text)) => Some(text.parse::<Uuid>().map_err(|_| {
                    BadText::new(*at, "directory.id of 22 characters", text.as_str())
                })?),
                None => None,
            };
        let directory = directory.and_then(Uuid::known);
        Ok(Meta { cluster: cluster.clone(), node: ReplicaId(node), directory })
    }
}

/// Position, key and value of each line of a Java properties file.
fn properties(text: &str) -> Vec<(usize, String, String)> {
    let mut position = 0;
    let mut found = Vec::new();
    for line in text.split_inclusive('\n') {
        let at = position;
        position += line.len();
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let (key, value) = line.split_once(['=', ':']).unwrap_or((line, ""));
        found.push((at, unescape(key.trim_end()), unescape(value.trim_start())));
    }
    found
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let next = if character == '\\' { characters.next() } else { Some(character) };
        plain.extend(next);
    }
    plain
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '\\' | '=' | ':' | '#' | '!') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> Meta {
        Meta {
            cluster: "U7HrM6vDTwWK2XclkAu2_g".to_owned(),
            node: ReplicaId(1),
            directory: Some("dP9DCmJHzi2tQ-b3VuMiuw".parse().unwrap()),
        }
    }

    #[test]
    fn order_and_comments_do_not_matter() {
        let text = "#\n#Sun Nov 29 23:28:18 UTC 2026\nnode.id=1\n! x\n\
                    directory.id=dP9DCmJHzi2tQ-b3VuMiuw\nversion=1\n\
                    cluster.id = U7HrM6vDTwWK2XclkAu2_g\n";
        assert_eq!(Meta::decode(text.as_bytes()).unwrap(), meta());
        assert_eq!(Meta::decode(&meta().encode()).unwrap(), meta());
        let odd = Meta { cluster: "a=b:#\\c".to_owned(), ..meta() };
        assert_eq!(Meta::decode(&odd.encode()).unwrap(), odd);
    }

    #[test]
    fn damage_is_named() {
        let check = |text: &str, expected: &str, found: &str| {
            let bad = Meta::decode(text.as_bytes()).unwrap_err();
            assert_eq!((bad.expected.as_str(), bad.found.as_str()), (expected, found), "{text}");
        };
        check("", "a line version=", "none");
        check("version=2", "version=1", "2");
        check("version=0\nbroker.id=1", "version=1", "0 (a directory of the times of ZooKeeper)");
        check("version=1", "a line cluster.id=", "none");
        check("version=1\ncluster.id=x\n", "a line node.id=", "none");
        check("version=1\ncluster.id=x\nnode.id=-1", "node.id from 0 to 2147483647", "-1");
    }

    #[test]
    fn another_clusters_or_nodes_directory_is_refused_with_both_names() {
        let meta = meta();
        meta.check(None, ReplicaId(1)).unwrap();
        meta.check(Some("U7HrM6vDTwWK2XclkAu2_g"), ReplicaId(1)).unwrap();
        let error = meta.check(Some("other"), ReplicaId(1)).unwrap_err().to_string();
        assert!(error.contains("cluster.id=U7HrM6vDTwWK2XclkAu2_g, but other"), "{error}");
        let error = meta.check(None, ReplicaId(2)).unwrap_err().to_string();
        assert!(error.contains("node.id=1, but 2"), "{error}");
    }
}
