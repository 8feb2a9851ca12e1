//! `quorate format`: what the library's `format_as` does, said to a person.

use super::controllers::{describe, shown};
use super::{Failure, Outcome, block_on, failed, out, run};
use clap::Parser;
use quorate::settings::{MachineName, Settings};
use quorate::{Bootstrap, Config, Formatted, Formatting, Founders, InitialController};
use serde_json::json;
use std::path::PathBuf;

/// Prepare the directory of a new node
///
/// Who votes is in controller.quorum.voters of every node's file, or, with one of --standalone,
/// --initial-controllers and --no-initial-controllers, in the log, where it can be changed.
#[derive(Parser)]
#[command(after_help = "\
All nodes of a cluster share one cluster id; each has its own file and directory:
  ID=$(quorate random-uuid)
  quorate format --cluster-id $ID --config node1.properties
  quorate format --cluster-id $ID --config node2.properties
  quorate format --cluster-id $ID --config node3.properties
Then start each with `quorate run nodeN.properties`.

With voters in the log the files have controller.quorum.bootstrap.servers instead. Alone at first,
  quorate format --cluster-id $ID --config node1.properties --standalone
or several, with the same list on each and directory ids of `quorate random-uuid`:
  quorate format -t $ID -c node1.properties -I 1@a:9093:JEXY6aqzQY-32P5TStzaFg,2@b:9093:MvDxzVmcRsaTz33bUuRU6A,3@c:9093:07R5amHmR32VDA6jHkGbTA
A node that joins later:
  quorate format --cluster-id $ID --config node4.properties --no-initial-controllers")]
pub(crate) struct Args {
    /// The node's property file
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// The id of the cluster; a new one is made and printed without it
    #[arg(short = 't', long, value_name = "ID", allow_hyphen_values = true, value_parser = cluster_id)]
    cluster_id: Option<String>,
    /// This node is the only voter of a new quorum, with the voters in the log
    #[arg(short, long, conflicts_with_all = ["initial_controllers", "no_initial_controllers"])]
    standalone: bool,
    /// The voters of a new quorum, with the voters in the log; the same list on each of them
    #[arg(
        short = 'I', long, value_name = "ID@HOST:PORT:DIRECTORY,…", value_parser = founders,
        allow_hyphen_values = true, conflicts_with = "no_initial_controllers"
    )]
    initial_controllers: Option<Founders>,
    /// The voters are in the log, and this node is none of the first
    #[arg(short = 'N', long)]
    no_initial_controllers: bool,
    /// Of a Kafka cluster: the release whose features it begins with
    #[arg(short, long, value_name = "RELEASE")]
    release_version: Option<String>,
    /// Of a Kafka cluster: the level of a feature, such as group.version=1; may be repeated
    #[arg(short, long, value_name = "NAME=LEVEL", allow_hyphen_values = true, value_parser = quorate::feature)]
    feature: Vec<(String, i16)>,
    /// Of a Kafka cluster: a user, SCRAM-SHA-256=[name=alice,password=secret]; may be repeated
    #[arg(short = 'S', long, value_name = "CREDENTIAL")]
    add_scram: Vec<String>,
    /// Leave a directory alone that is already formatted for this node and cluster
    #[arg(short = 'g', long)]
    ignore_formatted: bool,
    /// Replace a setting of the file
    #[arg(long = "override", value_name = "KEY=VALUE", value_parser = run::pair)]
    overrides: Vec<(String, String)>,
    /// Print facts as JSON
    #[arg(long)]
    json: bool,
}

/// Checked as a part of the command line, so before any file is read.
fn cluster_id(text: &str) -> Result<String, quorate::FormatError> {
    quorate::check_cluster_id(text).map(|()| text.to_owned())
}

fn founders(text: &str) -> Result<Founders, quorate::FormatError> {
    quorate::initial_controllers(text).map(Founders::These)
}

/// Runs `quorate format`.
pub(crate) fn format(args: Args) -> Outcome {
    let settings = run::settings(&args.config, &args.overrides)?;
    let how = formatting(&args, &settings)?;
    settings.notes.iter().for_each(|note| out::warning(note));
    warn(&settings, &how.founders);
    let config = &settings.config;
    no_second_quorum(config, &how)?;
    let Formatted { cluster, directory: id, already, release, differs } =
        quorate::format_as(config, &how).or_else(|error| failed(error.to_string()))?;
    let directory = config.directory.display();
    let node = config.id.map_or(0, |node| node.0);
    if already && !args.ignore_formatted {
        return failed(format!(
            "{directory} is already formatted: it belongs to node {node} of the cluster {cluster}. Nothing was \
             changed. Run it as it is with `quorate run {}`, or name another directory in log.dirs and format \
             that; --ignore-formatted accepts it where this is expected.",
            args.config.display()
        ));
    }
    if let Some(how) = differs {
        out::warning(&format!(
            "{directory} is not as it is asked for, and is left as it is, since a node has used it: {how}"
        ));
    }
    if args.json {
        let id = id.map(|id| id.to_string());
        out::json(&json!({
            "directory": config.directory, "cluster.id": cluster, "node.id": node, "directory.id": id,
            "already": already, "release": release,
        }));
        return Ok(());
    }
    if already {
        out::line(&format!(
            "{directory} was already formatted for node {node} of the cluster {cluster}"
        ));
        return Ok(());
    }
    let votes = config.voters.iter().any(|voter| Some(voter.id) == config.id);
    let role = match &how.founders {
        Founders::Configured if votes => String::new(),
        Founders::Configured => ", an observer".into(),
        Founders::Alone => ", the only voter of a new quorum".into(),
        Founders::These(voters) => format!(", one of {} voters of a new quorum", voters.len()),
        Founders::Asked => ", an observer until the voters' log names it".into(),
    };
    out::line(&format!("{directory} is formatted for node {node} of the cluster {cluster}{role}"));
    how.others.iter().for_each(|other| {
        out::line(&format!("{} is formatted for Kafka's own process", other.display()));
    });
    if let Some(release) = release {
        out::line(&format!("the Kafka cluster begins with the features of {release}"));
    }
    let others = match &how.founders {
        Founders::Configured => config.voters.len() > 1,
        Founders::These(voters) => voters.len() > 1,
        Founders::Alone | Founders::Asked => false,
    };
    if args.cluster_id.is_none() && others {
        out::line(&format!("format the other nodes with --cluster-id {cluster}"));
    }
    Ok(())
}

