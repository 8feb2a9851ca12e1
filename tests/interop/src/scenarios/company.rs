//! A voter of ours among Apache Kafka's own controllers, with a broker of Kafka's behind them: it
//! replicates, acknowledges, votes, makes the majority, and its log is theirs byte by byte.
//!
//! It leaves leading to the others, since what a controller of Kafka's has to do besides is not in
//! a machine that only listens (`quorate.machine=kafka`), and is registered with them as a
//! controller.

mod cluster;
mod kills;

use crate::scenario::{Failure, Stage};
use cluster::{BROKER, Company, OURS};
pub use kills::random_kills;
use std::path::Path;

/// With `controller.quorum.voters` (kraft.version 0).
pub fn static_voters(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    votes(Company::format(stage, directory, false)?)
}

/// With voters in the log (kraft.version 1); Kafka's storage tool formats ours as well.
pub fn voters_in_the_log(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    votes(Company::format(stage, directory, true)?)
}

/// Kafka's controllers are killed in turn, ours is stopped and started: the cluster goes on.
fn votes(mut quorum: Company<'_>) -> Result<(), Failure> {
    quorum.start(1)?;
    quorum.start(2)?;
    quorum.start(OURS)?;
    let first = quorum.follow(None)?;
    quorum.tool_sees_ours(first)?;
    quorum.tool_lists_ours(first)?;

    quorum.start(BROKER)?;
    quorum.create_topic("before")?;
    quorum.produce_and_consume("before", 20)?;

    // Ours elects the other one, and is in the majority from now on.
    let second = 3 - first;
    quorum.kill(first);
    quorum.follow(Some(second))?;
    quorum.create_topic("between")?;
    quorum.start(first)?;

    // Without ours the two of Kafka's go on; it comes back and catches up.
    let end = quorum.kill_ours()?;
    quorum.create_topic("without")?;
    quorum.replace_our_disk()?;
    quorum.start(OURS)?;
    quorum.follow(Some(second))?;
    quorum.beyond(end + 5)?;
    quorum.tool_sees_ours(second)?;
    // Static voters go into the log, once each has told the leader of itself.
    quorum.raise_kraft_version(second)?;

    // Only ours and the leader are left: nothing is committed without it.
    quorum.kill(first);
    quorum.create_topic("after")?;
    quorum.produce_and_consume("after", 20)?;
    quorum.produce_and_consume("before", 20)?;

    // The one that comes back lacks what was committed since, so only ours can be elected: it leads
    // until the other has caught up, and hands over.
    quorum.kill(second);
    quorum.start(first)?;
    quorum.follow(Some(first))?;
    quorum.create_topic("restored")?;
    quorum.produce_and_consume("after", 20)?;

    quorum.kill(BROKER);
    let committed = quorum.committed()?;
    quorum.kill(OURS);
    quorum.kill(first);
    quorum.ours_led_and_registered()?;
    quorum.same_logs(committed)?;
    quorum.said_no_error()
}
