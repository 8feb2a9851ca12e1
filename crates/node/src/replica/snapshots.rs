//! Snapshots as the replica sees them: when its own is taken, what the lane has done, when a
//! machine is loaded from one and takes the place of the old one.

use super::Replica;
use crate::lane::{Errand, Report};
use crate::level::Found;
use crate::out::Out;
use crate::snapshots::Taken;
use crate::status::number;
use crate::translate;
use quorate_base::{OffsetEpoch, Span, Time};
use quorate_log::{Retention, Snapshot};
use quorate_machine::Machine;
use quorate_raft::{Decree, Input};
use tracing::{error, info, warn};

/// How often retention looks, unless there is a new snapshot or much was applied.
const RETENTION_EVERY: Span = Span::ms(60_000);
/// After so many bytes applied it looks again: sums over all segments are not for every turn.
const RETENTION_EVERY_BYTES: u64 = 256 << 10;
/// Retention begins so far below its limit, or an eighth of it: the log grows on until files are
/// gone.
const RETENTION_AHEAD: u64 = 8 << 20;
/// How often a snapshot is looked at that others copy: a stranger may ask for one all the time.
const CHECK_EVERY: Span = Span::ms(10_000);
/// What is kept for replicas that copy a snapshot may take so many times the newest one: that
/// which is copied, as much log, since who copies more slowly than the log grows never gets there
/// anyway, and another one that somebody else copies.
const HELD_SNAPSHOTS: u64 = 3;
/// How many snapshots are kept where they only spare a start its way: one may turn out damaged.
const SNAPSHOTS_KEPT: usize = 2;

impl<M: Machine> Replica<M> {
    /// The snapshot lane has done something.
    pub fn on_lane(&mut self, now: Time, report: Report<M>) {
        self.now = now;
        match report {
            Report::Stored { source, whole } => {
                let Some((snapshot, head)) = whole else {
                    let founded = Decree::default();
                    self.inputs.push_back(Input::Stored { source, founded });
                    return;
                };
                match translate::founded(&head) {
                    Ok(founded) => {
                        self.downloaded = Some(snapshot);
                        self.inputs.push_back(Input::Stored { source, founded });
                    }
                    Err(why) => {
                        error!(id = %snapshot.id, why, "a snapshot from the leader says of the voters what this node cannot read: compare the versions of the two");
                        self.inputs.push_back(Input::Spoiled { source });
                        self.push(Out::Lane(Errand::Abandon { id: snapshot.id }));
                    }
                }
            }
            Report::Spoiled { source, why } => {
                if self.once.say(now, &format!("download {why}")) {
                    warn!(why, "a snapshot that was being copied is given up and asked for anew");
                }
                self.inputs.push_back(Input::Spoiled { source });
            }
            Report::Written(snapshot) => self.written(snapshot),
            Report::NotWritten { id, why } => {
                if self.making.failed(now, id) {
                    warn!(
                        %id,
                        why,
                        "a snapshot cannot be written; nothing is lost, but the log is not shortened: it is tried \
                         again with longer and longer pauses"
                    );
                }
            }
            Report::Loaded { id, timestamp_ms, machine } => self.loaded(id, timestamp_ms, *machine),
            Report::TooNew { id, level } => self.stop_below(level, Found::Snapshot(id)),
            Report::Checked { id, fault } => self.checked(id, fault.as_deref()),
            Report::Unreadable { id, why } => self.unreadable(id, &why),
        }
    }

    /// A snapshot of the own machine is durable.
    fn written(&mut self, snapshot: Snapshot) {
        let Snapshot { id, bytes, .. } = snapshot;
        self.making.written(id);
        if id.offset <= self.log.start() {
            return; // A download overtook it; the next start, or trim, takes it away.
        }
        if let Some(job) = self.log.frozen(snapshot) {
            unreachable!("a snapshot at {id}, behind the start {}: {job:?}", self.log.start());
        }
        let gone = match self.settings.trims {
            true => Vec::new(),
            false => self.log.keep_newest_snapshots(SNAPSHOTS_KEPT),
        };
        if !gone.is_empty() {
            self.push(Out::Lane(Errand::Remove { paths: gone }));
        }
        self.inputs.push_back(Input::Frozen { snapshot: id });
        self.retain_at = self.now;
        info!(%id, bytes, "snapshot written");
    }

