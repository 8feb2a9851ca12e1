//! Which path means what.

use super::reply::{Refusal, Reply, method_not_allowed};
use super::{Shared, Store, health, key_value, metadata, metrics, resign, session};
use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use quorate_machine::kafka::Mirror;

/// In front of the kv store.
pub(super) async fn store(shared: &Shared<Store>, request: Request<Incoming>) -> Reply {
    let handle = &shared.handle;
    let path = request.uri().path().to_owned();
    let reply = if let Some(key) = path.strip_prefix("/v1/kv/") {
        match *request.method() {
            Method::GET | Method::HEAD => key_value::get(shared, key, &request).await,
            Method::PUT => key_value::put(shared, key, request).await,
            Method::DELETE => key_value::delete(handle, key, &request).await,
            _ => return method_not_allowed("GET, HEAD, PUT, DELETE"),
        }
    } else if let Some(rest) = path.strip_prefix("/v1/session/") {
        match (request.method(), rest.strip_suffix("/renew")) {
            (&Method::POST, Some(id)) => session::renew(handle, id, &request).await,
            (&Method::DELETE, None) => session::close(handle, rest, &request).await,
            (_, Some(_)) => return method_not_allowed("POST"),
            (_, None) => return method_not_allowed("DELETE"),
        }
    } else {
        match (path.as_str(), request.method()) {
            ("/v1/kv", &Method::GET | &Method::HEAD) => key_value::list(shared, &request).await,
            ("/v1/session", &Method::POST) => session::open(handle, &request).await,
            ("/livez", &Method::GET | &Method::HEAD) => Ok(health::live()),
            ("/readyz", &Method::GET | &Method::HEAD) => Ok(health::ready(handle).await),
            ("/status", &Method::GET | &Method::HEAD) => health::status(handle).await,
            ("/metrics", &Method::GET | &Method::HEAD) => metrics::metrics(handle).await,
            ("/v1/quorum/resign", &Method::POST) => resign::resign(handle).await,
            ("/v1/session" | "/v1/quorum/resign", _) => return method_not_allowed("POST"),
            ("/v1/kv" | "/livez" | "/readyz" | "/status" | "/metrics", _) => {
                return method_not_allowed("GET, HEAD");
            }
            _ => Err(Refusal::new(
                StatusCode::NOT_FOUND,
                "no_such_path",
                "there is nothing at this path; there are /v1/kv/KEY, /v1/kv, /v1/session, \
                 /v1/quorum/resign, /livez, /readyz, /status and /metrics",
            )),
        }
    };
    reply.unwrap_or_else(Reply::from)
}

/// In front of a node that keeps a Kafka cluster's metadata.
pub(super) async fn mirror(shared: &Shared<Mirror>, request: &Request<Incoming>) -> Reply {
    let handle = &shared.handle;
    let path = request.uri().path();
    let below = path.strip_prefix("/v1/metadata");
    let below = below.filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let reply = match (path, request.method()) {
        (_, &Method::GET | &Method::HEAD) if let Some(below) = below => {
            metadata::get(shared, below.trim_start_matches('/'), request).await
        }
        (_, _) if below.is_some() => return method_not_allowed("GET, HEAD"),
        ("/livez", &Method::GET | &Method::HEAD) => Ok(health::live()),
        ("/readyz", &Method::GET | &Method::HEAD) => Ok(health::ready(handle).await),
        ("/status", &Method::GET | &Method::HEAD) => health::status(handle).await,
        ("/metrics", &Method::GET | &Method::HEAD) => metrics::metrics(handle).await,
        ("/livez" | "/readyz" | "/status" | "/metrics", _) => {
            return method_not_allowed("GET, HEAD");
        }
        (path, _) if path.starts_with("/v1/") => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "no_key_value_store",
            "this node keeps the metadata of a Kafka cluster (quorate.machine=kafka) and takes no \
             requests of clients: ask a broker or the active controller of that cluster; what its \
             metadata are, /v1/metadata and `quorate observe` show",
        )),
        _ => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "no_such_path",
            "there is nothing at this path; there are /v1/metadata, /livez, /readyz, /status and /metrics",
        )),
    };
    reply.unwrap_or_else(Reply::from)
}
