//! A loop of nodes answers as the built-in loop does.

use weft_scenarios::AgentCases;

/// Scenarios whose first message a loop of nodes cannot answer as the built-in loop does, with the reason.
const BUILT_IN_ONLY: &[(&str, &str)] = &[
    ("event-wakes", EVENTS),
    ("event-cannot-act", EVENTS),
    ("ask-if", "conditions of approval are the profile's"),
    ("sub-agent-shares", "the user's last message is known to the loop alone"),
    ("done-must-fit", "a schema of answers is the profile's"),
    ("long-work-read", "the script names a task by the id of the built-in loop"),
    ("native", "the protocol is the profile's; nodes go by the model"),
    ("wall", "the engine cancels a node at the limit, before it observes"),
    ("inside-wall-time", "the engine cancels a node at the limit, before it observes"),
    ("tool-429-final", "a final answer at a limit is the loop's"),
];

const EVENTS: &str = "a workflow is begun by its caller, not by an event that an agent listens to";

#[test]
fn nodes_answer_as_the_built_in_loop_does() {
    let is_listed = |id: &str| BUILT_IN_ONLY.iter().any(|(own, _)| *own == id);
    let compared = AgentCases::new().both_ways(include_str!("agents.jsonl"));
    let wrong = compared.into_iter().filter_map(|(id, difference)| match (difference, is_listed(&id)) {
        (Some(difference), false) => Some(format!("{id}: {difference}")),
        (None, true) => Some(format!("{id}: it is listed, and the same")),
        _ => None,
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
