//! `quorate quorum upgrade`: what a quorum uses only once all of it can, and never gives up again.
//! That the log names the voters (`kraft.version` 0 to 1), of any quorum, Kafka's too; and the
//! format level of the store (`quorate.format`), once every voter runs a build that speaks it.
//!
//! The plan first, then both, each left out where it is done. Whether it may be is for the leader
//! to say: what is asked of the voters here is for people to read.

use super::patience::{PAUSE, Patience};
use super::report::why;
use super::voters::{Found, How, look};
use crate::cli::controllers::{Quorum, Silence, features_of, refused, to_leader};
use crate::cli::{Outcome, failed, out};
use clap::Parser;
use quorate::{HostPort, Uuid};
use quorate_node::FORMAT_FEATURE;
use quorate_wire::ErrorCode;
use quorate_wire::message::{FeatureUpdate, UpdateFeaturesRequest, UpdateFeaturesResponse};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// The feature that says who names the voters, and its level.
const KRAFT_VERSION: &str = "kraft.version";
const VOTERS_IN_THE_LOG: i16 = 1;

/// Static voters go into the log, and the store to the newest format level.
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

/// One feature that is to have another level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Raise {
    feature: &'static str,
    from: i16,
    to: i16,
}

/// What each voter says that it speaks: the newest format level, or nothing if it has none; or why
/// it says nothing.
type Spoken = Vec<(i32, Result<Option<i16>, String>)>;

/// What came of a raise. Neither: it was not tried, or refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Came {
    /// `None` where nobody said.
    changed: Option<bool>,
    took: Option<Duration>,
}

const UNTOUCHED: Came = Came { changed: Some(false), took: None };

#[derive(Default)]
struct Plan {
    /// Each with what came of it.
    raises: Vec<(Raise, Came)>,
    voters: Spoken,
}

impl Plan {
    /// The voters that are known to be too old for what is planned.
    fn too_old(&self) -> Vec<String> {
        let wanted = self.raises.iter().find(|(raise, _)| raise.feature == FORMAT_FEATURE);
        let old = |(id, spoken): &(i32, Result<Option<i16>, String>)| {
            let (wanted, spoken) = (wanted?.0.to, spoken.as_ref().ok()?);
            match spoken {
                Some(newest) if *newest >= wanted => None,
                Some(newest) => Some(format!("node {id} speaks {FORMAT_FEATURE} up to {newest}")),
                None => Some(format!("node {id} speaks no {FORMAT_FEATURE}")),
            }
        };
        self.voters.iter().filter_map(old).collect()
    }

    fn lines(&self) -> Vec<String> {
        let raises = self.raises.iter().map(|(raise, _)| match raise.from == raise.to {
            true => format!("{}: {}, nothing to do", raise.feature, raise.from),
            false => format!("{}: {} now, then {}", raise.feature, raise.from, raise.to),
        });
        let told = |(id, spoken): &(i32, Result<Option<i16>, String>)| match spoken {
            Ok(Some(newest)) => format!("  node {id} speaks {FORMAT_FEATURE} up to {newest}"),
            Ok(None) => format!("  node {id} speaks no {FORMAT_FEATURE}"),
            Err(why) => format!("  node {id} does not say what it speaks: {why}"),
        };
        raises.chain(self.voters.iter().map(told)).collect()
    }

    fn json(&self, error: Option<&str>) -> Value {
        let feature = |(raise, came): &(Raise, Came)| {
            json!({
                "feature": raise.feature, "from": raise.from, "to": raise.to,
                "changed": came.changed, "ms": came.took.as_ref().map(Duration::as_millis),
            })
        };
        let voter = |(id, spoken): &(i32, Result<Option<i16>, String>)| json!({ "node": id, "newest_format_level": spoken.as_ref().ok().copied().flatten() });
        json!({
            "features": self.raises.iter().map(feature).collect::<Vec<_>>(),
            "voters": self.voters.iter().map(voter).collect::<Vec<_>>(),
            "error": error,
        })
    }
}

