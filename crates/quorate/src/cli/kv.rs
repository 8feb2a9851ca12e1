//! `quorate kv`: the store from the shell, over the same HTTP that everyone uses.

use super::client::{Answer, Ask, Nodes, Url, ask, percent_encode};
use super::{Failure, Outcome, block_on, failed, out};
use bytes::Bytes;
use clap::{Parser, Subcommand};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;

/// Read and write the key-value store
#[derive(Parser)]
#[command(after_help = "\
Examples:
  quorate kv put greeting hello
  quorate kv get greeting
  quorate kv put greeting 'good morning' --if-version 5   only if nobody changed it since
  quorate kv put leader me --if-absent                    only if there is none
  quorate kv put big - < file                             the value from stdin
  quorate kv list users/ --json")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the value of a key
    #[command(after_help = "\
Examples:
  quorate kv get greeting
  quorate kv get users/ann --local --json
  quorate kv get users/ann --local --min-version 118   # a write said: the store is at 118")]
    Get {
        /// The key, 1 to 1024 bytes
        key: OsString,
        /// Answer from the node's own state, which may be behind
        #[arg(long)]
        local: bool,
        /// With --local: wait until the store is there on the node: a number that a write told
        #[arg(long, value_name = "VERSION", requires = "local")]
        min_version: Option<u64>,
        #[command(flatten)]
        common: Common,
    },
    /// Set the value of a key
    #[command(after_help = "\
