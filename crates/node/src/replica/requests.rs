//! Requests of peers that came over the network, and their answers. The form of a request is judged
//! on arrival, its content by the protocol in the turn.

use super::{Asked, ColdUse, Replica, Serve};
use crate::inbound::Place;
use crate::out::{BadRead, ConnId, Out, ReadId, Reading};
use crate::translate::{self, Moment, Refusal, Refused, Wanted};
use bytes::Bytes;
use quorate_base::{Cleaned, Epoch, ReplicaKey};
use quorate_log::Read;
use quorate_machine::Machine;
use quorate_raft::{
    ErrorKind, Fetch, FetchAnswer, FetchHighWatermark, Fetched, Input, Piece, Request, RoleName,
    SnapshotAnswer, Ticket,
};
use quorate_wire::{RequestFrame, Served};
use tracing::{debug, warn};

impl<M: Machine> Replica<M> {
    pub(super) fn request(&mut self, conn: ConnId, bytes: usize, request: RequestFrame) {
        let header = &request.header;
        let (version, correlation) = (header.version, header.correlation_id);
        let newest = |served| self.settings.names.speaks.newest(served);
        let served = Served::of(header.api).filter(|served| newest(*served) >= Some(version));
        let Some(api) = served else {
            let why = format!("{} {version} is not spoken here", header.api);
            self.drop_conn(conn, &why);
            return;
        };
        let place = self.inbound.admit(conn, bytes, &mut self.out);
        let asked = Asked { place, correlation, version, api, at: self.now };
        let taken = match api {
            Served::ApiVersions => {
                translate::api_versions(request, &self.settings.names, self.format())
                    .map(|frame| self.inbound.answer(place, frame, &mut self.out))
            }
            Served::Forward => {
                translate::forwarded(request).map(|request| self.take_forwarded(asked, request))
            }
            Served::DescribeQuorum => {
                let at = Moment { now: self.now, wall_ms: self.wall_ms };
                let own = self.id.map(|id| ReplicaKey::new(id, Some(self.settings.directory)));
                let (view, names) = (self.quorum.view(), &self.settings.names);
                translate::describe_quorum(request, asked, &view, own, at, names)
                    .map(|frame| self.inbound.answer(place, frame, &mut self.out))
            }
            Served::DescribeCluster => {
                let (view, names) = (self.quorum.view(), &self.settings.names);
                translate::describe_cluster(request, asked, &view, names)
                    .map(|frame| self.inbound.answer(place, frame, &mut self.out))
            }
            Served::Vote
            | Served::BeginQuorumEpoch
            | Served::EndQuorumEpoch
            | Served::Fetch
            | Served::FetchSnapshot
            | Served::AddRaftVoter
            | Served::RemoveRaftVoter
            | Served::UpdateRaftVoter => translate::request(request, api, &self.settings.names)
                .map(|body| self.ask_core(asked, body)),
            Served::UpdateFeatures => translate::wanted(request).map(|wanted| match wanted {
                Wanted::Voters(upgrade) => self.ask_core(asked, Request::Upgrade(upgrade)),
                Wanted::Format { level, validate_only } => {
                    self.ask_to_raise(asked, level, validate_only);
                }
                Wanted::NotUp => self.refuse_to_lower(asked),
            }),
        };
        match taken {
            Ok(()) => {}
            Err(Refused::Close(why)) => self.drop_conn(conn, &why),
            Err(Refused::Answer(refusal)) => {
                if let Refusal::Cluster(theirs) = &refusal
                    && self.once.say(self.now, theirs)
                {
                    let ours = &self.settings.names.cluster;
                    warn!(
                        ours,
                        theirs,
                        "a node of another cluster asked and is refused with INCONSISTENT_CLUSTER_ID: \
                         one of our addresses stands in its configuration"
                    );
                }
                let view = self.leader_view();
                match translate::refusal(asked, refusal, &view, &self.settings.names) {
                    Ok(frame) => self.inbound.answer(place, frame, &mut self.out),
                    Err(error) => self.drop_conn(conn, &error.to_string()),
                }
            }
        }
    }

