//! Linearizability: is there one order of all calls that explains every answer and respects time?
//! (Wing and Gong's search, with Lowe's memory of what was tried.)
//!
//! Knows nothing of stores: a [`Model`] says what a call does to a state. A call that was never
//! answered may take its place anywhere after it began, or nowhere. Two reductions keep the search
//! short and lose nothing: a call that only looks takes its place as soon as it can, and an
//! unanswered call takes none where it would change nothing.

use std::collections::BTreeSet;

/// What a call may do.
pub trait Model {
    /// What is known of the thing between two calls.
    type State: Clone + Ord;
    /// A call with its answer.
    type Call;

    /// The state after the call, or `None` if the answer is impossible in this state.
    fn after(&self, state: &Self::State, call: &Self::Call) -> Option<Self::State>;

    /// Which calls are tried first, smaller ones before: decides how long the search takes, not
    /// what it finds.
    fn rank(&self, call: &Self::Call) -> u64 {
        let _ = call;
        0
    }

    /// Whether the call only looks: without it, a history stays as explicable as it was.
    fn only_looks(&self, call: &Self::Call) -> bool {
        let _ = call;
        false
    }
}

/// A call in time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timed<C> {
    /// When it was sent.
    pub begin: u64,
    /// When its answer was there; `None` if none came.
    pub end: Option<u64>,
    /// The call.
    pub call: C,
}

/// What the search found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict<S> {
    /// There is such an order.
    Linearizable,
    /// There is none.
    Not {
        /// The state in which the attempt stood that got furthest.
        stuck: S,
    },
    /// The search was given up.
    Undecided,
}

/// A call, by its place in one of the two lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    Answered(usize),
    Open(usize),
}

/// Which calls have their place; the search tries each such set and state once.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Placed {
    /// All answered calls before this one have a place, and it has none.
    base: usize,
    /// Answered calls that have one, beyond `base`.
    beyond: BTreeSet<usize>,
    /// Open calls that have one.
    open: BTreeSet<usize>,
}

impl Placed {
    fn put(&mut self, which: Which) {
        match which {
            Which::Answered(at) if at == self.base => {
                self.base += 1;
                while self.beyond.remove(&self.base) {
                    self.base += 1;
                }
            }
            Which::Answered(at) => drop(self.beyond.insert(at)),
            Which::Open(at) => drop(self.open.insert(at)),
        }
    }

    fn take(&mut self, which: Which) {
        match which {
            Which::Answered(at) if at < self.base => {
                self.beyond.extend(at + 1..self.base);
                self.base = at;
            }
            Which::Answered(at) => drop(self.beyond.remove(&at)),
            Which::Open(at) => drop(self.open.remove(&at)),
        }
    }
}

/// One choice on the way: what was placed, and what else could have been, best last.
struct Step<S> {
    placed: Option<Which>,
    others: Vec<(Which, S)>,
}

struct Search<'a, M: Model> {
    model: &'a M,
    /// Both by `begin`.
    answered: Vec<&'a Timed<M::Call>>,
    open: Vec<&'a Timed<M::Call>>,
    placed: Placed,
}

impl<M: Model> Search<'_, M> {
    /// Calls that may come next, best last: begun before the first answer that has no place yet.
    fn choices(&self, state: &M::State) -> Vec<(Which, M::State)> {
        let mut first_end = u64::MAX;
        let mut window = Vec::new();
        for (at, timed) in self.answered.iter().enumerate().skip(self.placed.base) {
            if timed.begin > first_end {
                break;
            }
            if !self.placed.beyond.contains(&at) {
                first_end = first_end.min(timed.end.unwrap_or(u64::MAX));
                window.push((at, timed));
            }
        }
        let mut choices = Vec::new();
        for (at, timed) in window {
            if timed.begin <= first_end
                && let Some(next) = self.model.after(state, &timed.call)
            {
                if next == *state && self.model.only_looks(&timed.call) {
                    return vec![(Which::Answered(at), next)];
                }
                choices.push((self.model.rank(&timed.call), Which::Answered(at), next));
            }
        }
        for (at, timed) in self.open.iter().enumerate() {
            if timed.begin <= first_end
                && !self.placed.open.contains(&at)
                && let Some(next) = self.model.after(state, &timed.call)
                && next != *state
            {
                choices.push((self.model.rank(&timed.call), Which::Open(at), next));
            }
        }
        choices.sort_by_key(|(rank, ..)| std::cmp::Reverse(*rank));
        choices.into_iter().map(|(_, which, next)| (which, next)).collect()
    }
}

/// Searches for an order, at most for so many steps.
pub fn check<M: Model>(
    model: &M,
    initial: M::State,
    history: &[Timed<M::Call>],
    steps_max: u64,
) -> Verdict<M::State> {
    let mut by_begin: Vec<&Timed<M::Call>> = history.iter().collect();
    by_begin.sort_by_key(|timed| timed.begin);
    let (answered, open) = by_begin.into_iter().partition(|timed| timed.end.is_some());
    let mut search = Search { model, answered, open, placed: Placed::default() };
    let mut tried = BTreeSet::new();
    let mut steps: Vec<Step<M::State>> = Vec::new();
    let mut state = initial;
    let mut furthest = (0, state.clone());
    for _ in 0..steps_max {
        if search.placed.base == search.answered.len() {
            return Verdict::Linearizable;
        }
        let placed = search.placed.base + search.placed.beyond.len();
        if placed > furthest.0 {
            furthest = (placed, state.clone());
        }
        let others = match tried.insert((search.placed.clone(), state.clone())) {
            true => search.choices(&state),
            false => Vec::new(),
        };
        steps.push(Step { placed: None, others });
        loop {
            let Some(step) = steps.last_mut() else {
                return Verdict::Not { stuck: furthest.1 };
            };
            if let Some(which) = step.placed.take() {
                search.placed.take(which);
            }
            match step.others.pop() {
                Some((which, next)) => {
                    search.placed.put(which);
                    step.placed = Some(which);
                    state = next;
                    break;
                }
                None => drop(steps.pop()),
            }
        }
    }
    Verdict::Undecided
}