pub(super) async fn upgrade(args: Upgrade) -> Outcome {
    let mut known = Plan::default();
    let outcome = change(&args.how, &mut known).await;
    if args.how.common.json {
        out::json(&known.json(why(&outcome)));
    }
    outcome
}

async fn change(how: &How, known: &mut Plan) -> Outcome {
    let Found { servers, quorum, patience } = look(how).await?;
    let say = |words: &str| {
        if !how.common.json {
            out::line(words);
        }
    };
    *known = plan(&quorum, patience).await?;
    known.lines().iter().for_each(|line| say(line));
    let too_old = known.too_old();
    if !too_old.is_empty() {
        return failed(format!(
            "every voter has to speak the level first: {}. Nothing was changed; start a newer build on those that are older, then \
             run this again",
            too_old.join(", ")
        ));
    }
    for (raise, came) in known.raises.iter_mut().filter(|(raise, _)| raise.from != raise.to) {
        let start = Instant::now();
        carry_out(&servers, raise, how.dry_run, patience, came).await?;
        let took = start.elapsed();
        *came = Came { changed: Some(!how.dry_run), took: (!how.dry_run).then_some(took) };
        say(&match how.dry_run {
            true => format!("{} can be raised; nothing was changed", raise.feature),
            false => told(raise, took),
        });
    }
    Ok(())
}

/// What was done, and what it means.
fn told(raise: &Raise, took: Duration) -> String {
    let (to, ms) = (raise.to, took.as_millis());
    match raise.feature == KRAFT_VERSION {
        true => format!(
            "the log names the voters from now on ({KRAFT_VERSION} {to}, {ms} ms). controller.quorum.voters in \
             the files is ignored; put controller.quorum.bootstrap.servers in its place before the next start"
        ),
        false => format!(
            "the store is at {FORMAT_FEATURE} {to} from now on ({ms} ms). Builds that do not speak it stop themselves: there is no \
             way back to them"
        ),
    }
}

async fn plan(quorum: &Quorum, patience: Patience) -> Outcome<Plan> {
    // Of static voters leaders tell no directory but their own.
    let known = |id: Uuid| id.known().is_some();
    let mut voters = quorum.voters.iter();
    let named = quorum.voters.len() > 1 && voters.all(|voter| known(voter.replica_directory_id));
    let at = |id: i32| quorum.controllers.iter().find(|(known, _)| *known == id);
    let Some((_, leader)) = at(quorum.leader) else {
        return failed("nobody says where the leader listens, so it cannot be asked; ask again");
    };
    let asked = timeout(patience.round(), features_of(leader)).await;
    let of_leader = match asked {
        Ok(Ok(features)) => features,
        Ok(Err(silence)) => return failed(silence.text()),
        Err(_) => return failed("the leader does not answer what it speaks; ask again"),
    };
    // Some of Kafka's controllers do not tell; then of one voter alone it is not to be seen, and
    // asking again is harmless.
    let from = of_leader.finalized(KRAFT_VERSION).unwrap_or(i16::from(named));
    let kraft = Raise { feature: KRAFT_VERSION, from, to: VOTERS_IN_THE_LOG };
    let mut raises = vec![(kraft, UNTOUCHED)];
    let mut spoken = Spoken::new();
    if let Some(newest) = of_leader.supported(FORMAT_FEATURE) {
        // All at once: one that is silent must not keep the others waiting.
        let asking: Vec<_> = quorum
            .voters
            .iter()
            .map(|voter| {
                let (id, at) = (voter.replica_id, at(voter.replica_id).map(|(_, at)| at.clone()));
                (id, tokio::spawn(async move { newest_of(at, patience).await }))
            })
            .collect();
        for (id, said) in asking {
            let said = said.await.unwrap_or_else(|error| Err(error.to_string()));
            spoken.push((id, if id == quorum.leader { Ok(Some(newest)) } else { said }));
        }
        let newest = spoken.iter().filter_map(|(_, said)| said.as_ref().ok().copied().flatten());
        let to = newest.max().unwrap_or(0);
        let from = of_leader.finalized(FORMAT_FEATURE).unwrap_or(0);
        raises.push((Raise { feature: FORMAT_FEATURE, from, to: to.max(from) }, UNTOUCHED));
    }
    Ok(Plan { raises, voters: spoken })
}

