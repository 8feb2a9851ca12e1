//! What a quorum says of itself over Kafka's protocol: which cluster it is, which controllers there
//! are, who leads, and how far each replica is.
//!
//! Asks each question once: DescribeCluster of any controller (KIP-919, Kafka 3.7 and later),
//! DescribeQuorum of the leader, and what others have to ask of that one. All servers are asked at
//! once, so that who is silent costs nothing where another one answers. Plain connections; TLS and
//! SASL are not spoken.

use quorate::{HostPort, exchange};
use quorate_wire::message::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, CONTROLLERS, DescribeClusterRequest,
    DescribeClusterResponse, DescribeQuorumRequest, DescribeQuorumRequestPartition,
    DescribeQuorumResponse, QuorumNode, QuorumReplica, Request, Topic,
};
use quorate_wire::{ApiKey, ErrorCode, RequestHeader, ResponseFrame, encode_request};
use std::io::ErrorKind;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

/// The log that a cluster's metadata are in.
const TOPIC: &str = "__cluster_metadata";
const CONNECT_TIME: Duration = Duration::from_secs(3);
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// How long all questions to a server and its leader may take, where nobody says otherwise.
const ROUND_TIME: Duration = Duration::from_secs(10);
/// How it looks when the other side closes a connection: at the end, or with a question unread.
const BROKEN_OFF: [ErrorKind; 3] =
    [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
/// The first version of ApiVersions in which features may begin at level 0.
const FEATURES_VERSION: i16 = 4;
/// No answer to what is asked here is longer.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The quorum as its leader sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Quorum {
    pub(super) cluster: String,
    pub(super) leader: i32,
    pub(super) epoch: i32,
    /// One past the last committed offset.
    pub(super) high_watermark: u64,
    pub(super) voters: Vec<QuorumReplica>,
    pub(super) observers: Vec<QuorumReplica>,
    /// The controllers, by id, and where they listen.
    pub(super) controllers: Vec<(i32, HostPort)>,
    /// The name of the listener by which the voters reach the leader, if it tells that.
    pub(super) listener: Option<String>,
}

/// Why there is no picture of the quorum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Silence {
    /// It will not get better by itself: what was asked is no controller, or none that is known
    /// here.
    Wrong(String),
    /// Nobody answers.
    Nobody(String),
    /// Somebody answers, and there is no leader that does, which an election may change.
    NoLeader(String),
}

impl Silence {
    pub(super) fn text(&self) -> &str {
        match self {
            Silence::Wrong(text) | Silence::Nobody(text) | Silence::NoLeader(text) => text,
        }
    }
}

/// A controller that is named on a command line.
pub(super) fn server(text: &str) -> Result<HostPort, String> {
    let found = quorate::settings::host_port(text.trim());
    found.filter(|at| !at.host.is_empty() && at.port > 0).ok_or_else(|| {
        "write HOST:PORT of a controller, as in controller.quorum.bootstrap.servers".to_owned()
    })
}

/// Asks all servers for the leader, and that for the quorum.
pub(super) async fn describe(servers: &[HostPort]) -> Result<Quorum, Silence> {
    describe_within(servers, ROUND_TIME).await
}

/// The same with as much time as there is.
pub(super) async fn describe_within(
    servers: &[HostPort],
    patience: Duration,
) -> Result<Quorum, Silence> {
    to_leader(servers, patience).await.map(|(quorum, _)| quorum)
}

/// The same, and the connection to the leader that said it. Whose answer comes first counts.
pub(super) async fn to_leader(
    servers: &[HostPort],
    patience: Duration,
) -> Result<(Quorum, Controller), Silence> {
    let mut asking = JoinSet::new();
    for (at, server) in servers.iter().cloned().enumerate() {
        asking.spawn(async move { (at, through(&server, patience).await) });
    }
    let mut silences = Vec::new();
    while let Some(joined) = asking.join_next().await {
        match joined {
            // Those that are still asked are not waited for.
            Ok((_, Ok(found))) => return Ok(found),
            Ok((at, Err(silence))) => silences.push((at, silence)),
            Err(error) => silences.push((servers.len(), Silence::Nobody(error.to_string()))),
        }
    }
    silences.sort_by_key(|(at, _)| *at);
    let named = silences.into_iter().map(|(at, silence)| (servers.get(at), silence));
    Err(all_silent(named))
}

