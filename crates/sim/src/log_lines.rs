//! The log lines of the nodes, caught where they are written. They become lines of the trace, and
//! one that calls for a human is a failure: in this world nobody configured anything wrong.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

/// Catches the lines of one thread.
#[derive(Clone, Default)]
pub(crate) struct LogLines {
    lines: Arc<Mutex<Vec<(Level, String)>>>,
    /// Also those that call for nobody.
    all: bool,
}

impl LogLines {
    pub fn new(all: bool) -> LogLines {
        LogLines { lines: Arc::default(), all }
    }

    /// What was written since the last call.
    pub fn take(&self) -> Vec<(Level, String)> {
        std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Subscriber for LogLines {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN || (self.all && *metadata.level() <= Level::INFO)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        let line = (*event.metadata().level(), text.0);
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let space = if self.0.is_empty() { "" } else { " " };
        let written = match field.name() {
            "message" => write!(self.0, "{space}{value:?}"),
            name => write!(self.0, "{space}{name}={value:?}"),
        };
        written.expect("a String takes all");
    }
}
