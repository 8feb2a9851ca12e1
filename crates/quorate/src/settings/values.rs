//! The file's values by form: reads one setting at a time, collects what is wrong, goes on.
//!
//! After a wrong value the reader hands out a stand-in, so that one pass finds every problem; what
//! it handed out is used only when there was none.

use super::table::{Form, Setting};
use super::{Origin, Problem};
use quorate_base::{ReplicaId, Uuid};
use quorate_node::config::{HostPort, Voter};
use std::collections::BTreeMap;

/// One value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) value: String,
    pub(super) origin: Origin,
}

/// `NAME://HOST:PORT`; an empty host is every interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Listener {
    pub(super) name: String,
    pub(super) at: HostPort,
}

/// All values of one file and what was found wrong with them.
pub(super) struct Values {
    pub(super) given: BTreeMap<String, Given>,
    pub(super) problems: Vec<Problem>,
}

impl Values {
    /// The text of a setting; `None` if neither file nor default has one.
    pub(super) fn text(&self, setting: &Setting) -> Option<&str> {
        let given = self.given.get(setting.name).map(|given| given.value.trim());
        // An empty value is "not set", as for Kafka's lists.
        given.filter(|value| !value.is_empty()).or(setting.default)
    }

    /// Whether the file or the command line has a value for it.
    pub(super) fn is_given(&self, setting: &Setting) -> bool {
        self.given.get(setting.name).is_some_and(|given| !given.value.trim().is_empty())
    }

    /// Reports a setting's value as wrong; `why` follows it in the message.
    pub(super) fn wrong(&mut self, setting: &Setting, why: impl Into<String>) {
        let given = self.given.get(setting.name);
        self.problems.push(Problem {
            origin: given.map_or(Origin::Nowhere, |given| given.origin),
            key: setting.name.to_owned(),
            value: given.map(|given| given.value.clone()),
            what: why.into(),
        });
    }

    fn not_of_form(&mut self, setting: &Setting) {
        self.wrong(setting, format!("must be {}", setting.form));
    }

    /// A number; 0 as a stand-in.
    pub(super) fn number(&mut self, setting: &Setting) -> u64 {
        let Form::Number { least, most } = setting.form else {
            panic!("{} is no number", setting.name);
        };
        match self.text(setting).map(str::parse::<u64>) {
            Some(Ok(number)) if (least..=most).contains(&number) => return number,
            Some(Ok(_) | Err(_)) => self.not_of_form(setting),
            None => self.wrong(setting, format!("is needed: {}", setting.form)),
        }
        0
    }

    /// A number, or `None` for -1.
    pub(super) fn limit(&mut self, setting: &Setting) -> Option<u64> {
        let Form::Limit { least } = setting.form else {
            panic!("{} is no limit", setting.name);
        };
        match self.text(setting).map(str::parse::<i64>) {
            Some(Ok(-1)) => return None,
            Some(Ok(number)) if number >= least as i64 => return Some(number as u64),
            Some(Ok(_) | Err(_)) => self.not_of_form(setting),
            None => self.wrong(setting, format!("is needed: {}", setting.form)),
        }
        None
    }

    /// A number that fits 32 bits by its setting's form.
    pub(super) fn number32(&mut self, setting: &Setting) -> u32 {
        u32::try_from(self.number(setting)).expect("the form's range is checked")
    }

    /// The parts between commas, trimmed; none when the setting is not set.
    pub(super) fn list(&self, setting: &Setting) -> Vec<String> {
        let text = self.text(setting).unwrap_or_default();
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    }

    /// Listeners with different names.
    pub(super) fn listeners(&mut self, setting: &Setting) -> Vec<Listener> {
        let mut listeners: Vec<Listener> = Vec::new();
        for part in self.list(setting) {
            let parsed = part.split_once("://").and_then(|(name, at)| {
                let at = host_port(at)?;
                (!name.is_empty()).then(|| Listener { name: name.to_owned(), at })
            });
            match parsed {
                None => self.wrong(setting, format!("'{part}' must be {}", one_of(setting.form))),
                Some(listener) if listeners.iter().any(|known| known.name == listener.name) => {
                    self.wrong(setting, format!("names the listener {} twice", listener.name));
                }
                Some(listener) => listeners.push(listener),
            }
        }
        listeners
    }