/// What it comes to where no server could say who leads.
fn all_silent<'a>(silences: impl Iterator<Item = (Option<&'a HostPort>, Silence)>) -> Silence {
    let (mut said, mut wrong, mut leaderless): (Vec<String>, Option<String>, bool) =
        (Vec::new(), None, false);
    for (server, silence) in silences {
        let line = format!("{}: {}", server.map_or_else(|| "?".into(), shown), silence.text());
        leaderless |= matches!(silence, Silence::NoLeader(_));
        if matches!(silence, Silence::Wrong(_)) {
            wrong.get_or_insert(line.clone());
        }
        said.push(line);
    }
    let said = said.join("\n  ");
    match wrong {
        _ if leaderless => Silence::NoLeader(format!(
            "no leader answers\n  {said}\nThe quorum elects a leader within seconds while a majority of its voters run and \
             reach each other. Ask again in a moment; if that does not help, start the voters that are down, or look \
             why they do not reach each other: their logs say whom they miss."
        )),
        Some(wrong) => Silence::Wrong(wrong),
        None => Silence::Nobody(format!(
            "no controller answers\n  {said}\nName at least one controller that runs: HOST:PORT of its \
             controller listener, as controller.quorum.bootstrap.servers or controller.quorum.voters has it."
        )),
    }
}

/// The cluster that a controller is of, whether or not it knows a leader.
pub(super) async fn cluster_of(server: &HostPort) -> Result<String, Silence> {
    introduce(server).await.map(|cluster| cluster.cluster_id)
}

/// The features that a controller says it supports, and those of its cluster that are in force.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Features {
    supported: Vec<(String, i16)>,
    finalized: Vec<(String, i16)>,
}

impl Features {
    /// The newest level of a feature that it speaks; `None` if it does not know the feature.
    pub(super) fn supported(&self, feature: &str) -> Option<i16> {
        level_of(&self.supported, feature)
    }

    /// The level of a feature that is in force; `None` for one that has none.
    pub(super) fn finalized(&self, feature: &str) -> Option<i16> {
        level_of(&self.finalized, feature)
    }
}

fn level_of(features: &[(String, i16)], name: &str) -> Option<i16> {
    features.iter().find(|(feature, _)| feature == name).map(|(_, level)| *level)
}

/// What a controller says of features; nothing where it speaks no version that says it whole.
pub(super) async fn features_of(server: &HostPort) -> Result<Features, Silence> {
    let mut controller = Controller::connect(server).await.map_err(Silence::Nobody)?;
    controller.greet().await?;
    let own = controller.speaks.iter().find(|api| api.api_key == ApiKey::ApiVersions.key());
    if own.is_none_or(|api| api.max_version < FEATURES_VERSION) {
        return Ok(Features::default());
    }
    let request = ApiVersionsRequest {
        client_software_name: "quorate".to_owned(),
        client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..ApiVersionsRequest::default()
    };
    let answer: ApiVersionsResponse = controller.exchange(request, FEATURES_VERSION).await?;
    if answer.error_code != ErrorCode::None {
        return Err(refused("the question for features", answer.error_code, None));
    }
    let supported = answer.supported_features.into_iter().map(|at| (at.name, at.max_version));
    let finalized = answer.finalized_features.into_iter();
    Ok(Features {
        supported: supported.collect(),
        finalized: finalized.map(|at| (at.name, at.max_version_level)).collect(),
    })
}

/// What a controller says of its cluster.
async fn introduce(server: &HostPort) -> Result<DescribeClusterResponse, Silence> {
    let mut controller = Controller::connect(server).await.map_err(Silence::Nobody)?;
    controller.greet().await?;
    let request =
        DescribeClusterRequest { endpoint_type: CONTROLLERS, ..DescribeClusterRequest::default() };
    let cluster: DescribeClusterResponse = controller.ask(request, 1).await?;
    let other = [ErrorCode::MismatchedEndpointType, ErrorCode::UnsupportedEndpointType];
    if other.contains(&cluster.error_code) {
        return Err(Silence::Wrong(
            "this is a broker; name a controller, by the port of its controller listener".into(),
        ));
    }
    if cluster.error_code != ErrorCode::None {
        let (code, message) = (cluster.error_code, cluster.error_message);
        return Err(refused("the question for the cluster", code, message));
    }
    Ok(cluster)
}

