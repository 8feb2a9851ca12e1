//! A deterministic world that runs the real replica under faults.
