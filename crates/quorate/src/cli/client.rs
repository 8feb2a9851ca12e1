//! The command line's HTTP client: several nodes, the first that can serve.
//!
//! Goes on to the next node only where nothing can have happened: no connection, or an answer that
//! says so (429, 503). Reads go on whatever happened; a write whose fate is unknown is never sent
//! again.

use super::{Failure, Outcome, dev, failed};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::HOST;
use hyper::{HeaderMap, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpStream;

/// How long a node may take for what is only read, where another one can be asked.
const READ_TIME: Duration = Duration::from_secs(3);
/// What a node is given of it to answer, or to say why it cannot.
const READ_WAIT: Duration = Duration::from_secs(2);
/// Longer than a node that has no leader takes until it says so.
const LAST_READ_TIME: Duration = Duration::from_secs(12);
/// Longer than a node takes until it says that it does not know what became of a write. Until then
/// nobody else may be sent it.
const WRITE_TIME: Duration = Duration::from_secs(20);
/// Longer than a node's HTTP waits for the node itself to say how it is.
const STATUS_TIME: Duration = Duration::from_secs(6);
/// How long an answer may take that has begun.
const BODY_TIME: Duration = Duration::from_secs(60);
const CONNECT_TIME: Duration = Duration::from_secs(3);
pub(super) const FALLBACK: &str = "http://127.0.0.1:7101";

/// Which nodes to ask; part of every command that asks one.
#[derive(clap::Args)]
pub(crate) struct Nodes {
    /// Nodes to ask: http://HOST:PORT, several with commas between; `kv` takes the first that
    /// serves
    ///
    /// Without it: the nodes of the `quorate dev` directory here, else http://127.0.0.1:7101.
    #[arg(long, value_name = "URL", env = "QUORATE_HTTP", value_delimiter = ',')]
    http: Vec<String>,
}

impl Nodes {
    /// Their addresses, at least one.
    pub(crate) fn urls(&self) -> Outcome<Vec<Url>> {
        // An empty variable of the environment is no address.
        let given = self.http.iter().filter(|text| !text.trim().is_empty());
        let given: Vec<String> = given.cloned().collect();
        let given = match given.is_empty() {
            false => given,
            true => match dev::known_urls(Path::new(dev::DIRECTORY)) {
                known if known.is_empty() => vec![FALLBACK.to_owned()],
                known => known,
            },
        };
        given.iter().map(|text| Url::parse(text)).collect()
    }
}

/// `http://HOST:PORT`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Url {
    authority: String,
}

impl Url {
    /// Only the form that a node can be reached by.
    pub(crate) fn parse(text: &str) -> Outcome<Url> {
        let wrong = || {
            Failure::Usage(format!(
                "'{text}' is no address of a node: write http://HOST:PORT, as `quorate dev` prints it or \
                 quorate.http.listen says"
            ))
        };
        let uri: Uri = text.trim().trim_end_matches('/').parse().map_err(|_| wrong())?;
        let plain = uri.scheme_str() == Some("http") && uri.path() == "/" && uri.query().is_none();
        let authority = uri.authority().filter(|authority| plain && authority.port().is_some());
        Ok(Url { authority: authority.ok_or_else(wrong)?.to_string() })
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}", self.authority)
    }
}

/// What a node answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Who answered.
    pub(crate) from: Url,
}

impl Answer {
    /// The body as JSON; null if it is none.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The node says that nothing was done, so that another one may be asked.
    fn is_undone(&self) -> bool {
        matches!(self.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS)
            // Its own disk is full; that of another one may not be.
            || self.json()["error"] == "storage_full_here"
    }

    /// The node does not know whether anything was done.
    fn is_unknown(&self) -> bool {
        self.status == StatusCode::GATEWAY_TIMEOUT
    }

    /// What the node says is wrong, in its words.
    pub(crate) fn message(&self) -> String {
        match self.json()["message"].as_str() {
            Some(message) => message.to_owned(),
            None => format!("the node answered {}", self.status),
        }
    }
}

/// One request, ready to be sent to any node.
#[derive(Clone)]
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a [(&'static str, String)],
    pub(crate) body: Bytes,
}

impl<'a> Ask<'a> {
    /// A `GET` of a path.
    pub(crate) fn get(path: &'a str) -> Ask<'a> {
        Ask { method: "GET", path, headers: &[], body: Bytes::new() }
    }
}

/// Why one node gave no answer.
pub(crate) enum Silence {
    /// Nothing was sent.
    NoConnection(String),
    /// It may have been received.
    Broken(String),
    /// It answered, and that is not what was asked for.
    Refused(String),
}

impl std::fmt::Display for Silence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Silence::NoConnection(why) | Silence::Broken(why) | Silence::Refused(why)) = self;
        f.write_str(why)
    }
}

/// What to do where no connection could be made.
pub(crate) const NOBODY: &str = "No connection could be made: is `quorate dev` running? Start it, or name running nodes with \
     --http or QUORATE_HTTP.";

/// What to do where there is somebody, who does not answer.
pub(crate) const MUTE: &str = "A node that takes connections and does not answer is stopped or overloaded, or what listens \
     there is not its HTTP: name what quorate.http.listen says. `quorate quorum status --bootstrap` asks at the \
     port for the other nodes.";

