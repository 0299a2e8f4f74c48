//! Laws over what a driver may deliver, in any order.

use std::collections::{BTreeMap, VecDeque};

use agent_runtime::Exchange;
use agent_runtime::machine::{
    AgentMachine, CallFacts, CallOrder, CallResult, Effect, End, Grant, Input, Judgement, NoReply, Past,
    PendingInner, Review, Verdict,
};
use agent_types::{AskKind, AskSummary, BudgetExceeded, BudgetKey, EventBody, ExitReason, ToolStatus};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;

use crate::common::{ASKS, CHANGES, READS, begun, faulty, reply, result, rules};

/// A call, and what becomes of it.
#[derive(Debug, Clone)]
struct Fate {
    facts: CallFacts,
    review: Review,
    ends: Ends,
}

/// End of a call.
#[derive(Debug, Clone, Copy)]
enum Ends {
    Well,
    Refused,
    Waiting,
    Fatal,
    OverLimit,
    WithValue,
}

/// Turn of the model.
#[derive(Debug, Clone)]
enum Says {
    Text,
    Faulty,
    Calls(Vec<Fate>),
    Nothing(NoReply),
}

fn fate() -> impl Strategy<Value = Fate> {
    let facts = prop_oneof![Just(READS), Just(CHANGES), Just(ASKS)];
    let verdict = prop_oneof![
        4 => Just(None),
        1 => Just(Some(Verdict::Approve)),
        1 => Just(Some(Verdict::Deny("no".into()))),
        1 => Just(Some(Verdict::BadEdit("n".into()))),
        1 => Just(Some(Verdict::Edit(json!({"n": 0}).as_object().unwrap().clone().into()))),
    ];
    let lost = |outcome: Option<&str>| Past::Interrupted {
        ask: "q".to_owned(),
        outcome: outcome.map(serde_json::Value::from),
    };
    let past = prop_oneof![
        8 => Just(Past::None),
        1 => Just(Past::Ended),
        1 => Just(lost(None)),
        1 => Just(lost(Some("skip"))),
        1 => Just(lost(Some("retry"))),
    ];
    let blocked = prop_oneof![6 => Just(None), 1 => Just(Some("blocked".to_owned()))];
    let review = (blocked, verdict, past).prop_map(|(blocked, verdict, past)| Review {
        blocked,
        verdict,
        past,
        ..Review::default()
    });
    let ends = prop_oneof![
        8 => Just(Ends::Well),
        2 => Just(Ends::Refused),
        1 => Just(Ends::Waiting),
        1 => Just(Ends::Fatal),
        1 => Just(Ends::OverLimit),
        1 => Just(Ends::WithValue),
    ];
    (facts, review, ends).prop_map(|(facts, review, ends)| Fate { facts, review, ends })
}

fn says() -> impl Strategy<Value = Says> {
    prop_oneof![
        1 => Just(Says::Text),
        1 => Just(Says::Faulty),
        6 => proptest::collection::vec(fate(), 1..14).prop_map(Says::Calls),
        1 => prop_oneof![Just(NoReply::Cancelled), Just(NoReply::Waiting(Vec::new()))].prop_map(Says::Nothing),
    ]
}

/// A driver that performs effects in any order that a real one may.
struct Driver {
    machine: AgentMachine,
    script: VecDeque<Says>,
    /// Fates of the calls of the turn, and the number of the first one.
    fates: Vec<Fate>,
    first: usize,
    calls: usize,
    running: Vec<CallOrder>,
    choices: VecDeque<Index>,
    cancel_at: usize,
    steps: usize,
    observed: BTreeMap<String, usize>,
    /// The last turn has no reply.
    is_unanswered: bool,
    end: Option<End>,
}

impl Driver {
    fn run(mut self) -> Self {
        let mut effects = VecDeque::from([Effect::Grant]);
        loop {
            let effect = effects.pop_front();
            let input = match effect {
                Some(effect) => self.perform(effect),
                None if self.running.is_empty() => return self,
                None => Some(self.next_result()),
            };
            self.steps += 1;
            assert!(self.steps < 10_000, "the run ends");
            if self.steps == self.cancel_at {
                effects.extend(self.step(Input::Cancelled));
            }
            if let Some(input) = input {
                effects.extend(self.step(input));
            }
        }
    }

    /// Steps the machine, and the machine read back: both do the same.
    fn step(&mut self, input: Input) -> Vec<Effect> {
        let text = serde_json::to_string(&self.machine).unwrap();
        let mut restored: AgentMachine = serde_json::from_str(&text).unwrap();
        assert_eq!(restored, self.machine);
        let effects = self.machine.step(input.clone());
        assert_eq!(restored.step(input), effects);
        assert_eq!(restored, self.machine);
        effects
    }

