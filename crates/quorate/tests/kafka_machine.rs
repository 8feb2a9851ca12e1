//! A node that keeps the metadata of a Kafka cluster: what it tells the active controller of
//! itself, and what clients who ask it are told.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod support;

use quorate::registration::{self, Registrant};
use quorate::status::{Status, VoterStatus};
use quorate::{Handle, HostPort, Offset, ReplicaId, Uuid};
use quorate_machine::Machine;
use quorate_machine::kafka::{MetadataImage, Mirror, Picture};
use quorate_node::handle::Ask;
use quorate_wire::message::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, ControllerRegistrationRequest,
    ControllerRegistrationResponse,
};
use quorate_wire::record::metadata::{self as record, FeatureLevel, RegisterController};
use quorate_wire::{ApiKey, ErrorCode, Frame, RequestFrame, encode_response};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, TcpListener as StdListener};
use std::sync::{Arc, Mutex};
use support::{Process, Scratch, http, quorate, run, wait_for};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

fn own() -> Registrant {
    Registrant {
        id: ReplicaId(3),
        incarnation: Uuid([7; 16]),
        listener: "CONTROLLER".into(),
        at: HostPort { host: "three".into(), port: 9_093 },
    }
}

fn with_version(level: i16) -> MetadataImage {
    let mut image = MetadataImage::default();
    let (name, feature_level) = ("metadata.version".to_owned(), level);
    let record = FeatureLevel { name, feature_level, ..FeatureLevel::default() };
    image.apply(record.into()).unwrap();
    image
}

fn registered(mut image: MetadataImage, incarnation_id: Uuid) -> MetadataImage {
    let record =
        RegisterController { controller_id: 3, incarnation_id, ..RegisterController::default() };
    image.apply(record.into()).unwrap();
    image
}

#[test]
fn it_registers_where_the_log_may_hold_that_and_holds_none_of_this_process() {
    assert!(!own().is_due(&MetadataImage::default()), "nothing is known yet");
    assert!(!own().is_due(&with_version(14)), "before 3.7-IV0 there are no such records");
    assert!(own().is_due(&with_version(15)));
    assert!(own().is_due(&registered(with_version(30), Uuid([8; 16]))), "of an earlier process");
    assert!(!own().is_due(&registered(with_version(30), Uuid([7; 16]))));
}

#[test]
fn it_says_where_it_listens_and_what_it_understands() {
    let said = own().request();
    assert_eq!((said.controller_id, said.zk_migration_ready), (3, false));
    let [listener] = &said.listeners[..] else { panic!("one listener: {said:?}") };
    assert_eq!((&*listener.name, &*listener.host, listener.port), ("CONTROLLER", "three", 9_093));
    let levels = |name: &str| {
        let found = said.features.iter().find(|feature| feature.name == name).unwrap();
        (found.min_supported_version, found.max_supported_version)
    };
    assert_eq!((levels("kraft.version"), levels("metadata.version")), ((0, 1), (7, 30)));
}

/// Who takes the place of a replica: it says who leads, and shows this state.
async fn replica(
    mut queue: mpsc::Receiver<Ask<Mirror>>,
    at: String,
    state: Arc<Mutex<MetadataImage>>,
) {
    let voters = vec![VoterStatus { node: 1, endpoint: at }];
    let status = Status { leader: Some(1), ready: true, voters, ..Status::default() };
    while let Some(ask) = queue.recv().await {
        match ask {
            Ask::Status(answer) => drop(answer.send(status.clone())),
            Ask::Read { answer, .. } => {
                let image = state.lock().unwrap().clone();
                let picture = Picture { image, ..Mirror::new().query(&()) };
                let _ = answer.send(Ok((picture, Offset(9))));
            }
            Ask::Write { .. } | Ask::Metrics(_) | Ask::HandOver(_) | Ask::Shutdown => {
                panic!("nobody asks that")
            }
        }
    }
}

async fn take(stream: &mut TcpStream) -> Option<RequestFrame> {
    let length = stream.read_u32().await.ok()?;
    let mut frame = vec![0; length as usize];
    stream.read_exact(&mut frame).await.ok()?;
    Some(RequestFrame::parse(frame.into()).unwrap())
}

