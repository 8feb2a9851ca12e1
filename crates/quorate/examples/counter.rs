//! A machine of one's own on three nodes in one process: it counts, loses its leader and counts on.

use quorate::*;

/// Counts the records of its log.
#[derive(Default)]
struct Counter(u64);

impl Machine for Counter {
    type Query = ();
    type Reply = u64;

    fn fresh(&self) -> Counter {
        Counter::default()
    }

    fn view(&self) -> Counter {
        Counter(self.0)
    }

    fn propose(&mut self, _: Time, _: Offset, _: &Request, out: &mut Proposal) {
        out.record(None, Some(b"+1"));
        out.answer(Answer::Done("counted".into()));
    }
    fn apply(&mut self, batch: &Batch<'_>) {
        self.0 += batch.records.len() as u64;
    }
    fn query(&self, (): &()) -> u64 {
        self.0
    }
    fn digest(&self) -> u64 {
        self.0
    }
    fn snapshot(&self) -> Image {
        let count = self.0.to_be_bytes().to_vec();
        Image::new(std::iter::once(OwnedRecord::new(Offset(0), "count".into(), count.into())))
    }
    fn restore(&mut self, at: OffsetEpoch, records: &mut Records<'_>) -> Result<(), Corrupt> {
        let count = records.next().and_then(|record| record.value?.as_ref().try_into().ok());
        let corrupt = Corrupt { offset: at.offset, what: "a count has eight bytes" };
        self.0 = u64::from_be_bytes(count.ok_or(corrupt)?);
        Ok(())
    }
}

const PATIENCE: Span = Span::ms(10_000);

/// Counts to 100, stops the leader, counts to 200.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::temp_dir().join(format!("quorate-counter-{}", std::process::id()));
    let mut nodes = Embedded::cluster_in(&root, 3, || Sessioned::new(Counter::default()))?;
    let mut session = Session::open(&nodes[0].handle(), Span::ms(60_000), PATIENCE).await?;
    for _ in 0..100 {
        session.write(&nodes[0].handle(), "+1", PATIENCE).await?;
    }
    let leader = nodes[0].handle().status().await?.leader.ok_or("no leader is known")?;
    println!("counted to 100; node {leader} leads and is stopped now");
    nodes.remove(leader as usize - 1).stop()?;
    for _ in 0..100 {
        session.write(&nodes[0].handle(), "+1", PATIENCE).await?;
    }
    let (count, _) = nodes[1].handle().read((), Consistency::Linearizable, PATIENCE).await?;
    assert_eq!(count, 200);
    println!("counted to {count} without it");
    Ok(std::fs::remove_dir_all(root)?)
}
