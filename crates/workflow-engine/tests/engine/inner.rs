//! Work that a node reports: it resumes where it was, and what it started has an end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agent_types::{
    AskKind, CallId, EventBody, EventLocation, EventPersister, ReplayData, ToolStatus, UnsequencedEvent,
};
use serde_json::{Value, json};
use workflow_engine::{NodeContext, NodeError, Outputs, Plan, Question, RunOptions};
use workflow_model::NoWorkflows;

use crate::common::{catalog, flow, run_with};
use crate::persister::Log;
use crate::resume::{check, options, run};

const CALLS: u64 = 3;

fn finished(ms: u64) -> EventBody {
    let tool = "t".parse().unwrap();
    EventBody::AgentToolFinished {
        tool,
        status: ToolStatus::Ok,
        summary: String::new(),
        blob: None,
        ms,
        error: None,
    }
}

/// Three calls one after the other, each done once in all lives of the run, and a question behind the first if it wants
/// one, or one before each call, whose answer is its value.
pub(crate) async fn calls(ctx: &NodeContext) -> Result<Outputs, NodeError> {
    let asks = ctx.config("ask").is_some_and(|ask| *ask == json!(true));
    let asks_each = ctx.config("ask").is_some_and(|ask| *ask == json!("each"));
    let sink = ctx.sink();
    let mut results = Vec::new();
    for number in 0..CALLS {
        let call = CallId::new(format!("{}.{number}", ctx.path()));
        let known = ctx.past().iter().find(|kept| {
            kept.event.place.call.as_ref() == Some(&call)
                && matches!(kept.event.body, EventBody::AgentToolFinished { .. })
        });
        if let Some(known) = known {
            let record = known.record.as_ref().unwrap();
            results.push((*record.values[0].1).clone());
            continue;
        }
        let place = EventLocation {
            call: Some(call),
            span: sink.new_span(),
            parent: Some(ctx.place().span),
            ..ctx.place()
        };
        let tool: agent_types::ToolId = "t".parse().unwrap();
        let emit =
            |body, record| sink.record(&mut vec![UnsequencedEvent { place: place.clone(), body, record }]);
        emit(EventBody::AgentToolChosen { tool: tool.clone(), reason: None }, None);
        if asks && number == 1 {
            let arguments = json!({"n": number}).as_object().cloned().unwrap_or_default();
            ctx.ask_all([Question::new("may it?").about(
                AskKind::Approval,
                tool.clone(),
                Arc::new(arguments),
            )])
            .await?;
        }
        let mut value = json!(number);
        if asks_each {
            let question = Question::new(format!("what is {number}?")).named(format!("call {number}"));
            value = ctx.ask_all([question]).await?.remove(0);
        }
        emit(EventBody::AgentToolStarted { tool }, None);
        if let Some(durable) = sink.persister().map(EventPersister::durable) {
            durable.await.unwrap();
        }
        ctx.sleep(Duration::from_millis(2)).await;
        let record = ReplayData::from_values(vec![("value".into(), Arc::new(value.clone()))]);
        emit(finished(2), Some(Box::new(record)));
        results.push(value);
    }
    Ok(Outputs::value(results))
}

#[test]
fn work_inside_a_node_goes_on_where_it_was() {
    let zone = json!({"configValues": {"mode": "times", "times": 3, "collect": ["v"]}});
    let workflow = flow(
        &[
            ("c", "calls", json!({})),
            ("Z", "core:LoopZone", zone),
            ("zc", "calls", json!({"parentNode": "Z"})),
            ("zo", "core:GroupOutput", json!({"parentNode": "Z"})),
        ],
        &["zc.out -> zo.v"],
        &[("c", "c.out"), ("z", "Z.collected.v")],
    );
    check(&workflow, &options());
    let plan = Plan::new(&workflow, &catalog(), &NoWorkflows).unwrap();
    let whole = Arc::new(Log::default());
    run(&plan, &whole, None, options());
    let length = whole.state().events.len();
    for upto in 1..length {
        let (left, resume) = whole.cut(upto, true);
        let at_work = open_calls(&left);
        run(&plan, &left, Some(resume), options());
        let mut starts: BTreeMap<String, usize> = BTreeMap::new();
        for kept in &left.state().events {
            if let (EventBody::AgentToolStarted { .. }, Some(call)) =
                (&kept.event.body, &kept.event.place.call)
            {
                *starts.entry(call.to_string()).or_default() += 1;
            }
        }
        for (call, count) in starts {
            let may = if at_work.contains(&call) { 2 } else { 1 };
            assert!(count <= may, "cut at {upto}: {call} ran {count} times");
        }
    }
}

fn open_calls(log: &Log) -> Vec<String> {
    let mut open = Vec::new();
    for kept in &log.state().events {
        let Some(call) = &kept.event.place.call else { continue };
        match &kept.event.body {
            EventBody::AgentToolStarted { .. } => open.push(call.to_string()),
            EventBody::AgentToolFinished { .. } => open.retain(|own| *own != call.to_string()),
            _ => {}
        }
    }
    open
}

#[test]
fn a_question_about_a_call_lasts_with_its_arguments() {
    let workflow = flow(&[("c", "calls", json!({"ask": true}))], &[], &[("c", "c.out")]);
    check(&workflow, &options());
    let plan = Plan::new(&workflow, &catalog(), &NoWorkflows).unwrap();
    let log = Arc::new(Log::default());
    run(&plan, &log, None, options());
    let length = log.state().events.len();
    let (left, mut resume) = log.cut(length, false);
    let outcome = run(&plan, &left, Some(resume.clone()), options());
    assert_eq!(outcome.asks[0].tool.as_ref().map(ToString::to_string).as_deref(), Some("t"));
    assert_eq!(outcome.asks[0].arguments.as_deref().map(|map| map["n"].clone()), Some(json!(1)));
    resume.answers.insert("c".into(), json!({"approve": true}));
    let (left, _) = log.cut(length, false);
    let outcome = run(&plan, &left, Some(resume), options());
    assert_eq!(Value::Object(outcome.outputs), json!({"c": [0, 1, 2]}));
    let started =
        |kept: &&agent_types::StoredEvent| matches!(kept.event.body, EventBody::AgentToolStarted { .. });
    assert_eq!(left.state().events.iter().filter(started).count(), 3, "none of them twice");
}

#[test]
fn what_was_started_inside_a_node_has_an_end() {
    for config in [
        json!({"timeoutMs": 3, "onError": "skip"}),
        json!({"timeoutMs": 3, "retry": {"max": 1}, "onError": "skip"}),
    ] {
        let workflow = flow(&[("c", "calls", config)], &[], &[("c", "c.out")]);
        let seen = run_with(&workflow, json!({}), RunOptions::new());
        let count = |name: &str| seen.lines().iter().filter(|line| line.starts_with(name)).count();
        assert_eq!(count("agent.tool.started"), count("agent.tool.finished"), "{:#?}", seen.lines());
        assert!(count("agent.tool.started") >= 2);
    }
}
