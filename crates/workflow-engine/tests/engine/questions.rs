//! Each question of a node has its own answer, over resumes, cuts, retries and checkpoints.

use std::sync::Arc;

use agent_types::{EventBody, EventPersister, RunStatus};
use serde_json::{Value, json};
use workflow_engine::{NodeContext, NodeError, Outputs, Plan, RunOutcome};
use workflow_model::{NoWorkflows, Workflow};

use crate::common::{catalog, flow};
use crate::persister::Log;
use crate::resume::{options, run};

/// Asks twice in one call; fails between the two where its first answer is `again`.
pub(crate) async fn ask_twice(ctx: &NodeContext) -> Result<Outputs, NodeError> {
    let first = ctx.ask("first?").await?;
    if first == json!("again") {
        return Err(NodeError::new("once more"));
    }
    let second = ctx.ask("second?").await?;
    Ok(Outputs::value(vec![first, second]))
}

/// Resumes a run in another process for each answer, and then cuts it behind each event.
fn check(workflow: &Workflow, answers: &[Value], wanted: &Value) {
    let plan = Plan::new(workflow, &catalog(), &NoWorkflows).unwrap_or_else(|error| panic!("{error}"));
    for with_snapshot in [false, true] {
        let (log, outcome) = answered(&plan, Arc::new(Log::default()), answers, with_snapshot);
        assert_eq!(outcome.status, RunStatus::Ok, "{:?} {:?}", outcome.error, log.state());
        assert_eq!(Value::Object(outcome.outputs), *wanted, "{:?}", log.state());
        let length = log.state().events.len();
        for upto in 1..length {
            let (left, resume) = log.cut(upto, with_snapshot);
            let outcome = run(&plan, &left, Some(resume), options());
            assert_eq!(outcome.status, RunStatus::Ok, "cut at {upto}: {:?} {:?}", outcome.asks, left.state());
            assert_eq!(Value::Object(outcome.outputs), *wanted, "cut at {upto}: {:?}", left.state());
        }
    }
}

/// Runs a plan to its end: each answer is given to the first open question, and taken by another process.
fn answered(plan: &Plan, log: Arc<Log>, answers: &[Value], with_snapshot: bool) -> (Arc<Log>, RunOutcome) {
    let mut log = log;
    let mut asked: Vec<Arc<str>> = Vec::new();
    let resumed = |log: &Log| {
        let length = log.state().events.len();
        log.cut(length, with_snapshot)
    };
    let mut outcome = if log.state().events.is_empty() {
        run(plan, &log, None, options())
    } else {
        let (left, resume) = resumed(&log);
        log = left;
        run(plan, &log, Some(resume), options())
    };
    for answer in answers {
        let ask = Arc::clone(&outcome.asks.first().unwrap_or_else(|| panic!("{:?}", log.state())).ask);
        assert!(!asked.contains(&ask), "{ask} is asked twice");
        log.answered(&ask, answer);
        asked.push(ask);
        let (left, resume) = resumed(&log);
        outcome = run(plan, &left, Some(resume), options());
        log = left;
    }
    (log, outcome)
}

#[test]
fn two_questions_in_one_call_have_two_answers() {
    let workflow = flow(&[("q", "asks", json!({}))], &[], &[("q", "q.out")]);
    check(&workflow, &[json!("a"), json!("b")], &json!({"q": ["a", "b"]}));
}

#[test]
fn a_node_that_does_not_repeat_its_first_question_is_given_the_answer_of_its_second() {
    let workflow = flow(&[("c", "calls", json!({"ask": "each"}))], &[], &[("c", "c.out")]);
    check(&workflow, &[json!("a"), json!("b"), json!("c")], &json!({"c": ["a", "b", "c"]}));
}

#[test]
fn an_answer_to_a_question_that_an_earlier_version_recorded_without_its_name_is_taken() {
    let workflow = flow(&[("c", "calls", json!({"ask": "each"}))], &[], &[("c", "c.out")]);
    let plan = Plan::new(&workflow, &catalog(), &NoWorkflows).unwrap();
    let whole = Arc::new(Log::default());
    let outcome = run(&plan, &whole, None, options());
    let first = Arc::clone(&outcome.asks[0].ask);
    whole.answered(&first, &json!("a"));
    let length = whole.state().events.len();
    let (left, mut resume) = whole.cut(length, false);
    for kept in left.state().events.iter_mut().chain(&mut resume.events) {
        if let Some(record) = &mut kept.record {
            record.values.retain(|(name, _)| **name != *"name");
        }
    }
    let outcome = run(&plan, &left, Some(resume), options());
    assert_ne!(outcome.asks[0].ask, first, "it is not asked again");
    let (log, outcome) = answered(&plan, left, &[json!("b"), json!("c")], false);
    assert_eq!(Value::Object(outcome.outputs), json!({"c": ["a", "b", "c"]}), "{:?}", log.state());
}

#[test]
fn a_further_attempt_asks_anew() {
    let config = json!({"retry": {"max": 2}});
    let workflow = flow(&[("q", "asks", config)], &[], &[("q", "q.out")]);
    let answers = [json!("again"), json!("again"), json!("a"), json!("b")];
    check(&workflow, &answers, &json!({"q": ["a", "b"]}));
}

#[test]
fn a_further_attempt_of_a_zone_asks_anew() {
    let zone = json!({"configValues": {"mode": "times", "times": 2, "collect": ["v"]}, "retry": {"max": 2}});
    let workflow = flow(
        &[
            ("Z", "core:LoopZone", zone),
            ("zq", "asks", json!({"parentNode": "Z"})),
            ("zo", "core:GroupOutput", json!({"parentNode": "Z"})),
        ],
        &["zq.out -> zo.v"],
        &[("z", "Z.collected.v")],
    );
    let answers = ["a", "b", "again", "c", "d", "e", "f"].map(|answer| json!(answer));
    check(&workflow, &answers, &json!({"z": [["c", "d"], ["e", "f"]]}));
}

#[test]
fn the_question_about_an_effect_is_not_a_question_of_the_node() {
    let workflow = flow(&[("q", "asks", json!({"effect": true}))], &[], &[("q", "q.out")]);
    let plan = Plan::new(&workflow, &catalog(), &NoWorkflows).unwrap();
    for with_snapshot in [false, true] {
        let whole = Arc::new(Log::default());
        run(&plan, &whole, None, options());
        let start = whole.state().events.iter().position(|kept| {
            matches!(&kept.event.body, EventBody::NodeStarted { .. })
                && kept.event.place.path.as_deref() == Some("q")
        });
        let (left, _) = whole.cut(start.unwrap() + 1, with_snapshot);
        let answers = [json!("retry"), json!("a"), json!("b")];
        let (log, outcome) = answered(&plan, left, &answers, with_snapshot);
        assert_eq!(Value::Object(outcome.outputs), json!({"q": ["a", "b"]}), "{:?}", log.state());
    }
}