    /// Moves the start of the log where there is more than is to be kept. What will be written
    /// until the next time counts in, and above all the next snapshot, so that the files stay
    /// within the limit all the time if it leaves room for anything but the newest snapshot.
    pub(super) fn retain(&mut self) {
        let read = self.making.bytes_in_all();
        if self.now < self.retain_at && read < self.retained_bytes + RETENTION_EVERY_BYTES {
            return;
        }
        (self.retain_at, self.retained_bytes) = (self.now + RETENTION_EVERY, read);
        if !self.settings.trims {
            return;
        }
        let Retention { bytes, ms } = self.settings.retention;
        let next = self.log.snapshots().last().map_or(0, |newest| newest.bytes);
        let below = |limit: u64| limit.saturating_sub(next + (limit / 8).min(RETENTION_AHEAD));
        let limit = Retention { bytes: bytes.map(below), ms };
        if let Some(snapshot) = self.log.overdue(self.wall_ms, &limit) {
            self.give_up_holds(self.log.bytes_below(snapshot.offset));
            self.inputs.push_back(Input::Trim { snapshot });
        }
        let (segments, snapshots) = self.log.sizes();
        self.room_for_removed = limit.bytes.map(|limit| limit.saturating_sub(segments + snapshots));
    }

    /// What retention would remove is kept for replicas that copy a snapshot (rule P67): it costs
    /// so many bytes. More than it may, and it goes: first what only observers need. On a full disk
    /// all of it, since without room nobody is served.
    fn give_up_holds(&mut self, bytes: u64) {
        let holds = self.quorum.view().holds;
        let newest = self.log.snapshots().last().map_or(0, |newest| newest.bytes);
        let most = self.settings.held_max_bytes.max(HELD_SNAPSHOTS.saturating_mul(newest));
        let full = self.room.is_full();
        if holds.is_empty() || !full && bytes <= most {
            return;
        }
        let voters_too = full || holds.iter().all(|hold| hold.voter);
        let given_up = holds.iter().filter(|hold| voters_too || !hold.voter);
        let replicas: Vec<i64> = given_up.map(|hold| number(hold.replica)).collect();
        match full {
            true => warn!(
                ?replicas,
                bytes,
                "the disk is full, so what this leader kept for these nodes, which copy a snapshot, goes: they begin \
                 anew with a newer one"
            ),
            false => warn!(
                ?replicas,
                bytes,
                most,
                "these nodes copy a snapshot so slowly that what this leader keeps for them takes more room than it \
                 may: it goes, and they begin anew with a newer one; a larger controller.quorum.fetch.snapshot.max.bytes \
                 on them, or a larger metadata.max.retention.bytes here, lets them finish"
            ),
        }
        self.inputs.push_back(Input::GiveUpHolds { voters_too });
        self.retain_at = self.now; // Whether that was enough.
    }

    /// The leader has removed the snapshot that this node was copying.
    pub(super) fn snapshot_is_gone(&mut self, id: OffsetEpoch) {
        self.begun_anew += 1;
        let times = self.begun_anew;
        if self.once.say(self.now, "a snapshot is gone") {
            warn!(
                %id,
                times,
                "the leader no longer has the snapshot that this node was copying, so the copy begins anew with a newer \
                 one; if that happens again and again this node never catches up: make copies faster with a larger \
                 controller.quorum.fetch.snapshot.max.bytes here, or let the leader keep more with a larger \
                 metadata.max.retention.bytes there; the leader's log says if it gave up waiting for this node"
            );
        }
    }

    /// How many bytes the files may take that the log needs no more and that are not removed yet;
    /// `None`: any number.
    pub fn room_for_removed(&self) -> Option<u64> {
        match self.room.is_full() {
            true => Some(0), // They are the room that it lacks.
            false => self.room_for_removed,
        }
    }

