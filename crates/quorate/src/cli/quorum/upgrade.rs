//! `quorate quorum upgrade`: from voters that the files name to voters that the log names
//! (`kraft.version` 0 to 1), of any quorum, Kafka's too. Once, while it runs, and never back.

use super::patience::{PAUSE, Patience};
use super::report::why;
use super::voters::{Found, How, look};
use crate::cli::controllers::{Silence, refused, to_leader};
use crate::cli::{Outcome, failed, out};
use clap::Parser;
use quorate::Uuid;
use quorate_wire::ErrorCode;
use quorate_wire::message::{FeatureUpdate, UpdateFeaturesRequest, UpdateFeaturesResponse};
use serde_json::json;
use std::time::Instant;
use tokio::time::{sleep, timeout};

/// The feature and its level.
const FEATURE: &str = "kraft.version";
const LEVEL: i16 = 1;

/// Static voters go into the log.
#[derive(Parser)]
pub(super) struct Upgrade {
    #[command(flatten)]
    how: How,
}

enum Answer {
    Done,
    Later(String),
    /// It was asked for, and whether it is done nobody said.
    Silent(String),
    Never(String),
}

/// What is known of the change.
#[derive(Default)]
struct Known {
    /// `None` where nobody said.
    changed: Option<bool>,
    ms: Option<u128>,
}

pub(super) async fn upgrade(args: Upgrade) -> Outcome {
    let mut known = Known { changed: Some(false), ms: None };
    let outcome = change(&args.how, &mut known).await;
    if args.how.common.json {
        let Known { changed, ms } = known;
        out::json(&json!({
            "feature": FEATURE, "level": LEVEL, "changed": changed, "ms": ms, "error": why(&outcome),
        }));
    }
    outcome
}

async fn change(how: &How, known: &mut Known) -> Outcome {
    let Found { servers, quorum, patience } = look(how).await?;
    let say = |words: &str| {
        if !how.common.json {
            out::line(words);
        }
    };
    // Of static voters leaders tell no directory but their own.
    let mut voters = quorum.voters.iter();
    if quorum.voters.len() > 1 && voters.all(|voter| voter.replica_directory_id != Uuid::ZERO) {
        say("the log names the voters already; nothing to do");
        return Ok(());
    }
    let start = Instant::now();
    loop {
        let late = |why: String| {
            failed(format!(
                "the voters stay where they are: within {} s {why}\nThe same command may be run again; \
                 --timeout lets it wait longer.",
                patience.secs()
            ))
        };
        match attempt(&servers, how.dry_run, patience).await {
            Answer::Done => break,
            Answer::Later(why) if patience.is_over() => return late(why),
            Answer::Silent(why) if patience.is_over() && how.dry_run => return late(why),
            Answer::Silent(why) if patience.is_over() => {
                known.changed = None;
                return failed(format!(
                    "whether the log names the voters now is not known: within {} s {why}\nRun the same command again: \
                     it says so, or does it.",
                    patience.secs()
                ));
            }
            Answer::Later(_) | Answer::Silent(_) => sleep(PAUSE.min(patience.left())).await,
            Answer::Never(why) => return failed(format!("the voters stay where they are: {why}")),
        }
    }
    let ms = start.elapsed().as_millis();
    *known = Known { changed: Some(!how.dry_run), ms: Some(ms) };
    say(&match how.dry_run {
        true => "the voters can be moved into the log; nothing was changed".to_owned(),
        false => format!(
            "the log names the voters from now on (kraft.version {LEVEL}, {ms} ms). controller.quorum.voters in \
             the files is ignored; put controller.quorum.bootstrap.servers in its place before the next start"
        ),
    });
    Ok(())
}

async fn attempt(servers: &[quorate::HostPort], dry_run: bool, patience: Patience) -> Answer {
    let request = UpdateFeaturesRequest {
        feature_updates: vec![FeatureUpdate {
            feature: FEATURE.to_owned(),
            max_version_level: LEVEL,
            ..FeatureUpdate::default()
        }],
        validate_only: dry_run,
        ..UpdateFeaturesRequest::default()
    };
    let mut leader = match to_leader(servers, patience.round()).await {
        Ok((_, leader)) => leader,
        Err(Silence::Wrong(why)) => return Answer::Never(why),
        Err(Silence::Nobody(why) | Silence::NoLeader(why)) => return Answer::Later(why),
    };
    let answer: UpdateFeaturesResponse =
        match timeout(patience.answer(), leader.ask(request, 1)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(Silence::Wrong(why))) => return Answer::Never(why),
            Ok(Err(Silence::Nobody(why) | Silence::NoLeader(why))) => return Answer::Silent(why),
            Err(_) => return Answer::Silent("the leader has not answered".to_owned()),
        };
    let of_feature = answer.results.into_iter().find(|result| result.feature == FEATURE);
    let (code, words) = match (answer.error_code, of_feature) {
        (ErrorCode::None, Some(result)) => (result.error_code, result.error_message),
        (code, _) => (code, answer.error_message),
    };
    let words = words.filter(|words| !words.is_empty());
    if code == ErrorCode::None {
        return Answer::Done;
    }
    let why = words.unwrap_or_else(|| refused("this", code, None).text().to_owned());
    // A voter tells the leader of itself within some seconds of following it.
    let later = [
        ErrorCode::InvalidUpdateVersion,
        ErrorCode::RequestTimedOut,
        ErrorCode::NotController,
        ErrorCode::NotLeaderOrFollower,
    ];
    if later.contains(&code) { Answer::Later(why) } else { Answer::Never(why) }
}