/// An active controller that answers each registration with the next of these.
async fn controller(
    listener: TcpListener,
    codes: Vec<ErrorCode>,
    told: mpsc::Sender<ControllerRegistrationRequest>,
) {
    let mut codes = codes.into_iter();
    while let Ok((mut stream, _)) = listener.accept().await {
        while let Some(request) = take(&mut stream).await {
            let correlation = request.header.correlation_id;
            let answer: Frame = if request.header.api == ApiKey::ApiVersions {
                request.decode::<ApiVersionsRequest>().unwrap();
                let api_keys = vec![ApiVersion::from(ApiKey::ControllerRegistration)];
                let answer = ApiVersionsResponse { api_keys, ..ApiVersionsResponse::default() };
                encode_response(answer, 0, correlation).unwrap()
            } else {
                told.send(request.decode().unwrap()).await.unwrap();
                let error_code = codes.next().expect("it is not asked that often");
                let answer = ControllerRegistrationResponse { error_code, ..Default::default() };
                encode_response(answer, 0, correlation).unwrap()
            };
            let payload = answer.into_payload();
            stream.write_u32(payload.len() as u32).await.unwrap();
            stream.write_all(&payload).await.unwrap();
        }
    }
}

#[tokio::test]
async fn it_asks_again_after_a_refusal_and_when_the_log_forgets_it() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let state = Arc::new(Mutex::new(with_version(30)));
    let (handle, queue) = Handle::new();
    tokio::spawn(replica(queue, at, Arc::clone(&state)));
    let (told, mut hears) = mpsc::channel(1);
    let codes = vec![ErrorCode::NotController, ErrorCode::None, ErrorCode::None];
    tokio::spawn(controller(listener, codes, told));
    tokio::spawn(registration::keep(handle, own()));

    assert_eq!(hears.recv().await, Some(own().request()));
    // The refusal: it asks again. The answer that follows registers it.
    assert_eq!(hears.recv().await, Some(own().request()));
    *state.lock().unwrap() = registered(with_version(30), own().incarnation);
    // Another process of this id registers: the log does not say what is true any more.
    *state.lock().unwrap() = registered(with_version(30), Uuid([8; 16]));
    assert_eq!(hears.recv().await, Some(own().request()));
}

#[test]
fn clients_of_a_node_that_keeps_kafkas_metadata_are_sent_elsewhere() {
    let scratch = Scratch::new("kafka-machine");
    // Freed again before the node binds them; nothing else takes them meanwhile.
    let held: Vec<_> = (0..2).map(|_| StdListener::bind("127.0.0.1:0").unwrap()).collect();
    let at: Vec<_> = held.iter().map(|listener| listener.local_addr().unwrap()).collect();
    let file = scratch.write(
        "node.properties",
        &format!(
            "node.id=1\nlog.dirs={}\nlisteners=CONTROLLER://{}\ncontroller.quorum.voters=1@{}\n\
             quorate.machine=kafka\nquorate.http.listen={}\n",
            scratch.0.join("data").display(),
            at[0],
            at[0],
            at[1]
        ),
    );
    let (code, _, errors) = run(&["format", "--config", &file]);
    assert_eq!((code, &*errors), (0, ""));
    drop(held);
    let _node = Process(quorate(&["run", &file, "--log-level", "error"]).spawn().unwrap());
    let url = format!("http://{}", at[1]);
    wait_for("ready", || http(&url, "GET", "/readyz", "").filter(|(code, _)| *code == 200));
    let (code, body) = http(&url, "PUT", "/v1/kv/key", "value").unwrap();
    assert_eq!(code, 404, "{body}");
    assert!(body.contains("no_key_value_store") && body.contains("quorate observe"), "{body}");
    let (code, body) = http(&url, "GET", "/v1/metadata", "").unwrap();
    let page: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, &page["items"], &page["next"]), (200, &json!([]), &Value::Null));
    assert!(page["endOffset"].as_u64() > Some(0), "{body}");
    assert_eq!(http(&url, "PUT", "/v1/metadata/topics", "").unwrap().0, 405);
    let (code, body) = http(&url, "GET", "/status", "").unwrap();
    let status: Status = serde_json::from_str(&body).unwrap();
    assert_eq!((code, &*status.role, &*status.digest), (200, "leader", ""));
    assert_eq!(http(&url, "POST", "/status", "").unwrap().0, 405);
}

