//! The table of targets.

use crate::{log, machine, node, server, wire};
use quorate_base::Rng;

/// Something that reads bytes from outside.
#[derive(Clone, Copy)]
pub struct Target {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it judges.
    pub about: &'static str,
    /// Makes an input.
    pub make: fn(&mut Rng) -> Vec<u8>,
    /// Reads one, and panics if what must hold does not.
    pub check: fn(&[u8]),
    /// The most memory that one input may make us hold beyond what was held before: bytes
    /// whatever the input is, and bytes for each byte of it.
    pub memory: (usize, usize),
}

impl Target {
    /// The memory that an input of so many bytes may take.
    pub fn memory_max(&self, input_bytes: usize) -> usize {
        let (fixed, each) = self.memory;
        fixed + each * input_bytes
    }
}

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// All that must hold.
pub const TARGETS: &[Target] = &[
    Target {
        name: "wire-request",
        about: "request frames: decoded, shown, encoded again",
        make: wire::make_request,
        check: wire::check_request,
        memory: (16 * KIB, 150),
    },
    Target {
        name: "wire-response",
        about: "response frames of every API and version: decoded, shown, encoded again",
        make: wire::make_response,
        check: wire::check_response,
        memory: (16 * KIB, 150),
    },
    Target {
        name: "wire-control",
        about: "keys and values of control records: decoded, shown, encoded again",
        make: wire::make_control,
        check: wire::check_control,
        memory: (16 * KIB, 150),
    },
    Target {
        name: "wire-metadata",
        about: "values of metadata records of every type and version: decoded, shown, encoded again",
        make: wire::make_metadata,
        check: wire::check_metadata,
        memory: (16 * KIB, 400),
    },
    Target {
        name: "wire-frames",
        about: "streams cut into frames: the same frames however the bytes arrive",
        make: wire::make_stream,
        check: wire::check_stream,
        memory: (16 * KIB, 8),
    },
    Target {
        name: "log-batches",
        about: "record batches and their records, compressed ones too",
        make: log::make_batches,
        check: log::check_batches,
        // A batch may inflate to 64 MiB, and a growing buffer is twice that for a moment.
        memory: (200 * MIB, 8),
    },
    Target {
        name: "log-recovery",
        about: "directories with damaged, cut, missing and added files: recovered or refused",
        make: log::make_directory,
        check: log::check_directory,
        memory: (MIB, 16),
    },
    Target {
        name: "log-files",
        about: "each small file beside the log: read or refused",
        make: log::make_file,
        check: log::check_file,
        memory: (MIB, 64),
    },
    Target {
        name: "log-dump",
        about: "the same directories, shown file by file: damage is told, nothing is changed",
        make: log::make_directory,
        check: log::check_dump,
        memory: (MIB, 16),
    },
    Target {
        name: "log-verify",
        about: "the same directories, verified: where no damage is found a node starts",
        make: log::make_directory,
        check: log::check_verify,
        memory: (MIB, 16),
    },
    Target {
        name: "machine-metadata",
        about: "histories of metadata records: applied or refused, and a state that comes back",
        make: machine::make_metadata,
        check: machine::check_metadata,
        memory: (64 * KIB, 400),
    },
    Target {
        name: "server-file",
        about: "property files: settings, or what is wrong with them",
        make: server::make_file,
        check: server::check_file,
        memory: (64 * KIB, 64),
    },
    Target {
        name: "server-http",
        about: "HTTP requests to a node: answered or cut off, and the next one is served",
        make: server::make_http,
        check: server::check_http,
        memory: (4 * MIB, 64),
    },
    Target {
        name: "node-frames",
        about: "requests and answers of hostile peers into a whole replica",
        make: node::make,
        check: node::check,
        memory: (32 * MIB, 500),
    },
];

/// Fails on about one input in a thousand: proof that failures are found, kept and replayed.
pub const CANARY: Target = Target {
    name: "canary",
    about: "fails on purpose",
    make: |rng| (0..rng.below(50)).map(|_| rng.next() as u8).collect(),
    check: |input| assert!(input.first_chunk() != Some(&[7]), "the canary sings"),
    memory: (16 * KIB, 8),
};

/// The targets whose names begin so: `wire` is all of the codec's, `all` is all that must hold.
pub fn find(name: &str) -> Vec<Target> {
    let with_canary = TARGETS.iter().chain([&CANARY]).copied();
    match name {
        "all" => TARGETS.to_vec(),
        name => with_canary.filter(|target| target.name.starts_with(name)).collect(),
    }
}
