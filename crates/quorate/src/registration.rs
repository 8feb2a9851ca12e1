//! A controller of a Kafka cluster tells the active one of itself (KIP-919), so that the cluster
//! knows where it listens and what it understands: without that no feature of a cluster with voters
//! in its log can be raised.
//!
//! For a node that keeps the metadata ([`Mirror`]) and leaves leading to Kafka's controllers. It
//! asks the leader and nobody else, and only as long as the log does not hold this process's
//! registration. What it says is true of this program: the levels that it reads, not those that it
//! could serve.

use crate::exchange;
use crate::settings;
use bytes::Bytes;
use quorate_base::{ReplicaId, Rng, Span, Uuid};
use quorate_machine::kafka::{KRAFT_VERSION, METADATA_VERSION, MetadataImage, Mirror};
use quorate_node::config::HostPort;
use quorate_node::handle::{Consistency, Handle};
use quorate_node::status::Status;
use quorate_wire::message::{
    ApiVersionsRequest, ApiVersionsResponse, ControllerRegistrationRequest,
    ControllerRegistrationResponse, Request,
};
use quorate_wire::record::metadata::{RegisteredEndpoint, RegisteredFeature};
use quorate_wire::{ApiKey, ErrorCode, RequestHeader, ResponseFrame, encode_request};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

/// Since 3.7-IV0 a log may hold registrations of controllers.
const SINCE: i16 = 15;
/// The levels of features whose records [`Mirror`] understands: those of Kafka 4.3.
const UNDERSTOOD: [(&str, i16, i16); 7] = [
    ("eligible.leader.replicas.version", 0, 1),
    ("group.version", 0, 1),
    (KRAFT_VERSION, 0, 1),
    (METADATA_VERSION, 7, 30),
    ("share.version", 0, 1),
    ("streams.version", 0, 1),
    ("transaction.version", 0, 2),
];
/// How often it looks whether it is registered.
const LOOK: Duration = Duration::from_millis(500);
/// How long the leader may take for the connection and for each answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// No answer to what is asked here is longer.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// After a refusal it waits at least this long, then twice as long, and so on.
const PAUSE_LEAST: Span = Span::ms(100);
const PAUSE_MOST: Span = Span::ms(60_000);

/// Who registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registrant {
    /// `node.id`.
    pub id: ReplicaId,
    /// New with each process.
    pub incarnation: Uuid,
    /// The name of the controller listener.
    pub listener: String,
    /// Where others reach it.
    pub at: HostPort,
}

impl Registrant {
    /// What it tells the active controller.
    pub fn request(&self) -> ControllerRegistrationRequest {
        let feature = |(name, least, most): &(&str, i16, i16)| RegisteredFeature {
            name: (*name).to_owned(),
            min_supported_version: *least,
            max_supported_version: *most,
            ..RegisteredFeature::default()
        };
        ControllerRegistrationRequest {
            controller_id: self.id.0 as i32,
            incarnation_id: self.incarnation,
            zk_migration_ready: false,
            listeners: vec![RegisteredEndpoint {
                name: self.listener.clone(),
                host: self.at.host.clone(),
                port: self.at.port,
                security_protocol: 0,
                ..RegisteredEndpoint::default()
            }],
            features: UNDERSTOOD.iter().map(feature).collect(),
            ..ControllerRegistrationRequest::default()
        }
    }

    /// Whether a cluster in this state is to be told, because its log may hold a registration and
    /// holds none of this process's.
    pub fn is_due(&self, image: &MetadataImage) -> bool {
        let may = image.features().metadata_version() >= Some(SINCE);
        let found = image.controllers().get(&(self.id.0 as i32));
        may && found.is_none_or(|found| found.incarnation_id != self.incarnation)
    }
}

