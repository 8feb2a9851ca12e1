//! One run of one plan, from a new world to an outcome. A panic inside of the world, an assertion
//! of the protocol or the log, is a failure like any other.

use crate::checkers::Failure;
use crate::clients::{Clients, StoreClients};
use crate::log_lines::LogLines;
use crate::marks::Marks;
use crate::own::{OwnClients, Subject};
use crate::plan::Plan;
use crate::world::World;
use quorate_base::{Span, Time};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// How to run a plan.
#[derive(Clone, Debug)]
pub struct How {
    /// How many of the newest lines of the trace to keep; 0 makes none and is much faster.
    pub lines: usize,
    /// Stop at this time of the world.
    pub until: Time,
    /// The rule that the replicas break.
    #[cfg(mutants)]
    pub mutant: Option<quorate_node::Mutant>,
}

impl Default for How {
    /// No lines, to the end.
    fn default() -> How {
        How::until(Time::NEVER)
    }
}

impl How {
    /// No lines, to a time of the world.
    pub fn until(until: Time) -> How {
        How {
            lines: 0,
            until,
            #[cfg(mutants)]
            mutant: None,
        }
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The first thing that was wrong.
    pub failure: Option<Failure>,
    /// When the run ended.
    pub ended: Time,
    /// How many events it had.
    pub events: u64,
    /// What it met.
    pub marks: Marks,
    /// Equal for equal runs.
    pub hash: u64,
    /// The newest lines of its trace.
    pub lines: Vec<String>,
}

thread_local! {
    /// Message and place of the last panic inside of a world; `None` outside of one.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics inside of a world are findings to report, not noise for the terminal.
fn catch_messages() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let inside = PANIC.with_borrow_mut(|slot| match slot {
                Some(text) => {
                    *text = info.to_string().replace('\n', " ");
                    true
                }
                None => false,
            });
            if !inside {
                before(info);
            }
        }));
    });
}

/// Runs a plan with the key-value store.
pub fn run(plan: &Plan, how: &How) -> Outcome {
    let (clients, nodes) = company(plan);
    let ttl = Span::ms(plan.options.session_ms);
    let value_bytes = plan.options.value_bytes as usize;
    run_with(plan, how, StoreClients::new(clients, nodes, ttl, value_bytes))
}

/// Runs a plan with an embedder's own machine. What the plan's clients ask of the store they ask of
/// the machine as well: reads for reads, writes for writes.
pub fn run_own<S: Subject>(subject: S, plan: &Plan, how: &How) -> Outcome {
    let (clients, nodes) = company(plan);
    run_with(plan, how, OwnClients::new(subject, clients, nodes, plan.seed))
}

/// How many clients and nodes there are. There is one client more for each node: those that look
/// whether all is well at the end.
fn company(plan: &Plan) -> (usize, usize) {
    (plan.options.clients as usize + plan.nodes(), plan.nodes())
}

fn run_with<C: Clients>(plan: &Plan, how: &How, clients: C) -> Outcome {
    catch_messages();
    PANIC.set(Some(String::new()));
    let log_lines = LogLines::new(how.lines > 0);
    let mut world = World::new(
        plan,
        how.lines,
        log_lines.clone(),
        clients,
        #[cfg(mutants)]
        how.mutant,
    );
    let result = tracing::subscriber::with_default(log_lines, || {
        catch_unwind(AssertUnwindSafe(|| world.run(how.until)))
    });
    let panicked = PANIC.replace(None).unwrap_or_default();
    let failure = match result {
        Ok(result) => result.err(),
        Err(_) => Some(Failure::new("no_assertion_fails", panicked)),
    };
    if let Some(Failure { checker, what }) = &failure {
        let what = what.lines().next().unwrap_or_default();
        world.trace.world(world.now, || format!("FAILED  {checker}: {what}"));
    }
    let (hash, lines) = world.trace.end();
    Outcome { failure, ended: world.now, events: world.events, marks: world.marks, hash, lines }
}