/// Asks the nodes one after the other until one serves.
pub(crate) async fn ask(urls: &[Url], ask: &Ask<'_>) -> Outcome<Answer> {
    let reads = ask.method == "GET";
    let (mut tried, mut anybody, mut mute) = (Vec::new(), false, false);
    for (at, url) in urls.iter().enumerate() {
        let limit = match (reads, at + 1 < urls.len()) {
            (true, true) => READ_TIME,
            (true, false) => LAST_READ_TIME,
            (false, _) => WRITE_TIME,
        };
        let hurried = hurried(ask.path);
        let path = if limit == READ_TIME { &hurried } else { ask.path };
        let sent = send(url, &Ask { path, ..ask.clone() }, limit).await;
        anybody |= !matches!(sent, Err(Silence::NoConnection(_)));
        mute |= matches!(sent, Err(Silence::Broken(_)));
        match sent {
            Ok(answer) if answer.is_undone() || (reads && answer.is_unknown()) => {
                tried.push(format!("{url}: {}", answer.message()));
            }
            Ok(answer) => return Ok(answer),
            Err(silence @ Silence::NoConnection(_)) => {
                tried.push(format!("{url}: {silence}"));
            }
            Err(silence) if reads => tried.push(format!("{url}: {silence}")),
            Err(silence) => {
                return failed(format!(
                    "{url} gave no answer ({silence}): the request may or may not have been carried out; read before \
                     you try again"
                ));
            }
        }
    }
    let hint = match (anybody, mute) {
        (_, true) => MUTE,
        (true, false) => "`quorate quorum status` shows what each node knows of the others.",
        (false, false) => NOBODY,
    };
    failed(format!("no node could serve; nothing was done\n  {}\n{hint}", tried.join("\n  ")))
}

/// The path of a read for a node that has no more than [`READ_WAIT`]: it then says itself what is
/// wrong, rather than be taken for one that does not answer.
fn hurried(path: &str) -> String {
    let more = if path.contains('?') { '&' } else { '?' };
    match path.starts_with("/v1/") && !path.contains("timeout=") {
        true => format!("{path}{more}timeout={}", READ_WAIT.as_millis()),
        false => path.to_owned(),
    }
}

/// Asks one node how it is, and only that.
pub(crate) async fn ask_one(url: &Url, ask: &Ask<'_>) -> Result<Answer, Silence> {
    send(url, ask, STATUS_TIME).await
}

async fn send(url: &Url, ask: &Ask<'_>, limit: Duration) -> Result<Answer, Silence> {
    let connecting = tokio::time::timeout(CONNECT_TIME, TcpStream::connect(&url.authority));
    let stream = match connecting.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(Silence::NoConnection(error.to_string())),
        Err(_) => return Err(Silence::NoConnection("no connection in time".into())),
    };
    converse(stream, url, ask, limit).await.map_err(Silence::Broken)
}

/// The node has `limit` until it begins to answer.
async fn converse(
    stream: TcpStream,
    url: &Url,
    ask: &Ask<'_>,
    limit: Duration,
) -> Result<Answer, String> {
    // One request and its answer: a failure only costs latency.
    let _ = stream.set_nodelay(true);
    let mut request =
        Request::builder().method(ask.method).uri(ask.path).header(HOST, &url.authority);
    for (name, value) in ask.headers {
        request = request.header(*name, value);
    }
    let request = request.body(Full::new(ask.body.clone())).map_err(|error| error.to_string())?;
    let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(|error| error.to_string())?;
    let answer = async {
        let begun = tokio::time::timeout(limit, sender.send_request(request)).await;
        let begun = begun.map_err(|_| {
            format!("took the connection and did not answer within {} s", limit.as_secs())
        })?;
        let (head, body) = begun.map_err(|error| error.to_string())?.into_parts();
        let body = tokio::time::timeout(BODY_TIME, body.collect()).await;
        let body = body.map_err(|_| "its answer did not come to an end".to_owned())?;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        Ok(Answer { status: head.status, headers: head.headers, body, from: url.clone() })
    };
    let mut answer = std::pin::pin!(answer);
    tokio::select! {
        answered = answer.as_mut() => answered,
        // The connection ends only after its last answer; then that is there too.
        _ = connection => answer.await,
    }
}

/// Writes any bytes into a path or query.
pub(crate) fn percent_encode(bytes: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(byte);
    let encode = |byte: &u8| match plain(byte) {
        true => char::from(*byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    bytes.iter().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_in_a_hurry_says_so_to_the_node() {
        for (path, expect) in [
            ("/v1/kv/a", "/v1/kv/a?timeout=2000"),
            ("/v1/kv?prefix=a", "/v1/kv?prefix=a&timeout=2000"),
            ("/v1/kv/a?timeout=9", "/v1/kv/a?timeout=9"),
            ("/status", "/status"),
        ] {
            assert_eq!(hurried(path), expect);
        }
        assert!(READ_WAIT < READ_TIME);
    }

    #[test]
    fn addresses_of_nodes() {
        for (text, expect) in [
            ("http://127.0.0.1:7101", Some("http://127.0.0.1:7101")),
            (" http://[::1]:80/ ", Some("http://[::1]:80")),
            ("127.0.0.1:7101", None),
            ("http://host", None),
            ("https://host:1", None),
            ("http://host:1/path", None),
        ] {
            let parsed = Url::parse(text).ok().map(|url| url.to_string());
            assert_eq!(parsed.as_deref(), expect, "{text}");
        }
    }

    #[test]
    fn any_bytes_pass_through_a_path() {
        assert_eq!(percent_encode(b"a/b c%\xff\0"), "a/b%20c%25%FF%00");
    }
}
