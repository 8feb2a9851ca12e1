//! All scenarios, by name.

mod checker;
mod cleaned;
mod company;
mod directories;
mod downloads;
mod dump;
mod formatting;
mod full_disk;
mod metadata;
mod names;
mod nodes;
mod observe;
mod observers;
mod older;
mod quorum_asked;
mod quorum_tool;
mod recovering;
mod shell;
mod snapshots;
mod voters;

use crate::scenario::Run::{Disks, Kafka, Porcupine};
use crate::scenario::Scenario;

pub const ALL: &[Scenario] = &[
    Scenario { name: "kafkas_dump_tool_reads_our_logs_after_kills", run: Kafka(dump::after_kills) },
    Scenario { name: "kafkas_dump_tool_finds_our_indexes_sane", run: Kafka(dump::indexes) },
    Scenario { name: "kafkas_dump_tool_reads_what_we_cleaned", run: Kafka(cleaned::segments) },
    Scenario { name: "kafkas_dump_tool_reads_our_snapshots", run: Kafka(snapshots::store) },
    Scenario {
        name: "kafkas_dump_tool_reads_snapshots_without_keys",
        run: Kafka(snapshots::values),
    },
    Scenario { name: "both_dump_tools_agree_on_kafkas_snapshots", run: Kafka(snapshots::fixtures) },
    Scenario { name: "kafka_reads_every_metadata_record_of_ours", run: Kafka(metadata::drawn) },
    Scenario { name: "kafkas_shell_sees_the_state_that_we_see", run: Kafka(shell::fixtures) },
    Scenario { name: "kafkas_storage_tool_knows_our_directories", run: Kafka(directories::ours) },
    Scenario {
        name: "both_storage_tools_write_the_same_files",
        run: Kafka(formatting::same_files),
    },
    Scenario {
        name: "what_kafkas_storage_tool_formats_starts_here",
        run: Kafka(formatting::kafkas_run_ours),
    },
    Scenario {
        name: "kafkas_controllers_lead_on_what_we_format",
        run: Kafka(formatting::ours_run_kafkas),
    },
    Scenario {
        name: "kafkas_controllers_lead_what_we_recovered",
        run: Kafka(recovering::kafkas_controllers),
    },
    Scenario { name: "our_log_tools_read_a_running_kafka", run: Kafka(directories::kafkas) },
    Scenario { name: "the_quorum_tool_of_kafka_3_9_works", run: Kafka(quorum_tool::older_status) },
    Scenario { name: "kafkas_quorum_tool_sees_our_status", run: Kafka(quorum_tool::status) },
    Scenario { name: "kafkas_quorum_tool_sees_true_lag", run: Kafka(quorum_tool::lag) },
    Scenario {
        name: "our_quorum_tool_says_of_kafkas_quorum_what_kafkas_says",
        run: Kafka(quorum_asked::of_kafkas),
    },
    Scenario {
        name: "our_quorum_tool_says_of_our_quorum_what_kafkas_says",
        run: Kafka(quorum_asked::of_ours),
    },
    Scenario { name: "a_node_of_kafkas_takes_a_place_of_ours", run: Kafka(nodes::takes_a_place) },
    Scenario { name: "a_node_of_kafkas_leads_ours", run: Kafka(nodes::leads) },
    Scenario {
        name: "leadership_moves_between_kafkas_nodes_and_ours",
        run: Kafka(nodes::leads_two),
    },
    Scenario {
        name: "every_frame_between_kafka_4_0_and_ours_is_known",
        run: Kafka(older::follows_and_leads),
    },
    Scenario { name: "snapshots_are_downloaded_both_ways", run: Kafka(downloads::both_ways) },
    Scenario {
        name: "our_observer_downloads_from_a_controller_of_kafkas",
        run: Kafka(downloads::of_a_controller),
    },
    Scenario { name: "our_voter_among_controllers_of_kafkas", run: Kafka(company::static_voters) },
    Scenario {
        name: "our_voter_among_voters_in_kafkas_log",
        run: Kafka(company::voters_in_the_log),
    },
    Scenario { name: "kafkas_tool_changes_our_voters", run: Kafka(voters::by_kafkas_tool) },
    Scenario { name: "kafkas_tool_moves_our_voters_into_the_log", run: Kafka(voters::upgraded) },
    Scenario { name: "our_node_joins_kafkas_voters", run: Kafka(company::ours_joins) },
    Scenario {
        name: "kafkas_broker_and_controller_follow_our_quorum",
        run: Kafka(observers::follow_ours),
    },
    Scenario { name: "a_company_lives_through_random_kills", run: Kafka(company::random_kills) },
    Scenario { name: "what_observe_shows_is_what_kafkas_tools_say", run: Kafka(observe::kafka) },
    Scenario {
        name: "an_independent_checker_accepts_the_kill_loop",
        run: Porcupine(checker::accepts_the_kill_loop),
    },
    Scenario { name: "names_come_late_and_move", run: Disks(names::come_late_and_move) },
    Scenario { name: "nodes_live_through_full_disks", run: Disks(full_disk::lives_through) },
    Scenario { name: "two_checkers_agree_on_random_histories", run: Porcupine(checker::agrees) },
];
