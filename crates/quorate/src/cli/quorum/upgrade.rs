//! `quorate quorum upgrade`: from voters that the files name to voters that the log names
//! (`kraft.version` 0 to 1), of any quorum, Kafka's too. Once, while it runs, and never back.

use super::change::PAUSE;
use super::voters::{How, look};
use crate::cli::controllers::{Silence, refused, to_leader};
use crate::cli::{Outcome, failed, out};
use clap::Parser;
use quorate::Uuid;
use quorate_wire::ErrorCode;
use quorate_wire::message::{FeatureUpdate, UpdateFeaturesRequest, UpdateFeaturesResponse};
use serde_json::json;
use std::time::Instant;

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
    Never(String),
}

pub(super) async fn upgrade(args: Upgrade) -> Outcome {
    let (servers, quorum) = look(&args.how).await?;
    let as_json = args.how.common.json;
    // Of static voters leaders tell no directory but their own.
    let known = |id: Uuid| id.known().is_some();
    let mut voters = quorum.voters.iter();
    if quorum.voters.len() > 1 && voters.all(|voter| known(voter.replica_directory_id)) {
        match as_json {
            true => out::json(&json!({ "feature": FEATURE, "level": LEVEL, "changed": false })),
            false => out::line("the log names the voters already; nothing to do"),
        }
        return Ok(());
    }
    let start = Instant::now();
    loop {
        let (dry_run, patience) = (args.how.dry_run, args.how.timeout);
        match attempt(&servers, dry_run).await {
            Answer::Done => break,
            Answer::Later(why) if start.elapsed() >= patience => {
                return failed(format!(
                    "the voters stay where they are: within {} s {why}\nThe same command may be run again; \
                     --timeout lets it wait longer.",
                    patience.as_secs()
                ));
            }
            Answer::Later(_) => tokio::time::sleep(PAUSE).await,
            Answer::Never(why) => return failed(format!("the voters stay where they are: {why}")),
        }
    }
    let ms = start.elapsed().as_millis();
    match (as_json, args.how.dry_run) {
        (true, dry_run) => {
            out::json(&json!({ "feature": FEATURE, "level": LEVEL, "changed": !dry_run, "ms": ms }))
        }
        (false, true) => out::line("the voters can be moved into the log; nothing was changed"),
        (false, false) => out::line(&format!(
            "the log names the voters from now on (kraft.version {LEVEL}, {ms} ms). controller.quorum.voters in \
             the files is ignored; put controller.quorum.bootstrap.servers in its place before the next start"
        )),
    }
    Ok(())
}

async fn attempt(servers: &[quorate::HostPort], dry_run: bool) -> Answer {
    let request = UpdateFeaturesRequest {
        feature_updates: vec![FeatureUpdate {
            feature: FEATURE.to_owned(),
            max_version_level: LEVEL,
            ..FeatureUpdate::default()
        }],
        validate_only: dry_run,
        ..UpdateFeaturesRequest::default()
    };
    let answered = match to_leader(servers).await {
        Ok((_, mut leader)) => leader.ask(request, 1).await,
        Err(silence) => Err(silence),
    };
    let answer: UpdateFeaturesResponse = match answered {
        Ok(answer) => answer,
        Err(Silence::Wrong(why)) => return Answer::Never(why),
        Err(Silence::Nobody(why) | Silence::NoLeader(why)) => return Answer::Later(why),
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
