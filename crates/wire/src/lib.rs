//! Kafka's messages, byte for byte: a pure codec.
