//! State machines on a replicated log: the trait, sessions and the key-value store.
