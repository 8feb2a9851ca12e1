//! All scenarios, by name.

mod dump;
mod quorum_tool;

use crate::scenario::Scenario;

pub const ALL: &[Scenario] = &[
    Scenario { name: "kafkas_dump_tool_reads_our_logs_after_kills", run: dump::after_kills },
    Scenario { name: "kafkas_quorum_tool_sees_our_status", run: quorum_tool::status },
    Scenario { name: "kafkas_quorum_tool_sees_true_lag", run: quorum_tool::lag },
];
