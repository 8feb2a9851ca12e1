//! Makes a failing plan smaller: takes lines out as long as the same checker still objects.

use crate::plan::Plan;
use crate::run::{How, run};

/// The smallest plan that was found with so many runs at most.
pub fn shrink(plan: &Plan, how: &How, runs: usize) -> Plan {
    let Some(wanted) = run(plan, how).failure.map(|failure| failure.checker) else {
        return plan.clone();
    };
    let fails = |plan: &Plan| run(plan, how).failure.is_some_and(|f| f.checker == wanted);
    let (mut plan, mut left) = (plan.clone(), runs);
    let mut size = plan.steps.len().div_ceil(2);
    while size > 0 {
        let (mut at, mut smaller) = (0, false);
        while at < plan.steps.len() && left > 0 {
            left -= 1;
            let mut less = plan.clone();
            less.steps.drain(at..(at + size).min(less.steps.len()));
            match fails(&less) {
                true => (plan, smaller) = (less, true),
                false => at += size,
            }
        }
        match (left, size) {
            (0, _) => break,
            (_, 1) if smaller => {}
            (_, size_now) => size = size_now / 2,
        }
    }
    plan
}