    /// Voters with different ids, at addresses that others can connect to.
    pub(super) fn voters(&mut self, setting: &Setting) -> Vec<Voter> {
        let mut voters: Vec<Voter> = Vec::new();
        for part in self.list(setting) {
            let parsed = part.split_once('@').and_then(|(id, at)| {
                let id = id.parse::<u32>().ok().filter(|id| i32::try_from(*id).is_ok())?;
                Some(Voter { id: ReplicaId(id), at: host_port(at)? })
            });
            let Some(voter) = parsed else {
                self.wrong(setting, format!("'{part}' must be {}", one_of(setting.form)));
                continue;
            };
            if let Some(why) = unreachable(&voter.at) {
                self.wrong(setting, format!("'{part}' {why}"));
            } else if voters.iter().any(|known| known.id == voter.id) {
                self.wrong(setting, format!("has two voters with the id {}", voter.id));
            } else if let Some(known) = voters.iter().find(|known| known.at == voter.at) {
                let why = format!("has the voters {} and {} at one address", known.id, voter.id);
                self.wrong(setting, why);
            } else {
                voters.push(voter);
            }
        }
        voters
    }

    /// Addresses that others can connect to.
    pub(super) fn servers(&mut self, setting: &Setting) -> Vec<HostPort> {
        let mut servers = Vec::new();
        for part in self.list(setting) {
            match host_port(&part).map(|at| (unreachable(&at), at)) {
                None => self.wrong(setting, format!("'{part}' must be HOST:PORT")),
                Some((Some(why), _)) => self.wrong(setting, format!("'{part}' {why}")),
                Some((None, at)) => servers.push(at),
            }
        }
        servers
    }

    /// An address to bind.
    pub(super) fn server(&mut self, setting: &Setting) -> Option<HostPort> {
        let at = host_port(self.text(setting)?);
        if at.is_none() {
            self.not_of_form(setting);
        }
        at
    }

    /// A topic's name that can be a folder's name too.
    pub(super) fn topic(&mut self, setting: &Setting) -> String {
        let name = self.text(setting).unwrap_or_default().to_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let just_dots = name.chars().all(|c| c == '.');
        if just_dots || name.len() > 249 || !name.chars().all(plain) {
            self.not_of_form(setting);
        }
        name
    }

    /// A topic's id; zero as a stand-in.
    pub(super) fn topic_id(&mut self, setting: &Setting) -> Uuid {
        let id = self.text(setting).and_then(|text| text.parse::<Uuid>().ok());
        if let Some(id) = id.and_then(Uuid::known) {
            return id;
        }
        self.not_of_form(setting);
        Uuid::ZERO
    }

    /// Checks a setting whose values are words.
    pub(super) fn word(&mut self, setting: &Setting) {
        let Form::Word(words) = setting.form else {
            panic!("{} is no word", setting.name);
        };
        if !self.text(setting).is_some_and(|text| words.contains(&text)) {
            self.not_of_form(setting);
        }
    }
}

/// What one part of a list must look like.
fn one_of(form: Form) -> String {
    let form = form.to_string();
    form.split(',').next().unwrap_or(&form).to_owned()
}

/// Why nobody can connect to this address, if so.
pub fn unreachable(at: &HostPort) -> Option<&'static str> {
    match (at.host.as_str(), at.port) {
        ("" | "0.0.0.0" | "::", _) => Some(
            "names every interface of the machine, which others cannot connect to: write the host name \
             or address that they reach it by",
        ),
        (_, 0) => Some("has port 0, which others cannot connect to: write the port it listens on"),
        _ => None,
    }
}

/// `HOST:PORT`, `[IPV6]:PORT` or `:PORT`.
pub fn host_port(text: &str) -> Option<HostPort> {
    let (host, port) = text.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    let plain =
        host.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%'));
    let port = port.bytes().all(|digit| digit.is_ascii_digit()).then(|| port.parse().ok())??;
    plain.then(|| HostPort { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let at = |host: &str, port| Some(HostPort { host: host.into(), port });
        for (text, expect) in [
            ("localhost:9093", at("localhost", 9093)),
            ("[::1]:9093", at("::1", 9093)),
            (":0", at("", 0)),
            ("::1:9093", None),
            ("[::1:9093", None),
            ("host", None),
            ("host:", None),
            ("host:+1", None),
            ("host:65536", None),
            ("ho st:1", None),
            ("a/b:1", None),
        ] {
            assert_eq!(host_port(text), expect, "{text}");
        }
    }
}