async fn newest_of(at: Option<HostPort>, patience: Patience) -> Result<Option<i16>, String> {
    let Some(at) = at else { return Err("nobody says where it listens".to_owned()) };
    match timeout(patience.round(), features_of(&at)).await {
        Ok(Ok(features)) => Ok(features.supported(FORMAT_FEATURE)),
        Ok(Err(silence)) => Err(silence.text().to_owned()),
        Err(_) => Err("it does not answer".to_owned()),
    }
}

/// Asks until it is done, or refused for good, or the time is over.
async fn carry_out(
    servers: &[HostPort],
    raise: &Raise,
    dry_run: bool,
    patience: Patience,
    came: &mut Came,
) -> Outcome {
    let feature = raise.feature;
    loop {
        let late = |why: String| {
            failed(format!(
                "{feature} stays where it is: within {} s {why}\nThe same command may be run again; \
                 --timeout lets it wait longer.",
                patience.secs()
            ))
        };
        match attempt(servers, raise, dry_run, patience).await {
            Answer::Done => return Ok(()),
            Answer::Later(why) if patience.is_spent() => return late(why),
            Answer::Silent(why) if patience.is_spent() && dry_run => return late(why),
            Answer::Silent(why) if patience.is_spent() => {
                came.changed = None;
                return failed(format!(
                    "whether {feature} was raised is not known: within {} s {why}\nRun the same command again: \
                     it says so, or does it.",
                    patience.secs()
                ));
            }
            Answer::Later(_) | Answer::Silent(_) => sleep(PAUSE).await,
            Answer::Never(why) => return failed(format!("{feature} stays where it is: {why}")),
        }
    }
}

async fn attempt(servers: &[HostPort], raise: &Raise, dry_run: bool, patience: Patience) -> Answer {
    let request = UpdateFeaturesRequest {
        feature_updates: vec![FeatureUpdate {
            feature: raise.feature.to_owned(),
            max_version_level: raise.to,
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
    let of_feature = answer.results.into_iter().find(|result| result.feature == raise.feature);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_says_both_features_and_names_who_is_too_old() {
        let kraft = Raise { feature: KRAFT_VERSION, from: 1, to: 1 };
        let format = Raise { feature: FORMAT_FEATURE, from: 0, to: 1 };
        let spoken =
            vec![(1, Ok(Some(1))), (2, Ok(Some(0))), (3, Err("gone".into())), (4, Ok(None))];
        let done = Came { changed: Some(true), took: Some(Duration::from_millis(7)) };
        let raises = vec![(kraft, UNTOUCHED), (format, done)];
        let plan = Plan { raises, voters: spoken };
        assert_eq!(
            plan.lines(),
            [
                "kraft.version: 1, nothing to do",
                "quorate.format: 0 now, then 1",
                "  node 1 speaks quorate.format up to 1",
                "  node 2 speaks quorate.format up to 0",
                "  node 3 does not say what it speaks: gone",
                "  node 4 speaks no quorate.format",
            ]
        );
        let old = ["node 2 speaks quorate.format up to 0", "node 4 speaks no quorate.format"];
        assert_eq!(plan.too_old(), old);
        let told = plan.json(None);
        assert_eq!(told["features"][0]["changed"], false);
        assert_eq!(told["features"][1]["ms"], 7);
        assert_eq!(told["voters"][1], json!({ "node": 2, "newest_format_level": 0 }));
        assert_eq!(told["voters"][2]["newest_format_level"], Value::Null);
    }
}