/// What the command line asks for; what only makes sense of a Kafka cluster is refused elsewhere.
fn formatting(args: &Args, settings: &Settings) -> Outcome<Formatting> {
    let founders = match (&args.initial_controllers, args.standalone, args.no_initial_controllers) {
        (Some(founders), ..) => founders.clone(),
        (None, true, _) => Founders::Alone,
        (None, false, true) => Founders::Asked,
        (None, false, false) => Founders::Configured,
    };
    // As in Kafka's tool the last one of a name counts.
    let kraft = args.feature.iter().rfind(|(name, _)| name == "kraft.version");
    let others = args.feature.iter().filter(|(name, _)| name != "kraft.version");
    let bootstrap = Bootstrap {
        release: args.release_version.clone(),
        features: others.cloned().collect(),
        scram: args.add_scram.clone(),
    };
    let bootstrap = match settings.machine {
        MachineName::Kafka => Some(bootstrap),
        MachineName::Kv if bootstrap == Bootstrap::default() => None,
        MachineName::Kv => {
            return Err(Failure::Usage(
                "--release-version, --feature and --add-scram are records that the controllers of a Kafka \
                 cluster begin with, and this node keeps a key-value store, which has none of it: leave them \
                 out, or set quorate.machine=kafka"
                    .into(),
            ));
        }
    };
    Ok(Formatting {
        cluster: args.cluster_id.clone(),
        founders,
        kraft_version: kraft.map(|(_, level)| *level),
        // Only Kafka's processes have any use for the others.
        others: if bootstrap.is_some() { settings.others.clone() } else { Vec::new() },
        complete: args.ignore_formatted,
        bootstrap,
    })
}

/// A directory that is to begin a quorum is refused while one of that cluster lives: two would form
/// (T40), or a voter would come back that has forgotten what it confirmed (T33).
fn no_second_quorum(config: &Config, how: &Formatting) -> Outcome {
    let flag = match &how.founders {
        Founders::Alone => "--standalone",
        Founders::These(_) => "--initial-controllers",
        Founders::Configured | Founders::Asked => return Ok(()),
    };
    if config.bootstrap.is_empty() {
        return Ok(());
    }
    let Ok(quorum) = block_on(async { Ok(describe(&config.bootstrap).await) })? else {
        // As it should be: there is none yet.
        return Ok(());
    };
    if how.cluster.as_ref() != Some(&quorum.cluster) {
        out::warning(&format!(
            "the controllers that controller.quorum.bootstrap.servers names are of the cluster {}, and this directory \
             will be of another one",
            quorum.cluster
        ));
        return Ok(());
    }
    failed(format!(
        "the cluster {} has a quorum already: node {} leads epoch {}. A node that is formatted with {flag} would be \
         a voter without having asked anybody: of a second quorum, or of this one with an empty log in place of what \
         it had confirmed. Format it with --no-initial-controllers, start it, and add it with `quorate quorum add`",
        quorum.cluster, quorum.leader, quorum.epoch
    ))
}

/// What an operator should hear of the voters before they are in a log.
fn warn(settings: &Settings, founders: &Founders) {
    let config = &settings.config;
    let Founders::These(voters) = founders else {
        if *founders == Founders::Alone && settings.machine == MachineName::Kafka {
            out::warning(
                "a node of Quorate does not act as the active controller of a Kafka cluster yet: alone it is only \
                 of use when Kafka's own process runs on this directory",
            );
        }
        return;
    };
    let count = voters.len();
    if count.is_multiple_of(2) {
        out::warning(&format!(
            "{count} voters survive the loss of {}, as {} would, and need one more to agree: use an odd number",
            count / 2 - 1,
            count - 1
        ));
    }
    let own = config.advertised.as_ref().unwrap_or(&config.bind);
    let named = voters.iter().find(|voter| Some(voter.id) == config.id);
    if let Some(InitialController { id, at, .. }) = named.filter(|voter| voter.at.port != own.port)
    {
        out::warning(&format!(
            "the list says that node {id} is at {}, its own file says {}: right only if something between them \
             translates",
            shown(at),
            shown(own)
        ));
    }
}
