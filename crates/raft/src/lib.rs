//! The Raft dialect of Kafka's metadata quorum: pure, no clock, no disk, no socket.
