//! The baseline by hand: a tokio task a node, joined by the one loop that counts down what each waits for.

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::shape::Shape;

/// A shape ready to run.
#[derive(Debug, Clone)]
pub(crate) struct Spawned {
    after: Vec<Vec<usize>>,
    waits_for: Vec<usize>,
}

impl Spawned {
    pub(crate) fn new(shape: &Shape) -> Self {
        Self { after: shape.successors(), waits_for: shape.sources().iter().map(Vec::len).collect() }
    }

    /// Runs every node; their number. Nothing is handed on, recorded or checked.
    pub(crate) async fn run(self: std::sync::Arc<Self>) -> usize {
        let mut waits_for = self.waits_for.clone();
        let mut tasks = JoinSet::new();
        let first = (0..waits_for.len()).filter(|&at| waits_for[at] == 0);
        first.for_each(|at| drop(tasks.spawn(async move { at })));
        let mut done = 0;
        while let Some(Ok(at)) = tasks.join_next().await {
            done += 1;
            for &next in &self.after[at] {
                waits_for[next] -= 1;
                if waits_for[next] == 0 {
                    tasks.spawn(async move { next });
                }
            }
        }
        done
    }
}

/// Chunks over three tasks in batches of 64, over channels that hold four batches; the number that arrived.
pub(crate) async fn batched_stream(chunks: usize) -> usize {
    const BATCH: usize = 64;
    let (to_tap, mut from_source) = mpsc::channel::<Vec<std::sync::Arc<str>>>(4);
    let (to_sink, mut from_tap) = mpsc::channel(4);
    let mut stages = JoinSet::new();
    stages.spawn(async move {
        for start in (0..chunks).step_by(BATCH) {
            let batch = (start..chunks.min(start + BATCH)).map(|_| "token ".into()).collect();
            if to_tap.send(batch).await.is_err() {
                break;
            }
        }
        0
    });
    stages.spawn(async move {
        while let Some(batch) = from_source.recv().await {
            if to_sink.send(batch.into_iter().collect::<Vec<_>>()).await.is_err() {
                break;
            }
        }
        0
    });
    stages.spawn(async move {
        let mut arrived = 0;
        while let Some(batch) = from_tap.recv().await {
            arrived += std::hint::black_box(batch).len();
        }
        arrived
    });
    stages.join_all().await.into_iter().sum()
}

/// Passes of two tasks, one after the other.
pub(crate) async fn passes(number: usize) -> usize {
    let mut value = 0;
    for index in 0..number {
        for _ in 0..2 {
            let mut tasks = JoinSet::new();
            tasks.spawn(async move { index });
            value = tasks.join_next().await.and_then(Result::ok).unwrap_or_default();
        }
    }
    value + 1
}