/// Three topics of two partitions each, one with a name that a path must escape, and two settings.
fn with_topics() -> MetadataImage {
    let mut image = with_version(30);
    for (id, name) in [(1, "a.b"), (2, "c"), (10, "d%/")] {
        let topic_id = Uuid([id; 16]);
        image
            .apply(record::Topic { name: name.into(), topic_id, ..Default::default() }.into())
            .unwrap();
        for partition_id in 0..2 {
            let replicas = vec![1];
            let partition =
                record::Partition { partition_id, topic_id, replicas, ..Default::default() };
            image.apply(partition.into()).unwrap();
        }
    }
    for (name, value) in [("log.retention.ms", "77"), ("ssl.key.password", "hush")] {
        let resource_name = "1".into();
        let config = record::Config {
            resource_type: 4,
            resource_name,
            name: name.into(),
            value: Some(value.into()),
            ..Default::default()
        };
        image.apply(config.into()).unwrap();
    }
    image
}

#[test]
fn the_metadata_are_shown_as_snapshot_tree_shows_them_in_pages() {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let served = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            listener.set_nonblocking(true).unwrap();
            let (handle, queue) = Handle::new();
            let state = Arc::new(Mutex::new(with_topics()));
            tokio::spawn(replica(queue, "one:1".into(), state));
            quorate::http::serve(TcpListener::from_std(listener).unwrap(), handle, stopped).await;
        });
    });
    let get = |path: &str| {
        let (code, body) = http(&url, "GET", path, "").unwrap();
        assert!(!body.contains("hush"), "{path}: {body}");
        (code, serde_json::from_str::<Value>(&body).unwrap())
    };
    let items = |path: &str| {
        let (code, page) = get(path);
        assert_eq!((code, &page["endOffset"]), (200, &json!(9)), "{path}: {page}");
        page["items"].as_array().unwrap().clone()
    };

    let all = items("/v1/metadata");
    for item in &all {
        support::documented_as("snapshot tree", item["type"].as_str().unwrap(), item);
    }
    let paths = |items: &[Value]| items.iter().map(|item| item["path"].clone()).collect::<Vec<_>>();
    let image: Vec<Value> =
        with_topics().leaves().map(|leaf| quorate::cluster_facts::path(&leaf.path)).collect();
    assert_eq!(paths(&all), image);
    let hidden = all.iter().find(|item| item["path"][3] == "ssl.key.password").unwrap();
    assert_eq!((&hidden["hidden"], &hidden["value"]), (&json!(true), &Value::Null));

    // Below a path, and down to a depth of it.
    assert_eq!(
        items("/v1/metadata/?depth=1"),
        [
            json!({ "type": "level", "path": ["configs"], "facts": 2 }),
            json!({ "type": "level", "path": ["features"], "facts": 1 }),
            json!({ "type": "level", "path": ["topics"], "facts": 9 }),
        ]
    );
    assert_eq!(paths(&items("/v1/metadata/topics?depth=1")).len(), 3);
    let escaped = items("/v1/metadata/topics/d%25%2F/");
    assert!(
        escaped.len() == 3 && escaped.iter().all(|item| item["path"][1] == "d%/"),
        "{escaped:?}"
    );
    let one = items("/v1/metadata/configs/broker/1/log.retention.ms");
    assert_eq!(
        one,
        [
            json!({ "type": "fact", "path": ["configs", "broker", "1", "log.retention.ms"], "value": "77", "hidden": false })
        ]
    );

    // Page after page is the whole, whatever the size and the depth.
    for (size, depth) in [(1, 64), (2, 64), (5, 64), (1, 1), (2, 2)] {
        let whole = items(&format!("/v1/metadata?depth={depth}"));
        let (mut pages, mut after) = (Vec::new(), String::new());
        loop {
            let (_, page) = get(&format!("/v1/metadata?depth={depth}&limit={size}{after}"));
            let items = page["items"].as_array().unwrap();
            assert!(!items.is_empty() && items.len() <= size, "{page}");
            pages.extend(items.clone());
            let Some(next) = page["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        assert_eq!(pages, whole, "{size} at a time, depth {depth}");
    }

    for (path, code, word) in [
        ("/v1/metadata/topics/absent", 404, "no_such_fact"),
        ("/v1/metadata/topics/c/id/deeper", 404, "no_such_fact"),
        ("/v1/metadata/topics/%zz", 400, "invalid_request"),
        ("/v1/metadata?after=%21", 400, "invalid_request"),
        ("/v1/metadata?limit=0", 400, "invalid_request"),
        ("/v1/metadatas", 404, "no_key_value_store"),
    ] {
        let (found, refusal) = get(path);
        assert_eq!((found, &refusal["error"]), (code, &json!(word)), "{path}: {refusal}");
    }
    stop.send(true).unwrap();
    served.join().unwrap();
}
