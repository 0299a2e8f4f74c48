//! Agent scenarios, answered by the built-in loop and by a loop of nodes.

use weft_scenarios::AgentCases;

use crate::engine::{Failure, Report};

/// Scenarios that a loop of nodes cannot answer as the built-in loop does, with the reason.
const BUILT_IN_ONLY: &[(&str, &str)] = &[
    ("event-wakes", EVENTS),
    ("event-cannot-act", EVENTS),
    ("ask-if", "conditions of approval are the profile's"),
    ("sub-agent-shares", "the user's last message is known to the loop alone"),
    ("done-must-fit", "a schema of answers is the profile's"),
    ("long-work-read", "the script names a task by the id of the built-in loop"),
    ("long-work-wakes", TASKS),
    ("long-work-answered", TASKS),
    ("long-work-two", TASKS),
    ("long-work-fails", TASKS),
    ("speaks-while-at-work", TASKS),
    ("inside-long-work", TASKS),
    ("compacts-by-itself", COMPACTS),
    ("compacts-without-model", COMPACTS),
    ("cancel-pending", CANCELLED),
    ("cancel-at-observation", CANCELLED),
    ("speaks-while-pending", CANCELLED),
    ("cancelled-while-pending", CANCELLED),
    ("native", "the protocol is the profile's; nodes go by the model"),
    ("wall", LIMIT),
    ("inside-wall-time", LIMIT),
    ("inside-cancelled", LIMIT),
    ("tool-429-final", "a final answer at a limit is the loop's"),
];

const EVENTS: &str = "a workflow is begun by its caller, not by an event that an agent listens to";
const LIMIT: &str = "the engine cancels a node at once, before it observes";
const TASKS: &str = "an agent waits for its tasks after its answer; a workflow ends with its results";
const COMPACTS: &str = "a workflow compacts by a node of its own, where its author puts it";
const CANCELLED: &str = "a cancelled workflow has no results, and so no conversation for the next message";

/// Compares both loops in each scenario of a file: requests, executions and events of the agent in all turns. A listed
/// exception must differ.
#[must_use]
pub fn run_both_ways(text: &str) -> Report {
    let mut report = Report::default();
    for (id, difference) in AgentCases::new().both_ways(text) {
        let is_listed = BUILT_IN_ONLY.iter().any(|(own, _)| *own == id);
        let fault = match (difference, is_listed) {
            (Some(difference), false) => difference,
            (None, true) => "it is listed as an exception, and the same".to_owned(),
            (Some(_), true) | (None, false) => {
                report.passed += 1;
                continue;
            }
        };
        report.failures.push(Failure { id, faults: vec![fault] });
    }
    report
}
