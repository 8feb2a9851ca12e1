//! What a machine has to offer to be served: paths of its own, and what all connections share.
//!
//! Private to HTTP, so that nobody else's machine is served by what is made for ours.

use super::reply::Reply;
use super::room::Room;
use super::{Store, route};
use hyper::Request;
use hyper::body::Incoming;
use quorate_machine::Machine;
use quorate_machine::kafka::Mirror;
use quorate_node::handle::Handle;

/// What all connections share.
pub struct Shared<M: Machine> {
    pub(super) handle: Handle<M>,
    /// For values on their way in.
    pub(super) room_for_values: Room,
    /// For large answers on their way out.
    pub(super) room_for_answers: Room,
}

/// Which path means what.
pub trait Paths: Machine + Sized {
    /// Answers any request at all.
    fn answer(
        shared: &Shared<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Reply> + Send;
}

impl Paths for Store {
    async fn answer(shared: &Shared<Store>, request: Request<Incoming>) -> Reply {
        route::store(shared, request).await
    }
}

impl Paths for Mirror {
    async fn answer(shared: &Shared<Mirror>, request: Request<Incoming>) -> Reply {
        route::mirror(shared, &request).await
    }
}