/// By what one server knows, which may be who leads and no more.
async fn through(server: &HostPort, patience: Duration) -> Result<(Quorum, Controller), Silence> {
    let (end, s) = (Instant::now() + patience, patience.as_secs_f64().ceil());
    let late = || Silence::Nobody(format!("no answer within {s} s"));
    let cluster = timeout_at(end, introduce(server)).await.unwrap_or_else(|_| Err(late()))?;
    let place = |host: &str, port: i32| {
        let port = u16::try_from(port).ok().filter(|port| *port > 0)?;
        Some(HostPort { host: host.to_owned(), port })
    };
    let nodes = cluster.brokers.iter();
    let controllers: Vec<(i32, HostPort)> =
        nodes.filter_map(|node| Some((node.broker_id, place(&node.host, node.port)?))).collect();
    let leader = cluster.controller_id;
    if leader < 0 {
        return Err(Silence::NoLeader("this controller knows no leader".into()));
    }
    let Some((_, at)) = controllers.iter().find(|(id, _)| *id == leader) else {
        return Err(Silence::NoLeader(format!(
            "this controller names node {leader} as the leader and does not say where it listens"
        )));
    };
    let asked = timeout_at(end, of_leader(at)).await.unwrap_or_else(|_| Err(late()));
    let (asked, connection) = asked.map_err(|silence| match silence {
        Silence::Nobody(why) => Silence::NoLeader(format!(
            "the leader, node {leader} at {}, does not answer: {why}",
            shown(at)
        )),
        Silence::Wrong(_) | Silence::NoLeader(_) => silence,
    })?;
    // Kafka's knows those that have registered; the leader those that the log names.
    let known = |id: i32| controllers.iter().any(|(known, _)| *known == id);
    let others: Vec<_> = asked.controllers.into_iter().filter(|(id, _)| !known(*id)).collect();
    let controllers = controllers.into_iter().chain(others).collect();
    Ok((Quorum { cluster: cluster.cluster_id, controllers, ..asked }, connection))
}

/// What only the leader knows.
async fn of_leader(at: &HostPort) -> Result<(Quorum, Controller), Silence> {
    let mut controller = Controller::connect(at).await.map_err(Silence::Nobody)?;
    controller.greet().await?;
    let partitions = vec![DescribeQuorumRequestPartition::default()];
    let topics = vec![Topic { topic_name: TOPIC.into(), partitions, tags: Vec::new() }];
    let request = DescribeQuorumRequest { topics, ..DescribeQuorumRequest::default() };
    let answer: DescribeQuorumResponse = controller.ask(request, 0).await?;
    let what = "the question for the quorum";
    if answer.error_code != ErrorCode::None {
        return Err(refused(what, answer.error_code, answer.error_message));
    }
    let listening = |node: &QuorumNode| {
        let first = node.listeners.first()?;
        Some((node.node_id, HostPort { host: first.host.clone(), port: first.port }))
    };
    let partition = answer.topics.into_iter().flat_map(|topic| topic.partitions).next();
    let Some(partition) = partition else {
        return Err(Silence::Wrong("the answer of the leader speaks of no partition".into()));
    };
    let leader = answer.nodes.iter().find(|node| node.node_id == partition.leader_id);
    let listener = leader.and_then(|leader| leader.listeners.first());
    match (partition.error_code, u64::try_from(partition.high_watermark)) {
        (ErrorCode::None, Ok(high_watermark)) => {
            let quorum = Quorum {
                cluster: String::new(),
                leader: partition.leader_id,
                epoch: partition.leader_epoch,
                high_watermark,
                voters: partition.current_voters,
                observers: partition.observers,
                controllers: answer.nodes.iter().filter_map(listening).collect(),
                listener: listener.map(|listener| listener.name.clone()),
            };
            Ok((quorum, controller))
        }
        (ErrorCode::None, Err(_)) => {
            Err(Silence::NoLeader("the leader has not committed anything in its epoch yet".into()))
        }
        (ErrorCode::NotLeaderOrFollower, _) => Err(Silence::NoLeader(format!(
            "{} does not lead any more, and the next leader is not known yet",
            shown(at)
        ))),
        (code, _) => Err(refused(what, code, partition.error_message)),
    }
}

pub(super) fn refused(what: &str, code: ErrorCode, message: Option<String>) -> Silence {
    let words = message.filter(|words| !words.is_empty());
    let words = words.map_or(String::new(), |words| format!(" ({words})"));
    let hint = if code == ErrorCode::ClusterAuthorizationFailed {
        ": this cluster wants to know who asks, and authentication is not spoken here"
    } else if code == ErrorCode::UnknownTopicOrPartition {
        ": its log has another name than __cluster_metadata"
    } else {
        ""
    };
    Silence::Wrong(format!("{what} was refused with {code}{words}{hint}"))
}