/// Keeps the node registered as long as it runs.
pub async fn keep(handle: Handle<Mirror>, own: Registrant) {
    let mut pauses = Pauses::new(&own);
    loop {
        sleep(LOOK).await;
        let Ok(status) = handle.status().await else { return };
        let Ok((picture, _)) = handle.read((), Consistency::Local, Span::ZERO).await else {
            return;
        };
        // Before it has applied what was there at its start, it does not know what the log holds.
        let Some((leader, at)) = leader(&status, &own).filter(|_| status.ready) else { continue };
        if !own.is_due(&picture.image) {
            pauses.begin_anew();
            continue;
        }
        match timeout(3 * ANSWER_TIME, register(&at, &own)).await {
            Ok(Ok(())) => {
                info!(leader, "the active controller has registered this one");
                pauses.begin_anew();
                // The record is committed; it only has to arrive here.
                wait_for_record(&handle, &own).await;
            }
            Ok(Err(why)) => pauses.refused(leader, &why).await,
            Err(_) => pauses.refused(leader, "it does not answer").await,
        }
    }
}

async fn wait_for_record(handle: &Handle<Mirror>, own: &Registrant) {
    for _ in 0..20 {
        let read = handle.read((), Consistency::Local, Span::ZERO).await;
        if !read.is_ok_and(|(picture, _)| own.is_due(&picture.image)) {
            return;
        }
        sleep(LOOK / 5).await;
    }
}

/// Another node that leads, and where it listens.
fn leader(status: &Status, own: &Registrant) -> Option<(u32, HostPort)> {
    let leader = status.leader.filter(|leader| *leader != own.id.0)?;
    let voter = status.voters.iter().find(|voter| voter.node == leader)?;
    Some((leader, settings::host_port(&voter.endpoint)?))
}

/// How long to wait after each of a row of refusals.
struct Pauses {
    next: Span,
    rng: Rng,
}

impl Pauses {
    fn new(own: &Registrant) -> Pauses {
        let seed = own.incarnation.0.iter().fold(0, |seed, byte| seed << 7 ^ u64::from(*byte));
        Pauses { next: PAUSE_LEAST, rng: Rng::new(seed) }
    }

    fn begin_anew(&mut self) {
        self.next = PAUSE_LEAST;
    }

    /// Between the pause and half as much more, so that nodes do not come all at once.
    fn take(&mut self) -> Span {
        let pause = self.next;
        self.next = Span(pause.0 * 2).min(PAUSE_MOST);
        pause + Span(self.rng.below(pause.0 / 2))
    }

    async fn refused(&mut self, leader: u32, why: &str) {
        // The first ones are what an election looks like.
        match self.next < Span::ms(2_000) {
            true => debug!(leader, why, "this controller is not registered yet"),
            false => warn!(
                leader,
                why,
                "the active controller does not register this one: the cluster's features cannot be \
                 raised until it does; it is asked again"
            ),
        }
        sleep(Duration::from_micros(self.take().0)).await;
    }
}

/// Asks one controller. An error says why this process is not registered, for the log.
async fn register(at: &HostPort, own: &Registrant) -> Result<(), String> {
    let connected = timeout(ANSWER_TIME, TcpStream::connect((at.host.as_str(), at.port))).await;
    let mut stream = connected.map_err(|_| "no connection in time")?.map_err(text)?;
    let speaks: ApiVersionsResponse = ask(&mut stream, ApiVersionsRequest::default(), 0).await?;
    let api = ApiKey::ControllerRegistration;
    if !speaks.api_keys.iter().any(|theirs| theirs.api_key == api.key()) {
        return Err(
            "it takes no registrations: it is no controller of Kafka's, or one before 3.7".into()
        );
    }
    let answer: ControllerRegistrationResponse = ask(&mut stream, own.request(), 1).await?;
    match (answer.error_code, answer.error_message) {
        (ErrorCode::None, _) => Ok(()),
        (code, Some(words)) => Err(format!("{code}: {words}")),
        (code, None) => Err(code.to_string()),
    }
}

async fn ask<R: Request>(
    stream: &mut TcpStream,
    request: R,
    correlation: i32,
) -> Result<R::Response, String> {
    // All that is asked here is asked in its first version.
    let header = RequestHeader::new(R::API, 0, correlation, Some("quorate".to_owned()));
    let frame = encode_request(header, request).map_err(text)?.into_payload();
    let exchanged = exchange::round_trip(stream, &frame, ANSWER_BYTES_MAX);
    let answer: Option<Bytes> =
        timeout(ANSWER_TIME, exchanged).await.map_err(|_| "no answer in time")?.map_err(text)?;
    let answer = answer.ok_or("it does not answer in Kafka's protocol")?;
    ResponseFrame::parse(answer).and_then(|answer| answer.decode(0)).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