Examples:
  quorate kv put greeting hello
  quorate kv put greeting 'good morning' --if-version 5
  quorate kv put big - < file")]
    Put {
        /// The key, 1 to 1024 bytes
        key: OsString,
        /// The value, at most 1 MiB; - reads it from stdin
        value: OsString,
        /// Only if the key has this version
        #[arg(long, value_name = "VERSION", conflicts_with = "if_absent")]
        if_version: Option<u64>,
        /// Only if there is no such key
        #[arg(long)]
        if_absent: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Remove a key
    #[command(after_help = "\
Examples:
  quorate kv delete greeting
  quorate kv delete users/ann --if-version 5")]
    Delete {
        /// The key, 1 to 1024 bytes
        key: OsString,
        /// Only if the key has this version
        #[arg(long, value_name = "VERSION")]
        if_version: Option<u64>,
        #[command(flatten)]
        common: Common,
    },
    /// Print keys in order, with their versions
    ///
    /// A long list comes in several pages, each of its own moment.
    #[command(after_help = "\
Examples:
  quorate kv list
  quorate kv list users/ --limit 100 --json")]
    List {
        /// How the keys begin; all without it
        #[arg(default_value = "")]
        prefix: OsString,
        /// Stop after so many
        #[arg(long, value_name = "KEYS")]
        limit: Option<u64>,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(clap::Args)]
struct Common {
    #[command(flatten)]
    nodes: Nodes,
    /// Print facts as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `quorate kv …`.
pub(crate) fn kv(args: Args) -> Outcome {
    block_on(async {
        match args.command {
            Command::Get { key, local, min_version, common } => {
                get(key, local, min_version, &common).await
            }
            Command::Put { key, value, if_version, if_absent, common } => {
                put(key, value, condition(if_version, if_absent), &common).await
            }
            Command::Delete { key, if_version, common } => {
                delete(key, condition(if_version, false), &common).await
            }
            Command::List { prefix, limit, common } => list(prefix, limit, &common).await,
        }
    })
}

fn condition(if_version: Option<u64>, if_absent: bool) -> Vec<(&'static str, String)> {
    match (if_version, if_absent) {
        (Some(version), _) => vec![("if-match", format!("\"{version}\""))],
        (None, true) => vec![("if-none-match", "*".into())],
        (None, false) => Vec::new(),
    }
}

fn path_of(key: OsString) -> String {
    format!("/v1/kv/{}", percent_encode(&key.into_vec()))
}

/// The answer, if it is no refusal.
async fn done(common: &Common, request: &Ask<'_>) -> Outcome<Answer> {
    done_by(&common.nodes.urls()?, request).await
}

async fn done_by(nodes: &[Url], request: &Ask<'_>) -> Outcome<Answer> {
    let answer = ask(nodes, request).await?;
    match answer.status.is_success() {
        true => Ok(answer),
        // What was asked for can not be: the caller must ask for something else.
        false if answer.status.as_u16() == 400 => Err(Failure::Usage(answer.message())),
        false => failed(answer.message()),
    }
}

async fn get(key: OsString, local: bool, min_version: Option<u64>, common: &Common) -> Outcome {
    let name = key.to_string_lossy().into_owned();
    let mut path = path_of(key);
    if local {
        path += "?consistency=local";
    }
    if let Some(version) = min_version {
        path += &format!("&min-version={version}");
    }
    let answer = done(common, &Ask::get(&path)).await?;
    let version = answer.headers.get("etag").and_then(|tag| tag.to_str().ok());
    let version = version.and_then(|tag| tag.trim_matches('"').parse::<u64>().ok());
    if common.json {
        let value = match std::str::from_utf8(&answer.body) {
            Ok(text) => ("value", text.to_owned()),
            Err(_) => ("value_base64", base64(&answer.body)),
        };
        out::json(&json!({ "key": name, value.0: value.1, "version": version }));
        return Ok(());
    }
    out::bytes(&answer.body);
    // To a pipe go the bytes alone; a terminal would run them into the prompt.
    if out::to_terminal() && !answer.body.ends_with(b"\n") {
        out::bytes(b"\n");
    }
    Ok(())
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

async fn put(
    key: OsString,
    value: OsString,
    headers: Vec<(&'static str, String)>,
    common: &Common,
) -> Outcome {
    let value = match value.to_str() {
        Some("-") => {
            let mut value = Vec::new();
            match std::io::stdin().read_to_end(&mut value) {
                Ok(_) => value,
                Err(error) => {
                    return failed(format!("the value could not be read from stdin: {error}"));
                }
            }
        }
        Some(_) | None => value.into_vec(),
    };
    let (path, body) = (path_of(key), Bytes::from(value));
    let answer = done(common, &Ask { method: "PUT", path: &path, headers: &headers, body }).await?;
    report(&answer, common, |body| match body["previous"].as_u64() {
        Some(previous) => format!("version {} in place of {previous}", body["version"]),
        None => format!("version {}, a new key", body["version"]),
    })
}

async fn delete(key: OsString, headers: Vec<(&'static str, String)>, common: &Common) -> Outcome {
    let path = path_of(key);
    let request = Ask { method: "DELETE", path: &path, headers: &headers, body: Bytes::new() };
    report(&done(common, &request).await?, common, |body| {
        format!("deleted version {} at {}", body["previous"], body["deleted_at"])
    })
}

fn report(answer: &Answer, common: &Common, words: impl Fn(&Value) -> String) -> Outcome {
    let mut body = answer.json();
    let state = answer.headers.get("quorate-version").and_then(|state| state.to_str().ok());
    let state = state.and_then(|state| state.parse::<u64>().ok());
    match (common.json, state) {
        (true, state) => {
            body["state"] = json!(state);
            out::json(&body);
        }
        (false, Some(state)) => out::line(&format!("{}; the store is at {state}", words(&body))),
        (false, None) => out::line(&words(&body)),
    }
    Ok(())
}

async fn list(prefix: OsString, limit: Option<u64>, common: &Common) -> Outcome {
    let prefix = percent_encode(&prefix.into_vec());
    let (mut left, mut nodes) = (limit.unwrap_or(u64::MAX), common.nodes.urls()?);
    let mut after = String::new();
    while left > 0 {
        let path = format!("/v1/kv?prefix={prefix}&limit={}{after}", left.min(1_000));
        let answer = done_by(&nodes, &Ask::get(&path)).await?;
        // Who is silent is not waited for at each page.
        nodes.sort_by_key(|node| *node != answer.from);
        let page = answer.json();
        let items = page["items"].as_array().map_or(&[][..], Vec::as_slice);
        for item in items {
            print_item(item, common.json);
        }
        if out::closed() {
            return Ok(());
        }
        left -= (items.len() as u64).min(left);
        // A star in place of the state: the next page may show a later one.
        match page["next"].as_str().and_then(|next| next.split_once('.')) {
            Some((_, key)) => after = format!("&after=*.{key}"),
            None => return Ok(()),
        }
    }
    Ok(())
}

fn print_item(item: &Value, json: bool) {
    if json {
        return out::json(item);
    }
    let text = |plain: &str, coded: &str| match item[plain].as_str() {
        Some(text) => text.escape_debug().to_string(),
        None => format!("base64:{}", item[coded].as_str().unwrap_or_default()),
    };
    let (key, value) = (text("key", "key_base64"), text("value", "value_base64"));
    out::line(&format!("{}\t{key}\t{value}", item["version"]));
}