/// A connection to one controller.
pub(super) struct Controller {
    stream: TcpStream,
    speaks: Vec<ApiVersion>,
    correlation: i32,
}

impl Controller {
    async fn connect(at: &HostPort) -> Result<Controller, String> {
        match timeout(CONNECT_TIME, TcpStream::connect((at.host.as_str(), at.port))).await {
            Ok(Ok(stream)) => Ok(Controller { stream, speaks: Vec::new(), correlation: 0 }),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no connection within {} s", CONNECT_TIME.as_secs())),
        }
    }

    /// Asks what it speaks, in the version that everybody understands.
    async fn greet(&mut self) -> Result<(), Silence> {
        let answer: ApiVersionsResponse = self.exchange(ApiVersionsRequest::default(), 0).await?;
        if answer.error_code != ErrorCode::None {
            return Err(refused("the question for versions", answer.error_code, None));
        }
        self.speaks = answer.api_keys;
        Ok(())
    }

    /// Asks in the newest version that both sides speak, which must be `least` or newer.
    pub(super) async fn ask<R: Request>(
        &mut self,
        request: R,
        least: i16,
    ) -> Result<R::Response, Silence> {
        let api = R::API;
        let theirs = self.speaks.iter().find(|theirs| theirs.api_key == api.key());
        let common = theirs.and_then(|theirs| {
            let newest = theirs.max_version.min(api.newest());
            (newest >= least.max(theirs.min_version)).then_some(newest)
        });
        let Some(version) = common else {
            let how = match (theirs, api) {
                (None, ApiKey::DescribeQuorum) => "it serves no metadata quorum".to_owned(),
                (None, ApiKey::AddRaftVoter | ApiKey::RemoveRaftVoter) => {
                    "it changes no voters, as controllers of Kafka 3.9 and later do".to_owned()
                }
                (None | Some(_), _) => {
                    format!(
                        "it does not speak {api} {least}, as controllers of Kafka 3.7 and later do"
                    )
                }
            };
            return Err(Silence::Wrong(format!("no controller that can be asked: {how}")));
        };
        self.exchange(request, version).await
    }

    async fn exchange<R: Request>(
        &mut self,
        request: R,
        version: i16,
    ) -> Result<R::Response, Silence> {
        let odd = |why: &str| {
            Silence::Wrong(format!(
                "this is no controller of Kafka's or ours that can be asked without TLS and SASL: {why}"
            ))
        };
        self.correlation += 1;
        let client = Some("quorate".to_owned());
        let header = RequestHeader::new(R::API, version, self.correlation, client);
        let frame = encode_request(header, request).map_err(|error| odd(&error.to_string()))?;
        let frame = frame.into_payload();
        let exchanged = exchange::round_trip(&mut self.stream, &frame, ANSWER_BYTES_MAX);
        match timeout(ANSWER_TIME, exchanged).await {
            Ok(Ok(Some(answer))) => {
                let answer = ResponseFrame::parse(answer);
                let answer = answer.and_then(|answer| answer.decode::<R::Response>(version));
                answer.map_err(|error| odd(&format!("its answer makes no sense, {error}")))
            }
            Ok(Ok(None)) => Err(odd("it does not answer in Kafka's protocol")),
            // Nobody who speaks Kafka's protocol breaks off at the first question.
            Ok(Err(error)) if BROKEN_OFF.contains(&error.kind()) && self.speaks.is_empty() => {
                Err(odd("it closed the connection at the first question"))
            }
            Ok(Err(error)) => Err(Silence::Nobody(format!("the connection broke off: {error}"))),
            Err(_) if self.speaks.is_empty() => Err(Silence::Nobody(format!(
                "it takes the connection and does not answer within {} s; is it a controller, without TLS and SASL?",
                ANSWER_TIME.as_secs()
            ))),
            Err(_) => Err(Silence::Nobody(format!("no answer within {} s", ANSWER_TIME.as_secs()))),
        }
    }
}

/// `host:port`, as it is written in a property file.
pub(super) fn shown(at: &HostPort) -> String {
    match at.host.contains(':') {
        true => format!("[{}]:{}", at.host, at.port),
        false => format!("{}:{}", at.host, at.port),
    }
}

/// A replica beside its leader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Replica {
    pub(super) node: i32,
    /// `Leader`, `Follower` or `Observer`.
    pub(super) status: &'static str,
    /// Its log's end, where the leader knows it.
    pub(super) end: Option<u64>,
    /// Records that it lacks.
    pub(super) lag: Option<u64>,
    /// Milliseconds since it had all that the leader had.
    pub(super) caught_up_ms: Option<i64>,
    /// Where a voter listens.
    pub(super) address: Option<String>,
}