/// A history without an order, and the state in which the best attempt at one was stuck.
pub type Inexplicable<M> = (Vec<Timed<<M as Model>::Call>>, <M as Model>::State);

/// The shortest beginning of a history that cannot be explained, without the looks that do not
/// matter for that; `None` if the search does not find one.
pub fn shortest<M: Model>(
    model: &M,
    initial: &M::State,
    history: &[Timed<M::Call>],
    steps_max: u64,
) -> Option<Inexplicable<M>>
where
    M::Call: Clone,
{
    let stuck = |history: &[Timed<M::Call>]| match check(model, initial.clone(), history, steps_max)
    {
        Verdict::Not { stuck } => Some(stuck),
        Verdict::Linearizable | Verdict::Undecided => None,
    };
    let mut ends: Vec<u64> = history.iter().filter_map(|timed| timed.end).collect();
    ends.sort_unstable();
    // What is answered later than the cut was not answered yet; what began later was not.
    let until = |cut: u64| -> Vec<Timed<M::Call>> {
        let begun = history.iter().filter(|timed| timed.begin <= cut);
        begun
            .map(|timed| Timed { end: timed.end.filter(|end| *end <= cut), ..timed.clone() })
            .collect()
    };
    let first = ends.partition_point(|cut| stuck(&until(*cut)).is_none());
    let mut short = until(*ends.get(first)?);
    let mut piece = short.len();
    while piece > 0 {
        let mut from = 0;
        while from < short.len() {
            let upto = (from + piece).min(short.len());
            let mut fewer = short.clone();
            let mut at = 0;
            fewer.retain(|timed| {
                at += 1;
                !(from..upto).contains(&(at - 1)) || !model.only_looks(&timed.call)
            });
            match fewer.len() < short.len() && stuck(&fewer).is_some() {
                true => short = fewer,
                false => from = upto,
            }
        }
        piece /= 2;
    }
    let stuck = stuck(&short)?;
    Some((short, stuck))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_base::Rng;

    /// A number that can be set and read.
    struct Number;

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Call {
        Set(u64),
        Read(u64),
    }

    impl Model for Number {
        type State = u64;
        type Call = Call;

        fn after(&self, state: &u64, call: &Call) -> Option<u64> {
            match call {
                Call::Set(value) => Some(*value),
                Call::Read(value) => (value == state).then_some(*state),
            }
        }

        fn rank(&self, _call: &Call) -> u64 {
            0
        }

        fn only_looks(&self, call: &Call) -> bool {
            matches!(call, Call::Read(_))
        }
    }

    fn timed(begin: u64, end: u64, call: Call) -> Timed<Call> {
        Timed { begin, end: (end > 0).then_some(end), call }
    }

    fn linearizable(history: &[Timed<Call>]) -> bool {
        check(&Number, 0, history, 100_000) == Verdict::Linearizable
    }

    /// Every order of every choice of the open calls.
    fn naive(history: &[Timed<Call>], state: u64, left: &mut Vec<usize>) -> bool {
        if left.iter().all(|at| history[*at].end.is_none()) {
            return true;
        }
        let first_end = left.iter().filter_map(|at| history[*at].end).min().unwrap();
        (0..left.len()).any(|at| {
            let call = left.remove(at);
            let begun = history[call].begin <= first_end;
            let next = Number.after(&state, &history[call].call).filter(|_| begun);
            let found = next.is_some_and(|next| naive(history, next, left));
            left.insert(at, call);
            found
        })
    }

    #[test]
    fn agrees_with_trying_everything() {
        let mut rng = Rng::new(1);
        let mut counts = [0; 2];
        for _ in 0..20_000 {
            let calls = 1 + rng.below(6);
            let history: Vec<Timed<Call>> = (0..calls)
                .map(|_| {
                    let begin = 1 + rng.below(12);
                    let end = begin + rng.below(6);
                    let value = rng.below(3);
                    let call = if rng.one_in(2) { Call::Set(value) } else { Call::Read(value) };
                    timed(begin, if rng.one_in(5) { 0 } else { end }, call)
                })
                .collect();
            let expect = naive(&history, 0, &mut (0..history.len()).collect());
            assert_eq!(linearizable(&history), expect, "{history:?}");
            counts[usize::from(expect)] += 1;
        }
        assert!(counts.iter().all(|count| *count > 1_000), "one-sided: {counts:?}");
    }

    #[test]
    fn the_shortest_history_keeps_what_matters() {
        let history = [
            timed(1, 2, Call::Set(1)),
            timed(3, 4, Call::Read(1)),
            timed(5, 6, Call::Set(2)),
            timed(7, 8, Call::Read(2)),
            timed(9, 10, Call::Read(1)),
            timed(11, 12, Call::Set(3)),
        ];
        let (short, stuck) = shortest(&Number, &0, &history, 1_000).unwrap();
        let kept: Vec<Call> = short.iter().map(|timed| timed.call).collect();
        assert_eq!(kept, [Call::Set(1), Call::Set(2), Call::Read(1)]);
        assert_eq!(stuck, 2);
        assert_eq!(shortest(&Number, &0, &history[..4], 1_000), None);
    }
}