    /// Hands a request on to the protocol, which answers it in a turn.
    fn ask_core(&mut self, asked: Asked, body: Request) {
        if let Request::Fetch(fetch) = &body
            && self.refuse_foreign(asked, fetch)
        {
            return;
        }
        self.note_directory(&body);
        self.note_known(&body);
        self.note_change_asked(&body);
        if let Request::AddVoter(add) = &body
            && let Some((needed, told)) = self.too_old_to_vote(add.key)
        {
            let frame = translate::too_old_to_vote(asked, add.key, needed, told);
            return self.answer_place(asked.place, frame);
        }
        let ticket = Ticket(self.number());
        self.tickets.insert(ticket, asked);
        self.inputs.push_back(Input::Request { ticket, body });
    }

    /// Counts when followers tell the high watermark that they know.
    fn note_known(&mut self, body: &Request) {
        if let Request::Fetch(fetch) = body
            && let (Some(key), FetchHighWatermark::Known(Some(knows))) =
                (fetch.replica, fetch.high_watermark)
        {
            self.metrics.told(self.now, key, knows);
        }
    }

    /// A voter is known by its id alone, so two nodes of one id would count as one that holds what
    /// either holds: say so.
    fn note_directory(&mut self, body: &Request) {
        let Request::Fetch(Fetch { replica: Some(key), .. }) = body else { return };
        let Some(directory) = key.directory else { return };
        let view = self.quorum.view();
        let Some(voter) = view.voters.iter().find(|voter| voter.key.id == key.id) else { return };
        let named = voter.key.directory;
        if let Some(named) = named.filter(|named| *named != directory)
            && self.once.say(self.now, &format!("voter {} is another", key.id))
        {
            warn!(
                voter = %key.id,
                %named,
                now = %directory,
                "a node with the id of a voter fetches from another directory than the voters of the log name: \
                 it observes and has no vote; its disk was replaced, or two nodes have its node.id"
            );
        }
        let before = self.directories.insert(key.id, directory);
        if let Some(before) = before.filter(|before| *before != directory)
            && self.once.say(self.now, &format!("voter {} changed its directory", key.id))
        {
            warn!(
                voter = %key.id,
                %before,
                now = %directory,
                "a voter fetches from another directory than before: its disk was replaced, or two nodes \
                 have its node.id; of two, stop one at once, or acknowledged writes may be lost"
            );
        }
    }

    pub(super) fn reply(
        &mut self,
        ticket: Ticket,
        body: quorate_raft::Response,
        records: Vec<Bytes>,
    ) {
        let Some(asked) = self.tickets.remove(&ticket) else { return };
        self.note_change_refused(&body);
        match translate::response(asked, body, records, &self.settings.names) {
            Ok(frame) => self.inbound.answer(asked.place, frame, &mut self.out),
            Err(error) => self.drop_conn(asked.place.conn, &error.to_string()),
        }
    }

    /// Fills fetch answers from the log as it is at the end of the turn, so that what this turn
    /// appended and committed is in them.
    pub(super) fn serve_fetches(&mut self) {
        if self.serves.is_empty() {
            return;
        }
        for Serve { ticket, mut answer } in std::mem::take(&mut self.serves) {
            let view = self.quorum.view();
            let leads = self.leads_in(answer.view.epoch);
            let Fetched::Range { start, end, max_bytes } = &mut answer.fetched else { continue };
            if leads {
                *end = self.log.end();
                answer.high_watermark = view.high_watermark;
            }
            // No log of this version is cleaned yet.
            answer.cleaned = answer.round.map(|_| Cleaned::NEVER);
            answer.history = self.history;
            if *start < self.log.start() {
                // Trimmed or given up since the core answered: asked again, it names a snapshot.
                self.fill(ticket, answer, Vec::new());
                continue;
            }
            match self.log.read(*start, *end, *max_bytes) {
                Read::Hot(records, _) => self.fill(ticket, answer, records),
                Read::Nothing => self.fill(ticket, answer, Vec::new()),
                Read::Cold(read) => {
                    let id = ReadId(self.number());
                    self.cold.insert(id, (read.generation, ColdUse::Serve { ticket, answer }));
                    self.out.push(Out::Read { id, read: Reading::Records(read) });
                }
            }
        }
    }

