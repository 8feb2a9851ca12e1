//! `quorate format`: makes a directory that belongs to one node of one cluster.
//!
//! Never writes into a directory that is in use or belongs to someone, and says whose it is.

use super::{Failure, Outcome, failed, out, run};
use clap::Parser;
use quorate_base::{ReplicaId, Uuid};
use quorate_log::{Error, Meta, OsDisk};
use quorate_node::config::Config;
use serde_json::json;
use std::path::{Path, PathBuf};

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
    #[arg(short = 't', long, value_name = "ID", allow_hyphen_values = true)]
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

/// What `format` found or made.
pub(crate) struct Formatted {
    /// Whose directory it is.
    pub(crate) meta: Meta,
    /// Whether it was so before.
    pub(crate) already: bool,
}

/// Runs `quorate format`.
pub(crate) fn format(args: Args) -> Outcome {
    let settings = run::settings(&args.config, &args.overrides)?;
    settings.notes.iter().for_each(|note| out::note(note));
    let config = &settings.config;
    if let Some(id) = &args.cluster_id
        && !(1..=64).contains(&id.len())
    {
        return Err(Failure::Usage(
            "a cluster id has 1 to 64 characters; `quorate random-uuid` makes one".into(),
        ));
    }
    let formatted = format_directory(config, args.cluster_id.as_deref())?;
    let directory = config.directory.display();
    let Meta { cluster, node, directory: id } = &formatted.meta;
    if formatted.already && !args.ignore_formatted {
        return failed(format!(
            "{directory} is already formatted: it belongs to node {node} of the cluster {cluster}. Nothing was \
             changed. Start it with `quorate run`, or pass --ignore-formatted where this is expected."
        ));
    }
    if args.json {
        let id = id.map(|id| id.to_string());
        let already = formatted.already;
        out::json(
            &json!({ "directory": config.directory, "cluster.id": cluster, "node.id": node.0, "directory.id": id, "already": already }),
        );
        return Ok(());
    }
    let verb = if formatted.already { "was already" } else { "is" };
    out::line(&format!("{directory} {verb} formatted for node {node} of the cluster {cluster}"));
    if args.cluster_id.is_none() && !formatted.already && config.voters.len() > 1 {
        out::line(&format!("format the other nodes with --cluster-id {cluster}"));
    }
    Ok(())
}

/// Formats the directory of a node, or finds that it is formatted for it.
pub(crate) fn format_directory(config: &Config, cluster: Option<&str>) -> Outcome<Formatted> {
    let root = &config.directory;
    let Some(node) = config.id else {
        return failed("a directory belongs to a node: node.id is needed");
    };
    let _lock = match OsDisk::lock(root, &format!("quorate format of node {node}")) {
        Ok(lock) => lock,
        Err(error) => return failed(error.to_string()),
    };
    let mut disk = OsDisk::new(root);
    if let Some(meta) = existing(&mut disk, root, cluster, node)? {
        return Ok(Formatted { meta, already: true });
    }
    let cluster = match cluster {
        Some(cluster) => cluster.to_owned(),
        None => random_uuid()?.to_string(),
    };
    let meta = Meta { cluster, node, directory: Some(random_uuid()?) };
    let partition = format!("{}-0", config.topic);
    match quorate_log::format(&mut disk, &partition, &meta, config.topic_id) {
        Ok(()) => Ok(Formatted { meta, already: false }),
        Err(error) => failed(format!("in {}: {error}", root.display())),
    }
}

/// Whose the directory is, if it is anyone's; an error if it is someone else's.
fn existing(
    disk: &mut OsDisk,
    root: &Path,
    cluster: Option<&str>,
    node: ReplicaId,
) -> Outcome<Option<Meta>> {
    match Meta::read(disk).and_then(|meta| meta.check(cluster, node).map(|()| meta)) {
        Ok(meta) => Ok(Some(meta)),
        Err(Error::NotFormatted { .. }) => Ok(None),
        Err(error) => failed(format!("in {}: {error}", root.display())),
    }
}

/// A random id in Kafka's form that does not start with '-'.
pub(crate) fn random_uuid() -> Outcome<Uuid> {
    loop {
        let mut bytes = [0; 16];
        if let Err(error) = getrandom::fill(&mut bytes) {
            return failed(format!("the operating system gives no random numbers: {error}"));
        }
        if let Some(id) = Uuid::from_random(bytes) {
            return Ok(id);
        }
    }
}