/// All that the leader lists: voters, then observers.
pub(super) fn replicas(quorum: &Quorum) -> impl Iterator<Item = Replica> {
    let leader = quorum.voters.iter().find(|voter| voter.replica_id == quorum.leader);
    let voters = quorum.voters.iter().map(|replica| (replica, true));
    let observers = quorum.observers.iter().map(|replica| (replica, false));
    voters.chain(observers).map(move |(replica, votes)| beside(leader, replica, votes, quorum))
}

fn beside(
    leader: Option<&QuorumReplica>,
    replica: &QuorumReplica,
    votes: bool,
    quorum: &Quorum,
) -> Replica {
    let node = replica.replica_id;
    let end_of = |replica: &QuorumReplica| u64::try_from(replica.log_end_offset).ok();
    let end = end_of(replica);
    let lag = leader.and_then(end_of).zip(end).map(|(leader, own)| leader.saturating_sub(own));
    // Both by the leader's clock, whose own is now.
    let now = leader.map_or(-1, |leader| leader.last_caught_up_timestamp);
    let then = replica.last_caught_up_timestamp;
    let address = quorum.controllers.iter().find(|(id, _)| *id == node && votes);
    Replica {
        node,
        status: match (node == quorum.leader, votes) {
            (true, _) => "Leader",
            (false, true) => "Follower",
            (false, false) => "Observer",
        },
        end,
        lag,
        caught_up_ms: (now >= 0 && then >= 0).then(|| (now - then).max(0)),
        address: address.map(|(_, at)| shown(at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    fn replica(replica_id: i32, log_end_offset: i64, caught_up: i64) -> QuorumReplica {
        let last_caught_up_timestamp = caught_up;
        QuorumReplica { replica_id, log_end_offset, last_caught_up_timestamp, ..Default::default() }
    }

    #[test]
    fn lag_is_what_a_replica_lacks_of_its_leader() {
        let quorum = Quorum {
            cluster: "c".into(),
            leader: 2,
            epoch: 5,
            high_watermark: 90,
            voters: vec![replica(1, 80, 1_000), replica(2, 100, 1_500), replica(3, -1, -1)],
            observers: vec![replica(9, 99, 1_400)],
            controllers: Vec::new(),
            listener: None,
        };
        let found: Vec<_> = replicas(&quorum)
            .map(|replica| (replica.node, replica.status, replica.lag, replica.caught_up_ms))
            .collect();
        let expected = [
            (1, "Follower", Some(20), Some(500)),
            (2, "Leader", Some(0), Some(0)),
            (3, "Follower", None, None),
            (9, "Observer", Some(1), Some(100)),
        ];
        assert_eq!(found, expected);
    }

    #[tokio::test]
    async fn who_is_silent_keeps_nobody_from_being_asked() {
        let mut listeners = Vec::new();
        for _ in 0..3 {
            listeners.push(tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port"));
        }
        let at = |listener: &tokio::net::TcpListener| HostPort {
            host: "127.0.0.1".into(),
            port: listener.local_addr().expect("bound").port(),
        };
        let servers: Vec<HostPort> = listeners.iter().map(at).collect();
        let asking = tokio::spawn(async move { describe(&servers).await });
        let mut open = Vec::new();
        for listener in listeners {
            open.push(listener.accept().await.expect("asked").0);
        }
        // All are asked before any of them is given up.
        for stream in &mut open {
            stream.read_exact(&mut [0; 4]).await.expect("a question");
        }
        let is_closed = |stream: &TcpStream| {
            let mut rest = [0; 1 << 10];
            while stream.try_read(&mut rest).is_ok_and(|read| read > 0) {}
            matches!(stream.try_read(&mut rest), Ok(0))
        };
        assert!(!open.iter().any(is_closed) && !asking.is_finished());
        drop(open);
        let silence = asking.await.expect("no panic").expect_err("nobody answered");
        assert!(silence.text().contains("at the first question"), "{}", silence.text());
    }

    #[tokio::test]
    async fn nobody_is_asked_for_longer_than_there_is_time() {
        let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = mute.local_addr().expect("bound").port();
        let server = HostPort { host: "127.0.0.1".into(), port };
        let silence = describe_within(&[server], Duration::from_millis(20)).await;
        let silence = silence.expect_err("nobody answered");
        assert!(silence.text().contains("no answer within"), "{}", silence.text());
    }
}