    pub(super) fn fill(
        &mut self,
        ticket: Ticket,
        mut answer: FetchAnswer,
        mut records: Vec<Bytes>,
    ) {
        if !self.leads_in(answer.view.epoch) {
            // Lost since the core answered: the log may hold another leader's records by now, and
            // the epoch that took the leadership may not be durable yet, so this shows the old one.
            answer.view.error = ErrorKind::NotLeaderOrFollower;
            answer.fetched = Fetched::Nothing;
            answer.high_watermark = None;
            (answer.round, answer.cleaned, answer.bound) = (None, None, None);
            records.clear();
        }
        self.reply(ticket, quorate_raft::Response::Fetch(answer), records);
    }

    /// Reads the piece of a snapshot that the core lets a replica have.
    pub(super) fn serve_piece(&mut self, ticket: Ticket, mut answer: SnapshotAnswer) {
        let Piece::Served { max_bytes } = answer.piece else {
            return self.refuse_piece(ticket, answer, ErrorKind::SnapshotNotFound);
        };
        match self.log.snapshot_chunk(answer.snapshot, answer.position, max_bytes) {
            Some(read) if answer.position >= read.size => {
                self.refuse_piece(ticket, answer, ErrorKind::PositionOutOfRange);
            }
            Some(read) => {
                // A byte is asked for by who waits for its own disk.
                if answer.position == 0 && max_bytes > 1 {
                    self.check_served(answer.snapshot);
                }
                // How many bytes there are is known when they are read.
                answer.piece = Piece::Received { size: read.size, bytes: 0 };
                let (id, generation) = (ReadId(self.number()), self.log.generation());
                self.cold.insert(id, (generation, ColdUse::Piece { ticket, answer }));
                self.out.push(Out::Read { id, read: Reading::Piece(read) });
            }
            None => self.refuse_piece(ticket, answer, ErrorKind::SnapshotNotFound),
        }
    }

    pub(super) fn fill_piece(
        &mut self,
        ticket: Ticket,
        answer: SnapshotAnswer,
        piece: Result<Bytes, BadRead>,
    ) {
        if !self.leads_in(answer.view.epoch) {
            return self.refuse_piece(ticket, answer, ErrorKind::NotLeaderOrFollower);
        }
        match piece {
            Ok(piece) => {
                self.reply(ticket, quorate_raft::Response::FetchSnapshot(answer), vec![piece]);
            }
            // Retention may have taken it; if not, a newer one will do.
            Err(bad) => {
                warn!(snapshot = %answer.snapshot, why = bad.why, "a snapshot that a replica copies cannot be read");
                self.refuse_piece(ticket, answer, ErrorKind::SnapshotNotFound);
            }
        }
    }

    fn refuse_piece(&mut self, ticket: Ticket, mut answer: SnapshotAnswer, error: ErrorKind) {
        answer.view.error = error;
        answer.piece = Piece::Nothing;
        self.reply(ticket, quorate_raft::Response::FetchSnapshot(answer), Vec::new());
    }

    pub(super) fn leads_in(&self, epoch: Epoch) -> bool {
        let view = self.quorum.view();
        view.role == RoleName::Leader && view.epoch == epoch
    }

    pub(super) fn leader_view(&self) -> quorate_raft::LeaderView {
        let view = self.quorum.view();
        quorate_raft::LeaderView {
            error: quorate_raft::ErrorKind::None,
            epoch: view.epoch,
            leader: view.leader,
            endpoints: view.leader_endpoints.into(),
        }
    }

    pub(crate) fn answer_place(
        &mut self,
        place: Place,
        frame: Result<quorate_wire::Frame, quorate_wire::Error>,
    ) {
        match frame {
            Ok(frame) => self.inbound.answer(place, frame, &mut self.out),
            Err(error) => self.drop_conn(place.conn, &error.to_string()),
        }
    }

    pub(super) fn drop_conn(&mut self, conn: ConnId, why: &str) {
        debug!(?conn, why, "connection closed");
        match self.links.owns(conn) {
            true => self.links.broken(conn, why, &mut self.news, &mut self.out),
            false => {
                self.inbound.forget(conn);
                self.out.push(Out::Close { conn, why: why.to_owned() });
            }
        }
    }
}
