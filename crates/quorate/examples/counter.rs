//! A machine of one's own on three nodes in one process: a counter that loses its leader and goes
//! on.
//!
//! Run it with `cargo run --example counter`. The machine comes first; what it takes to run it
//! follows.

use quorate::{
    Answer, Batch, Config, Consistency, Corrupt, Embedded, Epoch, Error, HostPort, Image, Machine,
    Offset, OffsetEpoch, OwnedRecord, Proposal, ReplicaId, Request, SessionId, Sessioned, Span,
    Stamp, Time, Voter,
};
use std::net::TcpListener;

/// Counts the records of its log.
#[derive(Default)]
struct Counter {
    count: u64,
    /// On the leader: the count once everything proposed so far is applied.
    tail: u64,
}

impl Machine for Counter {
    type Query = ();
    type Reply = u64;

    fn apply(&mut self, batch: &Batch<'_>) {
        self.count += batch.records.len() as u64;
    }

    fn query(&self, (): &()) -> u64 {
        self.count
    }

    fn digest(&self) -> u64 {
        self.count
    }

    fn snapshot(&self) -> Image {
        let count = self.count.to_be_bytes().to_vec();
        Image::new(std::iter::once(OwnedRecord::new(Offset(0), "count".into(), count.into())))
    }

    fn restore(
        &mut self,
        at: OffsetEpoch,
        records: &mut dyn Iterator<Item = OwnedRecord>,
    ) -> Result<(), Corrupt> {
        let count = records
            .next()
            .and_then(|record| record.value)
            .and_then(|value| value.as_ref().try_into().ok());
        let count = count.ok_or(Corrupt { offset: at.offset, what: "eight bytes are needed" })?;
        self.count = u64::from_be_bytes(count);
        Ok(())
    }

    fn lead(&mut self, _now: Time, _since: Option<(Epoch, Offset)>) {
        self.tail = self.count;
    }

    fn propose(&mut self, _now: Time, _at: Offset, _request: &Request, out: &mut Proposal) {
        self.tail += 1;
        out.record(None, Some(b"+1"));
        out.answer(Answer::Done(self.tail.to_be_bytes().to_vec().into()));
    }

    fn wake(&mut self, _now: Time, _at: Offset, _out: &mut Proposal) {}

    fn deadline(&self) -> Time {
        Time::NEVER
    }
}

type Node = Embedded<Sessioned<Counter>>;

const PATIENCE: Span = Span::ms(5_000);

/// Asks until it is certain: within a session a request that was sent twice is applied once.
async fn submit(node: &Node, request: Request) -> Result<Answer, Error> {
    loop {
        match node.handle().write(request.clone(), PATIENCE).await {
            Err(Error::NoLeader | Error::OutcomeUnknown) => {}
            answered => return answered,
        }
    }
}

async fn increment(node: &Node, session: SessionId, sequence: u64) -> Result<(), Error> {
    let stamp = Stamp { session, slot: 0, sequence };
    let answer = submit(node, Request::stamped(stamp, "+1")).await?;
    assert_eq!(answer, Answer::Done(sequence.to_be_bytes().to_vec().into()));
    Ok(())
}

/// Counts to 100, stops the leader, counts to 200.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::temp_dir().join(format!("quorate-counter-{}", std::process::id()));
    let ports: Vec<TcpListener> =
        (0..3).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    let mut voters = Vec::new();
    for (id, port) in (1..).zip(&ports) {
        let at = HostPort { host: "127.0.0.1".into(), port: port.local_addr()?.port() };
        voters.push(Voter { id: ReplicaId(id), at });
    }
    drop(ports);

    let mut nodes = Vec::new();
    for Voter { id, at } in &voters {
        let config = Config::new(Some(*id), root.join(id.to_string()), voters.clone(), at.clone());
        quorate::format(&config, Some("counter"))?;
        nodes.push(Embedded::start(config, Sessioned::new(Counter::default()))?);
    }

    let Answer::Opened(session) =
        submit(&nodes[0], Request::open_session(Span::ms(60_000))).await?
    else {
        return Err("no session was opened".into());
    };
    for sequence in 1..=100 {
        increment(&nodes[0], session, sequence).await?;
    }
    let leader = nodes[0].handle().status().await?.leader.ok_or("no leader is known")?;
    println!("counted to 100; node {leader} leads and is stopped now");
    let index = voters.iter().position(|voter| voter.id.0 == leader).ok_or("a stranger leads")?;
    nodes.remove(index).stop()?;

    for sequence in 101..=200 {
        increment(&nodes[0], session, sequence).await?;
    }
    for node in &nodes {
        let (count, _) = node.handle().read((), Consistency::Linearizable, PATIENCE).await?;
        assert_eq!(count, 200);
    }
    let leader = nodes[0].handle().status().await?.leader.ok_or("no leader is known")?;
    println!("counted to 200; node {leader} leads now");
    std::fs::remove_dir_all(root)?;
    Ok(())
}
