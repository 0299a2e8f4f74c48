//! Attempts, timeouts and concurrent requests, on a clock that the test moves.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use agent_types::VirtualClock;
use futures::future::{Either, select};
use futures::{StreamExt, poll};
use llm_provider::{
    CallPolicy, GuardedModel, LlmError, LlmEvent, LlmProvider, LlmStream, ModelConfig, ProviderKind,
    ScriptedModel, Wait, complete,
};

use super::stub::{Answer, Stub};
use super::{ask, connect, entry, next, request, says, stops, virtual_clock};

fn patient(stub: &Stub, clock: &VirtualClock) -> GuardedModel {
    let config = ModelConfig {
        token_timeout_ms: Some(2_000),
        first_token_timeout_ms: Some(5_000),
        timeout_ms: Some(60_000),
        ..entry(ProviderKind::OpenAi, stub)
    };
    config.connect(Arc::new(clock.clone())).unwrap()
}

/// Waits for the next event, while the clock moves by `time` as soon as the stream waits.
async fn next_after(
    stream: &mut LlmStream,
    clock: &VirtualClock,
    time: Duration,
) -> Result<LlmEvent, LlmError> {
    let mut event = stream.next();
    assert!(poll!(&mut event).is_pending(), "nothing comes by itself");
    clock.advance(time);
    event.await.expect("the stream has another event")
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn a_busy_server_is_asked_again_when_it_said() {
    for (name, value, wait) in [
        ("retry-after", "7", seconds(7)),
        ("retry-after-ms", "250", Duration::from_millis(250)),
        ("retry-after", "Fri, 02 Jan 2026 03:04:15 GMT", seconds(10)),
    ] {
        let busy = Answer::status(429, r#"{"error": {"message": "slow down"}}"#).header(name, value);
        let stub = Stub::serve([busy, Answer::stream([says("ok"), stops()])]).await;
        let clock = virtual_clock();
        let mut stream = ask(&patient(&stub, &clock)).await;
        let error = LlmError::RateLimited { message: "slow down".into(), retry_after: Some(wait) };
        assert_eq!(next(&mut stream).await, Ok(LlmEvent::Retrying { attempt: 1, delay: wait, error }));
        assert!(poll!(stream.next()).is_pending());
        clock.advance(wait.checked_sub(Duration::from_millis(1)).unwrap());
        assert!(poll!(stream.next()).is_pending());
        assert_eq!(stub.seen().len(), 1, "it is not asked before");
        clock.advance(Duration::from_millis(1));
        assert_eq!(next(&mut stream).await, Ok(LlmEvent::Text("ok".into())));
        assert!(matches!(next(&mut stream).await, Ok(LlmEvent::Finished(_))));
        assert!(stream.next().await.is_none());
        assert_eq!(stub.seen().len(), 2);
    }
}

#[tokio::test]
async fn a_failing_server_is_asked_three_times_with_growing_waits() {
    let broken = Answer::status(500, r#"{"error": {"message": "it broke"}}"#);
    let stub = Stub::serve([broken.clone(), broken.clone(), broken]).await;
    let clock = virtual_clock();
    let mut stream = ask(&patient(&stub, &clock)).await;
    let mut event = next(&mut stream).await;
    for (attempt, longest) in [(1, 500), (2, 1_000)] {
        let Ok(LlmEvent::Retrying { attempt: emitted, delay, error }) = event else { panic!("{event:?}") };
        assert_eq!(emitted, attempt);
        let longest = Duration::from_millis(longest);
        assert!(delay <= longest && delay >= longest * 3 / 4, "{delay:?}");
        assert_eq!(error.code(), "provider_error");
        event = next_after(&mut stream, &clock, delay).await;
    }
    let error = event.unwrap_err();
    assert_eq!(error.to_string(), "the model's server answered with status 500: it broke");
    assert!(stream.next().await.is_none());
    assert_eq!(stub.seen().len(), 3);
}

#[tokio::test]
async fn what_waiting_does_not_mend_is_asked_once() {
    for (status, header, code) in
        [(401, "0", "authentication"), (400, "0", "provider_error"), (429, "3600", "rate_limited")]
    {
        let refusal = Answer::status(status, r#"{"error": {"message": "no"}}"#).header("retry-after", header);
        let stub = Stub::serve([refusal]).await;
        let error = complete(&connect(ProviderKind::OpenAi, &stub), request()).await.unwrap_err();
        assert_eq!((error.code(), stub.seen().len()), (code, 1));
    }
}

#[tokio::test]
async fn an_answer_that_has_begun_is_never_asked_for_again() {
    let stub = Stub::serve([Answer::stream([says("half")]).then_cut()]).await;
    let mut stream = ask(&connect(ProviderKind::OpenAi, &stub)).await;
    assert_eq!(next(&mut stream).await, Ok(LlmEvent::Text("half".into())));
    let error = next(&mut stream).await.unwrap_err();
    assert_eq!(error.code(), "disconnected", "{error}");
    assert!(stream.next().await.is_none());
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_answer_is_made_again() {
    let cut = Answer::stream([": one moment\n\n"]).then_cut();
    let stub = Stub::serve([cut, Answer::stream([says("ok"), stops()])]).await;
    let clock = virtual_clock();
    let mut stream = ask(&patient(&stub, &clock)).await;
    assert_eq!(next(&mut stream).await, Ok(LlmEvent::Heartbeat));
    let event = next(&mut stream).await;
    let Ok(LlmEvent::Retrying { attempt: 1, delay, error }) = event else { panic!("{event:?}") };
    assert_eq!(error.code(), "disconnected", "{error}");
    assert_eq!(next_after(&mut stream, &clock, delay).await, Ok(LlmEvent::Text("ok".into())));
}

#[tokio::test]
async fn a_slow_first_token_runs_into_its_limit() {
    let stub = Stub::serve([Answer::stream([": one moment\n\n"]).then_stalls()]).await;
    let clock = virtual_clock();
    let mut stream = ask(&patient(&stub, &clock)).await;
    {
        let asked = std::pin::pin!(stub.asked());
        let Either::Right(_) = select(stream.next(), asked).await else { panic!("an answer") };
    }
    clock.advance(seconds(4));
    assert!(poll!(stream.next()).is_pending());
    clock.advance(seconds(1));
    let error = next(&mut stream).await.unwrap_err();
    assert_eq!(error, LlmError::Timeout { wait: Wait::First, limit: seconds(5) });
    assert_eq!(error.to_string(), "no first token within 5000 ms");
    assert!(stream.next().await.is_none());
    stub.closed().await;
}

#[tokio::test]
async fn a_stalled_stream_runs_into_its_limit() {
    let stub = Stub::serve([Answer::stream([says("half")]).then_stalls()]).await;
    let clock = virtual_clock();
    let mut stream = ask(&patient(&stub, &clock)).await;
    assert_eq!(next(&mut stream).await, Ok(LlmEvent::Text("half".into())));
    let error = next_after(&mut stream, &clock, seconds(2)).await.unwrap_err();
    assert_eq!(error, LlmError::Timeout { wait: Wait::Next, limit: seconds(2) });
    stub.closed().await;
}

#[tokio::test]
async fn an_answer_without_end_runs_into_its_limit() {
    let pieces: Vec<String> = (0..100).map(|_| says("on and on ")).collect();
    let stub = Stub::serve([Answer::stream(pieces).then_stalls()]).await;
    let clock = virtual_clock();
    let mut stream = ask(&patient(&stub, &clock)).await;
    for _ in 0..60 {
        assert!(matches!(next(&mut stream).await, Ok(LlmEvent::Text(_))));
        clock.advance(seconds(1));
    }
    let error = loop {
        match next(&mut stream).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error, LlmError::Timeout { wait: Wait::Whole, limit: seconds(60) });
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let stub = Stub::serve([Answer::stream([says("half")]).then_stalls()]).await;
    let mut stream = ask(&connect(ProviderKind::OpenAi, &stub)).await;
    assert_eq!(next(&mut stream).await, Ok(LlmEvent::Text("half".into())));
    drop(stream);
    stub.closed().await;
}

#[tokio::test]
async fn requests_beyond_the_limit_wait_in_order_and_give_their_place_back() {
    let stalls = Answer::stream([says("first")]).then_stalls();
    let rest = ["second", "third"].map(|text| Answer::stream([says(text), stops()]));
    let stub = Stub::serve([stalls].into_iter().chain(rest)).await;
    let config = ModelConfig { max_parallel: NonZeroU32::new(1), ..entry(ProviderKind::OpenAi, &stub) };
    let model = config.connect(Arc::new(virtual_clock())).unwrap();
    let mut first = ask(&model).await;
    assert_eq!(next(&mut first).await, Ok(LlmEvent::Text("first".into())));
    // One that gives up while it waits takes no permit.
    let mut given_up = ask(&model).await;
    assert!(poll!(given_up.next()).is_pending());
    let (mut second, mut third) = (ask(&model).await, ask(&model).await);
    assert!(poll!(second.next()).is_pending());
    assert!(poll!(third.next()).is_pending());
    drop(given_up);
    assert_eq!(stub.seen().len(), 1);
    drop(first);
    let texts = futures::join!(next(&mut third), async {
        let text = next(&mut second).await;
        let Ok(LlmEvent::Finished(_)) = next(&mut second).await else { panic!("an end") };
        text
    });
    let said = |text: &str| Ok(LlmEvent::Text(text.into()));
    assert_eq!(texts, (said("third"), said("second")));
}

#[tokio::test]
async fn a_script_fails_hangs_and_is_asked_again_in_no_time() {
    let clock = virtual_clock();
    let model = ScriptedModel::from_jsonl(
        "{\"error\": {\"status\": 429, \"retry_after_ms\": 500}}\n{\"text\": \"ok\"}\n{\"hang\": true}\n{\"error\": {\"status\": 503}}",
    );
    let model = Arc::new(model.unwrap().with_clock(Arc::new(clock.clone())));
    let model = GuardedModel::new(model, CallPolicy::default(), Arc::new(clock.clone()));
    let mut stream = ask(&model).await;
    let Ok(LlmEvent::Retrying { delay, .. }) = next(&mut stream).await else { panic!("a retry") };
    assert_eq!(delay, Duration::from_millis(500));
    assert_eq!(next_after(&mut stream, &clock, delay).await, Ok(LlmEvent::Text("ok".into())));

    let mut stream = ask(&model).await;
    let error = next_after(&mut stream, &clock, seconds(120)).await.unwrap_err();
    assert_eq!(error.code(), "timeout", "{error}");

    // A script that ends with an error means that error.
    let mut stream = ask(&model).await;
    let Ok(LlmEvent::Retrying { delay, .. }) = next(&mut stream).await else { panic!("a retry") };
    let error = next_after(&mut stream, &clock, delay).await.unwrap_err();
    assert!(matches!(error, LlmError::Status { status: 503, .. }), "{error}");
    assert_eq!(model.info().name, "scripted");
}
