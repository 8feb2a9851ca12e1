//! `partition.metadata`: the topic id of the partition.

use crate::error::BadText;
use bytes::Bytes;
use quorate_base::Uuid;

/// Its name.
pub(crate) const NAME: &str = "partition.metadata";

/// The file, version 0. Kafka ends it without a line feed.
pub(crate) fn encode(topic: Uuid) -> Bytes {
    format!("version: 0\ntopic_id: {topic}").into()
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Uuid, BadText> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| BadText::new(error.valid_up_to(), "text", "other bytes"))?;
    let (version, rest) = text.split_once('\n').unwrap_or((text, ""));
    if version != "version: 0" {
        return Err(BadText::new(0, "version: 0", version));
    }
    let topic = rest.trim_end().strip_prefix("topic_id: ").and_then(|id| id.parse().ok());
    topic.ok_or_else(|| BadText::new(version.len() + 1, "topic_id: and 22 characters", rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_kafkas() {
        let text = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ";
        assert_eq!(encode(Uuid::METADATA_TOPIC), text);
        assert_eq!(decode(text.as_bytes()).unwrap(), Uuid::METADATA_TOPIC);
        let bad = decode(b"version: 0\ntopic_id: AAAA").unwrap_err();
        assert_eq!((bad.position, bad.found.as_str()), (11, "topic_id: AAAA"));
        assert_eq!(decode(b"version: 1").unwrap_err().found, "version: 1");
    }
}
