//! A voter of ours among Apache Kafka's own controllers, with a broker of Kafka's behind them: it
//! replicates, acknowledges, votes, makes the majority, and its log is theirs byte by byte.
//!
//! It leaves leading to the others, since what a controller of Kafka's has to do besides is not in
//! a machine that only listens (`quorate.machine=kafka`), and is registered with them as a
//! controller.

mod cluster;
mod kills;

use crate::scenario::{Failure, PATIENCE, Stage, ensure};
use cluster::{BROKER, Company, OURS, Voters};
pub use kills::random_kills;
use quorate_processes::poll;
use std::path::Path;

/// With `controller.quorum.voters` (kraft.version 0).
pub fn static_voters(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    votes(Company::format(stage, directory, Voters::InFiles)?)
}

/// With voters in the log (kraft.version 1); Kafka's storage tool formats ours as well.
pub fn voters_in_the_log(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    votes(Company::format(stage, directory, Voters::InLog)?)
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
    quorum.shows_the_metadata()?;

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

/// Ours observes, becomes a voter of Kafka's quorum by our command, and takes the place of one of
/// Kafka's controllers; the broker notices nothing.
pub fn ours_joins(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let mut quorum = Company::format(stage, directory, Voters::OursJoins)?;
    quorum.start(1)?;
    quorum.start(2)?;
    quorum.start(OURS)?;
    quorum.start(BROKER)?;
    quorum.tool_names_voters(1, &[1, 2])?;
    quorum.create_topic("before")?;
    quorum.produce_and_consume("before", 20)?;

    // Where it listens has to be said the first time only if nobody has heard of it.
    quorum.change_voters(&["add", &quorum.place(OURS)])?;
    let leader = quorum.tool_names_voters(1, &[1, 2, OURS])?;
    let again = quorum.change_voters(&["add", &quorum.place(OURS)]);
    ensure(again.is_err_and(|Failure(why)| why.contains("is a voter already")), || {
        "a voter is added twice".into()
    })?;
    quorum.follow(Some(leader))?;
    quorum.tool_sees_ours(leader)?;
    quorum.create_topic("between")?;

    // The leader itself goes; the other one is left with ours, and they are a majority together.
    quorum.change_voters(&["remove", &leader.to_string()])?;
    let other = 3 - leader;
    quorum.tool_names_voters(other, &[other, OURS])?;
    quorum.kill(leader);
    quorum.follow(Some(other))?;
    quorum.create_topic("after")?;
    quorum.produce_and_consume("after", 20)?;
    quorum.produce_and_consume("before", 20)?;

    // And back.
    quorum.start(leader)?;
    // Kafka's takes its time to start, and only who copies the log is added.
    let mut said = Ok(String::new());
    let added = poll("Kafka's controller to be a voter again", 2 * PATIENCE, || {
        said = quorum.change_voters(&["add", &leader.to_string()]);
        said.is_ok().then_some(())
    });
    said?;
    added?;
    quorum.tool_names_voters(other, &[1, 2, OURS])?;

    // A disk is replaced in one step by leaders of ours alone; Kafka's is asked for two.
    quorum.lose_our_disk()?;
    let said = quorum.change_voters(&["replace-disk", &OURS.to_string()])?;
    ensure(said.contains("step 1 done") && said.contains("does not replace disks"), || said)?;
    quorum.said_that_it_has_no_vote()?;
    quorum.tool_names_voters(other, &[1, 2, OURS])?;
    quorum.change_voters(&["remove", &OURS.to_string()])?;
    quorum.tool_names_voters(other, &[1, 2])?;
    quorum.create_topic("last")?;

    quorum.kill(BROKER);
    let committed = quorum.committed()?;
    quorum.kill(OURS);
    quorum.kill(1);
    quorum.kill(2);
    quorum.same_logs(committed)?;
    quorum.said_no_error()
}
