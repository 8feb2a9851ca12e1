//! Makes a failing plan smaller: takes lines out as long as the same checker still objects.

use crate::plan::Plan;

/// The smallest plan that was found with so many runs at most. `fails` runs a plan and names the
/// checker that objects.
pub fn shrink(plan: &Plan, runs: usize, fails: impl Fn(&Plan) -> Option<&'static str>) -> Plan {
    let Some(wanted) = fails(plan) else { return plan.clone() };
    let (mut plan, mut left) = (plan.clone(), runs);
    let mut size = plan.steps.len().div_ceil(2);
    while size > 0 {
        let (mut at, mut smaller) = (0, false);
        while at < plan.steps.len() && left > 0 {
            left -= 1;
            let mut less = plan.clone();
            less.steps.drain(at..(at + size).min(less.steps.len()));
            match fails(&less) == Some(wanted) {
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
