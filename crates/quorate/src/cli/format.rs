//! `quorate format`: what the library's `format` does, said to a person.

use super::{Outcome, failed, out, run};
use clap::Parser;
use quorate::Formatted;
use serde_json::json;
use std::path::PathBuf;

/// Prepare the directory of a new node
#[derive(Parser)]
#[command(after_help = "\
All nodes of a cluster share one cluster id; each has its own file and directory:
  ID=$(quorate random-uuid)
  quorate format --cluster-id $ID --config node1.properties
  quorate format --cluster-id $ID --config node2.properties
  quorate format --cluster-id $ID --config node3.properties
Then start each with `quorate run nodeN.properties`.")]
pub(crate) struct Args {
    /// The node's property file
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// The id of the cluster; a new one is made and printed without it
    #[arg(short = 't', long, value_name = "ID", allow_hyphen_values = true, value_parser = cluster_id)]
    cluster_id: Option<String>,
    /// Leave a directory alone that is already formatted for this node and cluster
    #[arg(long)]
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

/// Runs `quorate format`.
pub(crate) fn format(args: Args) -> Outcome {
    let settings = run::settings(&args.config, &args.overrides)?;
    settings.notes.iter().for_each(|note| out::warning(note));
    let config = &settings.config;
    let made = quorate::format(config, args.cluster_id.as_deref());
    let Formatted { cluster, directory: id, already } =
        made.or_else(|error| failed(error.to_string()))?;
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
    if args.json {
        let id = id.map(|id| id.to_string());
        out::json(&json!({
            "directory": config.directory, "cluster.id": cluster, "node.id": node, "directory.id": id,
            "already": already,
        }));
        return Ok(());
    }
    let verb = if already { "was already" } else { "is" };
    let votes = config.voters.iter().any(|voter| Some(voter.id) == config.id);
    let role = if votes { "" } else { ", an observer" };
    out::line(&format!(
        "{directory} {verb} formatted for node {node} of the cluster {cluster}{role}"
    ));
    if args.cluster_id.is_none() && !already && config.voters.len() > 1 {
        out::line(&format!("format the other nodes with --cluster-id {cluster}"));
    }
    Ok(())
}