    fn perform(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Emit(emission) => {
                if let (EventBody::AgentObservation { .. }, agent_runtime::machine::At::Call(call)) =
                    (&emission.event, &emission.at)
                {
                    *self.observed.entry(call.to_string()).or_default() += 1;
                }
                None
            }
            Effect::Admit(_) => Some(Input::Admitted(None)),
            Effect::Grant => Some(Input::Granted(Grant::Turn { is_last: self.script.len() == 1 })),
            Effect::Ask { .. } => Some(self.reply()),
            Effect::Review(calls) => {
                let reviews = calls.iter().map(|call| self.fates[call.call.index].review.clone());
                Some(Input::Reviewed(reviews.collect()))
            }
            Effect::Call(order) => {
                self.running.push(*order);
                None
            }
            Effect::Judge(_) => Some(Input::Judged(Judgement::Accepted(None))),
            Effect::Wake => Some(Input::Woken(Vec::new())),
            Effect::Finish(end) => {
                assert!(self.running.is_empty(), "no call runs behind the end");
                self.end = Some(*end);
                None
            }
            Effect::OpenTurn(_) | Effect::CloseTurn { .. } | Effect::CancelCalls => None,
        }
    }

    fn reply(&mut self) -> Input {
        match self.script.pop_front() {
            None | Some(Says::Text) => reply("Done.", 1, &[]),
            Some(Says::Faulty) => faulty(),
            Some(Says::Nothing(none)) => {
                self.is_unanswered = true;
                Input::Unanswered(none)
            }
            Some(Says::Calls(fates)) => {
                let facts: Vec<CallFacts> = fates.iter().map(|fate| fate.facts).collect();
                self.first = self.calls + 1;
                self.calls += facts.len();
                self.fates = fates;
                reply("", self.first, &facts)
            }
        }
    }

    /// Ends one of the calls under way, whichever is chosen.
    fn next_result(&mut self) -> Input {
        let chosen = self.choices.pop_front().map_or(0, |choice| choice.index(self.running.len()));
        let order = self.running.remove(chosen);
        let index = order.call.call.index;
        let result = result(self.first, index, &format!("result {index}"));
        let end = |end: End| CallResult { end: Some(end), ..result.clone() };
        Input::Called(Box::new(match self.fates[index].ends {
            Ends::Well => result,
            Ends::Refused => CallResult { status: ToolStatus::Refused, ..result },
            Ends::Fatal => end(End::fatal(&order.call.call.tool, "no".into())),
            Ends::OverLimit => {
                let key = BudgetKey::ToolCalls;
                end(End::budget_exceeded(BudgetExceeded { key, limit: 1, used: 1 }))
            }
            Ends::WithValue => CallResult { value: Some(json!(index)), ..result },
            Ends::Waiting => {
                let ask = AskSummary {
                    ask: "q".into(),
                    kind: AskKind::Question,
                    tool: None,
                    arguments: None,
                    path: None,
                    prompt: None,
                    definition: agent_types::DefinitionDigests::new(),
                };
                let waits = PendingInner { exit: ExitReason::AwaitingResult, asks: vec![ask] };
                CallResult { waits: Some(waits), ..result }
            }
        }))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_call_has_one_result(
        script in proptest::collection::vec(says(), 1..6),
        choices in proptest::collection::vec(any::<Index>(), 0..40),
        cancel_at in prop_oneof![Just(usize::MAX), 0_usize..60],
        final_answer in any::<bool>(),
    ) {
        let on_limit = if final_answer { "final_answer" } else { "stop" };
        let driver = Driver {
            machine: begun(rules(json!({"id": "a", "on_limit": on_limit}))),
            script: script.into(),
            fates: Vec::new(),
            first: 1,
            calls: 0,
            running: Vec::new(),
            choices: choices.into(),
            cancel_at,
            steps: 0,
            observed: BTreeMap::new(),
            is_unanswered: false,
            end: None,
        };
        let driver = driver.run();
        let end = driver.end.unwrap();
        let history = driver.machine.conversation().history();
        for (number, exchange) in history.iter().enumerate() {
            let Exchange::Turn(turn) = exchange else { continue };
            let is_open = end.is_within_turn && !driver.is_unanswered && number + 1 == history.len();
            for call in turn.calls.iter().filter(|_| !is_open) {
                prop_assert!(call.observation.is_some(), "{call:?} has a result");
                prop_assert_eq!(driver.observed.get(call.id.as_str()), Some(&1), "{:?} is observed once", call);
            }
            for call in turn.calls.iter().filter(|_| is_open) {
                prop_assert_eq!(driver.observed.get(call.id.as_str()), None, "{:?} is not observed yet", call);
            }
        }
    }
}