    /// When a picture of the state has to be taken.
    pub(super) fn snapshot_at(&self) -> Time {
        match self.applied.loading().is_some() || self.stopping || self.damage.is_some() {
            true => Time::NEVER,
            false => self.making.due_at(),
        }
    }

    /// Takes a picture of the state when one is due, and hands it on once its log is durable.
    pub(super) fn make_snapshots(&mut self) {
        let id = self.applied.last();
        if self.snapshot_at() <= self.now {
            let image = self.machine.snapshot();
            let timestamp_ms = self.applied.timestamp_ms;
            self.making.take(self.now, Taken { id, timestamp_ms, image });
        }
        let reserve = self.may_use_the_reserve() && self.settings.trims;
        if self.room.is_full() && self.settings.trims && !reserve {
            return; // Once all that was promised is stored.
        }
        let durable = self.quorum.view().durable;
        if let Some(Taken { id, timestamp_ms, image }) = self.making.hand_on(durable) {
            let head = translate::head(&self.quorum.decree_at(id.offset));
            self.push(Out::Lane(Errand::Write { id, timestamp_ms, head, image, reserve }));
        }
    }

    /// Asks for a machine made of the newest snapshot, where the log does not lead from the present
    /// one to its end or the snapshot spares a start the way there.
    pub(crate) fn load_when_behind(&mut self) {
        if self.applied.loading().is_some() || self.damage.is_some() {
            return;
        }
        let (upto, start) = (self.applied.upto, self.log.start());
        let known = self.log.snapshots().iter().map(|known| known.id);
        // One that was downloaded has its name once the log rests on it, durably.
        let durable = self.quorum.view().durable;
        let of_use =
            |id: &OffsetEpoch| id.offset > upto && id.offset >= start && id.offset <= durable;
        let newest = known.filter(of_use).filter(|id| !self.unread.contains(id));
        let newest = newest.max_by_key(|id| id.log_order());
        match newest {
            Some(id) if upto < start || self.applied.is_fresh() => {
                assert!(self.leading.serving.is_none(), "a leader never loads a snapshot");
                self.applied.load(id);
                let machine = Box::new(self.machine.fresh());
                let newest = self.loads_up_to();
                self.push(Out::Lane(Errand::Load { id, machine, newest }));
            }
            Some(_) => {}
            None if upto < start && durable >= start => {
                self.damage = Some(format!(
                    "the log begins at {start} and no snapshot that can be read leads there"
                ))
            }
            None => {}
        }
    }

    /// The new machine takes the place of the old one, whole: who reads sees either.
    fn loaded(&mut self, id: OffsetEpoch, timestamp_ms: i64, machine: M) {
        self.applied.loaded(id, timestamp_ms);
        self.machine = machine;
        self.making.loaded(self.now);
        info!(%id, "the state was loaded from a snapshot");
    }

    /// Somebody begins to copy this snapshot. One who could not use it begins again, and again as
    /// long as there is no other, so it is looked at whether it can be used: beside, not before.
    pub(super) fn check_served(&mut self, id: OffsetEpoch) {
        if self.now >= self.check_at {
            self.check_at = self.now + CHECK_EVERY;
            self.push(Out::Lane(Errand::Check { id }));
        }
    }

    fn checked(&mut self, id: OffsetEpoch, fault: Option<&str>) {
        let held = self.log.snapshots().iter().any(|known| known.id == id);
        if let Some(why) = fault.filter(|_| held) {
            error!(
                %id,
                why,
                "a snapshot that others copy from this node is damaged on its disk; a new one is written of the \
                 state in memory, which is not affected; the disk should be looked at"
            );
            self.making.want();
        }
    }

    fn unreadable(&mut self, id: OffsetEpoch, why: &str) {
        if id.offset < self.log.start() {
            // A download took its place, and its file with it, before it was read.
            return self.applied.not_loaded();
        }
        error!(%id, why, "a snapshot cannot be read and is not used; an older one or the log is");
        self.applied.not_loaded();
        self.unread.push(id);
    }
}
