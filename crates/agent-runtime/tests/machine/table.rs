//! Steps of the machine: state and input, effects and next state.

use agent_runtime::machine::{
    AgentMachine, Block, CallResult, End, Grant, Input, Judgement, NoReply, Past, PendingInner, Review,
    Summary, TaskChange, TaskEnd, Verdict,
};
use agent_types::{AskKind, AskSummary, BudgetExceeded, BudgetKey, ExitReason, Usage};
use llm_provider::Finish;
use serde_json::{Value, json};

use crate::common::{ASKS, CHANGES, READS, begun, faulty, reply, result, rules, shown, unread};

const TURN: Input = Input::Granted(Grant::Turn { is_last: false });
const LAST: Input = Input::Granted(Grant::Turn { is_last: true });

/// An input, the effects of it, and the phase after it.
type Row<'r> = (Input, &'r [&'r str], &'r str);

/// Steps a machine that is read back before each step; each row has the effects of an input, and the phase after it.
#[track_caller]
fn check(mut machine: AgentMachine, rows: &[Row<'_>]) -> AgentMachine {
    for (number, (input, effects, phase)) in rows.iter().enumerate() {
        machine = serde_json::from_value(serde_json::to_value(&machine).unwrap()).unwrap();
        assert_eq!(shown(&machine.step(input.clone())), *effects, "step {number}: {input:?}");
        let now = serde_json::to_value(&machine).unwrap()["phase"].clone();
        let now = match now {
            Value::Object(phase) => phase.keys().next().unwrap().clone(),
            phase => phase.as_str().unwrap().to_owned(),
        };
        assert_eq!(now, *phase, "step {number}");
    }
    machine
}

fn machine() -> AgentMachine {
    begun(rules(json!({"id": "a"})))
}

fn reviewed(reviews: &[Review]) -> Input {
    Input::Reviewed(reviews.to_vec())
}

fn called(result: CallResult) -> Input {
    Input::Called(Box::new(result))
}

fn verdict(verdict: Verdict) -> Review {
    Review { verdict: Some(verdict), ..Review::default() }
}

#[test]
fn an_answer_ends_the_run() {
    let machine = check(
        machine(),
        &[
            (TURN, &["open turn 1", "ask"], "Asking"),
            (reply("Hi.", 1, &[]), &["parsed", "message", "close turn", "finish completed"], "Over"),
            (TURN, &[], "Over"),
        ],
    );
    assert_eq!(machine.conversation().text(), Some("Hi."));
}

#[test]
fn guardrails_come_first() {
    let mut guarded = rules(json!({"id": "a"}));
    (guarded.is_guarded, guarded.judges_text) = (true, true);
    let block = Block { guard: "g".to_owned(), reason: "no".to_owned() };
    check(
        begun(guarded.clone()),
        &[(Input::Admitted(Some(block.clone())), &["finish guardrail_blocked"], "Over")],
    );
    check(
        begun(guarded),
        &[
            (Input::Admitted(None), &["grant"], "Granting"),
            (TURN, &["open turn 1", "ask"], "Asking"),
            (reply("Hi.", 1, &[]), &["parsed", "judge"], "Judging"),
            (Input::Judged(Judgement::Blocked(block)), &["close turn", "finish guardrail_blocked"], "Over"),
        ],
    );
}

/// A reply without calls that ended in this way.
fn ended(text: &str, finish: Finish, usage: Usage) -> Input {
    let Input::Replied { mut reply, .. } = reply(text, 1, &[]) else { unreachable!() };
    reply.finish = finish;
    Input::Replied { reply, usage }
}

#[test]
fn a_cut_text_is_checked_before_it_is_shown() {
    let cut = || ended("Half", Finish::Length, Usage::default());
    check(
        machine(),
        &[
            (TURN, &["open turn 1", "ask"], "Asking"),
            (cut(), &["parsed", "message", "close turn", "finish completed"], "Over"),
        ],
    );
    let mut judged = rules(json!({"id": "a"}));
    judged.judges_text = true;
    let with = |judgement: Judgement, effects: &[&str]| {
        let machine = check(
            begun(judged.clone()),
            &[
                (TURN, &["open turn 1", "ask"], "Asking"),
                (cut(), &["parsed", "judge"], "Judging"),
                (Input::Judged(judgement), effects, "Over"),
            ],
        );
        machine.conversation().text().map(str::to_owned)
    };
    let block = Block { guard: "g".to_owned(), reason: "no".to_owned() };
    assert_eq!(with(Judgement::Blocked(block), &["close turn", "finish guardrail_blocked"]), None);
    let shown = with(Judgement::Accepted(None), &["message", "close turn", "finish completed"]);
    assert_eq!(shown.as_deref(), Some("Half"));
}

#[test]
fn an_empty_reply_is_counted_once() {
    let usage = Usage::new(3, 4);
    let empty = || ended("", Finish::Stop, usage);
    let machine = check(
        machine(),
        &[
            (TURN, &["open turn 1", "ask"], "Asking"),
            (empty(), &["parsed", "observation", "close turn", "grant"], "Granting"),
            (TURN, &["open turn 2", "ask"], "Asking"),
            (empty(), &["parsed", "close turn", "finish llm_failed"], "Over"),
        ],
    );
    assert_eq!(machine.conversation().usage().total, 14);
}

#[test]
fn a_call_that_could_not_be_written_is_asked_for_again() {
    let word = || Finish::Other("MALFORMED_FUNCTION_CALL".to_owned());
    let malformed = || ended("I look.", word(), Usage::default());
    check(
        machine(),
        &[
            (TURN, &["open turn 1", "ask"], "Asking"),
            (malformed(), &["parsed", "message", "observation", "close turn", "grant"], "Granting"),
            (TURN, &["open turn 2", "ask"], "Asking"),
            (
                malformed(),
                &["parsed", "message", "observation", "close turn", "finish self_correction_failed"],
                "Over",
            ),
        ],
    );
}

/// Effects of a reply that is answered as an attempted call.
const REPORTED: &[&str] = &["parsed", "parse_failed", "message", "observation", "close turn", "grant"];

#[test]
fn a_call_that_was_not_read_is_told_once() {
    let answer = &["parsed", "warning", "message", "close turn", "finish completed"];
    let asked = (TURN, &["open turn 1", "ask"] as &[&str], "Asking");
    let second = (TURN, &["open turn 2", "ask"] as &[&str], "Asking");
    let reported = || (unread("<t>1</t>"), REPORTED, "Granting");
    let machine =
        check(machine(), &[asked.clone(), reported(), second.clone(), (unread("<t>2</t>"), answer, "Over")]);
    assert_eq!(machine.conversation().text(), Some("<t>2</t>"));
    assert!(machine.conversation().warning().is_some());
    let plain = &["parsed", "message", "close turn", "finish completed"];
    let machine = check(
        begun(rules(json!({"id": "a"}))),
        &[asked.clone(), reported(), second, (reply("Hi.", 1, &[]), plain, "Over")],
    );
    assert_eq!(machine.conversation().warning(), None);
    // No turn is left in which it could be corrected.
    let wants = rules(json!({"id": "a", "on_limit": "final_answer"}));
    let last = &["parsed", "warning", "message", "close turn", "finish max_turns"];
    check(begun(wants), &[(LAST, asked.1, "Asking"), (unread("<t>1</t>"), last, "Over")]);
}

#[test]
fn a_call_that_was_not_read_counts_as_a_correction() {
    let faulty_then =
        &["parsed", "parse_failed", "message", "observation", "close turn", "finish self_correction_failed"];
    check(
        machine(),
        &[
            (TURN, &["open turn 1", "ask"], "Asking"),
            (faulty(), &["parsed", "parse_failed", "observation", "close turn", "grant"], "Granting"),
            (TURN, &["open turn 2", "ask"], "Asking"),
            (unread("<t>1</t>"), faulty_then, "Over"),
        ],
    );
}

#[test]
fn readers_run_side_by_side_and_others_in_order() {
    let none = reviewed(&[]);
    check(
        machine(),
        &[
            (TURN, &["open turn 1", "ask"], "Asking"),
            (
                reply("", 1, &[READS, READS, CHANGES, READS]),
                &["parsed", "call.ready c1", "call.ready c2", "call.ready c3", "call.ready c4", "review 4"],
                "Calling",
            ),
            (none, &["call c1", "call c2"], "Calling"),
            (called(result(1, 1, "b")), &[], "Calling"),
            (called(result(1, 1, "twice")), &[], "Calling"),
            (called(result(1, 0, "a")), &["call c3"], "Calling"),
            (called(result(1, 2, "c")), &["call c4"], "Calling"),
            (
                called(result(1, 3, "d")),
                &[
                    "observation c1",
                    "observation c2",
                    "observation c3",
                    "observation c4",
                    "close turn",
                    "grant",
                ],
                "Granting",
            ),
        ],
    );
}

#[test]
fn calls_of_elsewhere_are_reviewed_run_and_observed() {
    let Input::Replied { reply, .. } = reply("", 1, &[READS, ASKS, CHANGES]) else { unreachable!() };
    let refuse = |position: usize| (position == 2).then(|| "too many".to_owned());
    let (machine, first) =
        AgentMachine::with_calls(rules(json!({"id": "a"})), reply.turn, reply.ready, refuse);
    assert_eq!(shown(&[first]), ["review 3"]);
    let ways: [(Review, &[Row<'_>]); 2] = [
        (
            Review::default(),
            &[
                (called(result(1, 0, "x")), &["call c3"], "Calling"),
                (
                    called(result(1, 2, "no")),
                    &["tool.approval c2", "leave turn", "finish awaiting_approval"],
                    "Over",
                ),
            ],
        ),
        (
            verdict(Verdict::Approve),
            &[
                (called(result(1, 0, "x")), &["call c2"], "Calling"),
                (called(result(1, 1, "y")), &["call c3"], "Calling"),
                (
                    called(result(1, 2, "no")),
                    &["observation c1", "observation c2", "observation c3", "close turn", "grant"],
                    "Granting",
                ),
            ],
        ),
    ];
    for (review, rows) in ways {
        let mut machine = machine.clone();
        machine.step(reviewed(&[Review::default(), review, Review::default()]));
        check(machine, rows);
    }
}

#[test]
fn a_person_decides() {
    let calls = [
        (TURN, &["open turn 1", "ask"] as &[&str], "Asking"),
        (reply("", 1, &[ASKS, READS]), &["parsed", "call.ready c1", "call.ready c2", "review 2"], "Calling"),
    ];
    let with = |rows: &[(Input, &'static [&'static str], &'static str)]| {
        let machine = check(machine(), &calls);
        check(machine, rows)
    };
    with(&[
        (reviewed(&[]), &["call c2"], "Calling"),
        (called(result(1, 1, "b")), &["tool.approval c1", "leave turn", "finish awaiting_approval"], "Over"),
    ]);
    with(&[
        (reviewed(&[verdict(Verdict::Approve)]), &["tool.approval c1", "call c1"], "Calling"),
        (called(result(1, 0, "a")), &["call c2"], "Calling"),
    ]);
    with(&[(reviewed(&[verdict(Verdict::BadEdit("n".into()))]), &["call c2"], "Calling")]);
    with(&[(
        reviewed(&[verdict(Verdict::Deny("too dear".into()))]),
        &["tool.approval c1", "call c1"],
        "Calling",
    )]);
    let ask = "c1".to_owned();
    let lost = Review { past: Past::Interrupted { ask, outcome: None }, ..Review::default() };
    with(&[
        (reviewed(&[lost]), &["call c2"], "Calling"),
        (
            called(result(1, 1, "b")),
            &["tool.approval c1", "leave turn", "finish needs_reconciliation"],
            "Over",
        ),
    ]);
}

#[test]
fn a_call_that_waits_inside_suspends_the_run() {
    let asks = vec![AskSummary {
        ask: "q".into(),
        kind: AskKind::Question,
        tool: None,
        arguments: None,
        path: None,
        prompt: None,
        definition: agent_types::DefinitionDigests::new(),
    }];
    let waits = PendingInner { exit: ExitReason::AwaitingApproval, asks };
    let waiting = CallResult { waits: Some(waits), ..result(1, 0, "") };
    check(
        machine(),
        &[
            (TURN, &["open turn 1", "ask"], "Asking"),
            (
                reply("", 1, &[READS, CHANGES]),
                &["parsed", "call.ready c1", "call.ready c2", "review 2"],
                "Calling",
            ),
            (reviewed(&[]), &["call c1"], "Calling"),
            (called(waiting), &["leave turn", "finish awaiting_approval"], "Over"),
        ],
    );
}

#[test]
fn a_fatal_call_ends_the_run_and_its_neighbours() {
    let end = Some(End::fatal(&"t".parse().unwrap(), "nothing more is of use".to_owned()));
    let fatal = CallResult { end, ..result(1, 0, "a") };
    let machine = check(
        machine(),
        &[
            (TURN, &["open turn 1", "ask"], "Asking"),
            (
                reply("", 1, &[READS, READS, CHANGES]),
                &["parsed", "call.ready c1", "call.ready c2", "call.ready c3", "review 3"],
                "Calling",
            ),
            (reviewed(&[]), &["call c1", "call c2"], "Calling"),
            (called(fatal), &["cancel calls"], "Calling"),
            (
                called(result(1, 1, "b")),
                &["observation c1", "observation c2", "observation c3", "close turn", "finish tool_error"],
                "Over",
            ),
        ],
    );
    let turn = machine.conversation().history().last().cloned();
    let Some(agent_runtime::Exchange::Turn(turn)) = turn else { panic!("{turn:?}") };
    let last = turn.calls[2].observation.as_ref().unwrap();
    assert!(last.text.contains("the run ended before it"), "{}", last.text);
}

#[test]
fn a_cancelled_run_gives_every_call_a_result() {
    check(
        machine(),
        &[
            (TURN, &["open turn 1", "ask"], "Asking"),
            (
                reply("", 1, &[CHANGES, ASKS]),
                &["parsed", "call.ready c1", "call.ready c2", "review 2"],
                "Calling",
            ),
            (reviewed(&[]), &["call c1"], "Calling"),
            (Input::Cancelled, &[], "Calling"),
            (
                called(result(1, 0, "a")),
                &["observation c1", "observation c2", "close turn", "finish cancelled"],
                "Over",
            ),
        ],
    );
    check(machine(), &[(Input::Granted(Grant::Cancelled), &["finish cancelled"], "Over")]);
}

#[test]
fn too_many_faulty_replies_end_the_run() {
    check(
        machine(),
        &[
            (TURN, &["open turn 1", "ask"], "Asking"),
            (faulty(), &["parsed", "parse_failed", "observation", "close turn", "grant"], "Granting"),
            (TURN, &["open turn 2", "ask"], "Asking"),
            (
                faulty(),
                &["parsed", "parse_failed", "observation", "close turn", "finish self_correction_failed"],
                "Over",
            ),
        ],
    );
}

#[test]
fn limits_end_the_run_or_ask_for_a_final_answer() {
    let exceeded = |key| End::budget_exceeded(BudgetExceeded { key, limit: 1, used: 1 });
    let turns = Input::Granted(Grant::Exceeded(Box::new(exceeded(BudgetKey::Turns))));
    check(machine(), &[(turns, &["budget of the run", "finish max_turns"], "Over")]);
    let wants = rules(json!({"id": "a", "on_limit": "final_answer"}));
    let over = CallResult { end: Some(exceeded(BudgetKey::ToolCalls)), ..result(1, 0, "a") };
    let machine = check(
        begun(wants.clone()),
        &[
            (TURN, &["open turn 1", "ask"], "Asking"),
            (reply("", 1, &[READS]), &["parsed", "call.ready c1", "review 1"], "Calling"),
            (reviewed(&[]), &["call c1"], "Calling"),
            (called(over), &["budget", "observation c1", "close turn", "grant"], "Granting"),
            (TURN, &["open turn 2", "ask"], "Asking"),
            (
                reply("This is what I have.", 2, &[]),
                &["parsed", "message", "close turn", "finish budget_exceeded"],
                "Over",
            ),
        ],
    );
    assert_eq!(machine.conversation().text(), Some("This is what I have."));
    let over = CallResult { end: Some(exceeded(BudgetKey::ToolCalls)), ..result(1, 0, "a") };
    check(
        begun(wants.clone()),
        &[
            (TURN, &["open turn 1", "ask"], "Asking"),
            (reply("", 1, &[READS]), &["parsed", "call.ready c1", "review 1"], "Calling"),
            (reviewed(&[]), &["call c1"], "Calling"),
            (called(over), &["budget", "observation c1", "close turn", "grant"], "Granting"),
            (TURN, &["open turn 2", "ask"], "Asking"),
            (Input::Unanswered(NoReply::Cancelled), &["close turn", "finish cancelled"], "Over"),
        ],
    );
    check(
        begun(wants),
        &[
            (LAST, &["open turn 1", "ask"], "Asking"),
            (reply("", 1, &[READS]), &["parsed", "call.ready c1", "review 1"], "Calling"),
            (reviewed(&[]), &["call c1"], "Calling"),
            (called(result(1, 0, "refused")), &["observation c1", "close turn", "finish max_turns"], "Over"),
        ],
    );
}

#[test]
fn the_wall_time_replaces_the_end() {
    check(
        machine(),
        &[
            (TURN, &["open turn 1", "ask"], "Asking"),
            (Input::Unanswered(NoReply::Cancelled), &["close turn", "finish cancelled"], "Over"),
            (Input::OutOfTime(5), &["budget of the run", "finish budget_exceeded"], "Over"),
        ],
    );
}

#[test]
fn an_answer_of_a_schema_is_checked() {
    let mut schema = rules(json!({"id": "a"}));
    (schema.judges_text, schema.judges_values) = (true, true);
    let machine = check(
        begun(schema),
        &[
            (TURN, &["open turn 1", "ask"], "Asking"),
            (reply("four", 1, &[]), &["parsed", "judge"], "Judging"),
            (
                Input::Judged(Judgement::Unfit("n".into())),
                &["observation", "close turn", "grant"],
                "Granting",
            ),
            (TURN, &["open turn 2", "ask"], "Asking"),
            (reply("4", 1, &[]), &["parsed", "judge"], "Judging"),
            (
                Input::Judged(Judgement::Accepted(Some(json!(4)))),
                &["message", "close turn", "finish completed"],
                "Over",
            ),
        ],
    );
    assert_eq!(machine.conversation().value(), Some(&json!(4)));
}

#[test]
fn a_long_conversation_is_compacted_once() {
    let (by, usage) = ("summary".into(), Usage::default());
    let summary = Summary { text: "s".into(), upto: 1, by, usage, request: None };
    check(
        machine(),
        &[
            (TURN, &["open turn 1", "ask"], "Asking"),
            (Input::Compacted(summary), &["compacted", "ask again"], "Asking"),
            (reply("Hi.", 1, &[]), &["parsed", "message", "close turn", "finish completed"], "Over"),
        ],
    );
}

#[test]
fn tasks_wake_the_run() {
    let began = CallResult { task: Some(TaskChange::Began("k".into())), ..result(1, 0, "a") };
    let end = TaskEnd { task: "k".into(), observation: result(1, 0, "done").observation };
    check(
        machine(),
        &[
            (TURN, &["open turn 1", "ask"], "Asking"),
            (reply("", 1, &[READS]), &["parsed", "call.ready c1", "review 1"], "Calling"),
            (reviewed(&[]), &["call c1"], "Calling"),
            (called(began), &["observation c1", "close turn", "grant"], "Granting"),
            (TURN, &["open turn 2", "ask"], "Asking"),
            (reply("I wait.", 2, &[]), &["parsed", "message", "close turn", "wake"], "Waking"),
            (Input::Woken(vec![end]), &["observation", "grant"], "Granting"),
            (TURN, &["open turn 3", "ask"], "Asking"),
            (reply("Done.", 2, &[]), &["parsed", "message", "close turn", "finish completed"], "Over"),
        ],
    );
    check(
        machine(),
        &[
            (TURN, &["open turn 1", "ask"], "Asking"),
            (
                Input::Unanswered(NoReply::Waiting(Vec::new())),
                &["leave turn", "finish awaiting_approval"],
                "Over",
            ),
        ],
    );
}

#[test]
fn the_same_call_with_the_same_result_ends_the_run() {
    let mut machine = machine();
    let mut turn = |number: u32, last: &[&str], phase: &str| {
        machine = check(
            machine.clone(),
            &[
                (TURN, &[&*format!("open turn {number}"), "ask"], "Asking"),
                (reply("", 1, &[READS]), &["parsed", "call.ready c1", "review 1"], "Calling"),
                (reviewed(&[]), &["call c1"], "Calling"),
                (called(result(1, 0, "a")), last, phase),
            ],
        );
    };
    turn(1, &["observation c1", "close turn", "grant"], "Granting");
    turn(2, &["observation c1", "close turn", "grant"], "Granting");
    turn(3, &["warning", "observation c1", "close turn", "grant"], "Granting");
}

/// A reply with this end, these tokens, and a block that is cut off where it is wanted.
fn reply_of(finish: Finish, usage: Usage, is_cut: bool) -> Input {
    let input = if is_cut { faulty() } else { reply("Hi.", 1, &[]) };
    let Input::Replied { mut reply, .. } = input else { unreachable!() };
    reply.finish = finish;
    Input::Replied { reply, usage }
}

#[test]
fn an_estimate_that_a_budget_is_kept_by_is_reported_once() {
    let warnings = |is_metered| {
        let rules = agent_runtime::machine::Rules { is_metered, ..rules(json!({"id": "a"})) };
        let mut machine = begun(rules);
        let estimated = || reply_of(Finish::Stop, Usage::new(5, 5).as_estimate(), true);
        let steps = [TURN, estimated(), TURN, estimated()].map(|input| shown(&machine.step(input)));
        steps.concat().iter().filter(|effect| *effect == "warning").count()
    };
    assert_eq!((warnings(true), warnings(false)), (1, 0));
}

#[test]
fn a_call_that_is_cut_off_is_asked_for_once_more() {
    let cut = || reply_of(Finish::Length, Usage::default(), true);
    let mut machine =
        begun(agent_runtime::machine::Rules { corrections: Some(9), ..rules(json!({"id": "a"})) });
    machine.step(TURN);
    assert_eq!(shown(&machine.step(cut())).last().unwrap(), "grant");
    machine.step(TURN);
    let effects = shown(&machine.step(cut()));
    assert!(effects.last().unwrap().starts_with("finish"), "{effects:?}");
    // A reply that came to its end between them makes it a first time again.
    let mut machine =
        begun(agent_runtime::machine::Rules { corrections: Some(9), ..rules(json!({"id": "a"})) });
    machine.step(TURN);
    machine.step(cut());
    machine.step(TURN);
    machine.step(reply_of(Finish::Stop, Usage::default(), true));
    machine.step(TURN);
    assert_eq!(shown(&machine.step(cut())).last().unwrap(), "grant");
}
