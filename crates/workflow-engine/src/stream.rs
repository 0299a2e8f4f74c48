//! Text that goes from node to node piece by piece.
//!
//! A stream is a ring of at most 64 chunks. The run reads it first, so that every chunk is an event before any node
//! sees it; nodes read what the run has seen. A slow reader holds the writer back. A reader that has not started
//! does not: it gets what it missed as one chunk. Nor does one whose node waits for another stream just now, or two
//! streams of one node could wait for each other for ever: what it has not read is kept for it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

/// Chunks that wait in a stream before its writer must wait.
const CAPACITY: usize = 64;

/// Item that a reader receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamItem {
    /// The next piece of text.
    Chunk(Arc<str>),
    /// Something beside the text, such as why a model stopped. It is not part of the joined text.
    Mark(Arc<str>),
    /// The attempt that wrote all so far has failed: forget it, another one begins.
    Retracted,
}

#[derive(Debug, Default)]
struct State {
    /// Chunks that at least one reader has not read, with the attempt that wrote each.
    chunks: VecDeque<(u32, StreamItem)>,
    /// Number of the first chunk held.
    first: u64,
    /// Up to where the run has seen, as a number.
    seen: u64,
    ended: bool,
    /// Readers that have started: the number of the chunk each reads next.
    readers: Vec<Option<Position>>,
    /// Readers that have not started yet.
    expected: u32,
    /// Text of the current attempt, kept while a reader may need it as a whole.
    joined: Option<String>,
    /// Length of the part of `joined` that is older than the first chunk held.
    forgotten: usize,
    writer: Option<Waker>,
    noticed: bool,
}

#[derive(Debug)]
struct Position {
    next: u64,
    waker: Option<Waker>,
    reading: Option<Arc<Reading>>,
}

impl Position {
    /// Returns `true` if its node will read on without waiting for another stream.
    fn holds_back(&self) -> bool {
        let waits = self.reading.as_ref().is_some_and(|reading| reading.waits.load(Ordering::Acquire));
        !waits || self.waker.is_some()
    }
}

/// The streams that one start of a node reads, where there are several.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// The node waits for one of them.
    waits: AtomicBool,
    streams: Mutex<Vec<Weak<Stream>>>,
}

impl Reading {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Stream>>> {
        // Nothing that can panic runs under this lock.
        self.streams.lock()
    }

    /// The node waits: the writers of its other streams are not held back by it meanwhile.
    fn wait(&self) {
        if self.waits.swap(true, Ordering::AcqRel) {
            return;
        }
        let streams = self.lock().clone();
        for stream in streams.iter().filter_map(Weak::upgrade) {
            let writer = stream.lock().wake_writer().next();
            writer.into_iter().for_each(Waker::wake);
        }
    }
}

/// A stream of one start of a node.
#[derive(Debug)]
pub(crate) struct Stream {
    state: Mutex<State>,
    /// Number of the first chunk of the current attempt; changes under the lock only.
    began: AtomicU64,
    /// The whole text is taken at the end.
    joined: bool,
}

/// Item that the run takes from a stream, with the attempt that wrote it.
pub(crate) type Seen = (u32, StreamItem);

impl Stream {
    pub(crate) fn new(expected_readers: u32, joined: bool) -> Arc<Self> {
        let keeps = joined || expected_readers > 0;
        let state = State { expected: expected_readers, joined: keeps.then(String::new), ..State::default() };
        Arc::new(Self { state: Mutex::new(state), began: AtomicU64::new(0), joined })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.state.lock()
    }

    /// Adds a chunk as soon as there is capacity; `true` if the run must be notified.
    pub(crate) async fn push(&self, attempt: u32, item: StreamItem) -> bool {
        let mut item = Some(item);
        poll_fn(|cx| self.poll_push(cx, attempt, &mut item)).await
    }

    fn poll_push(&self, cx: &Context<'_>, attempt: u32, item: &mut Option<StreamItem>) -> Poll<bool> {
        let mut state = self.lock();
        if state.lacks_room() {
            state.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if let Some(item) = item.take() {
            state.append(attempt, item);
        }
        Poll::Ready(!std::mem::replace(&mut state.noticed, true))
    }

    /// Returns `true` if its writer may continue. If not, the waker is woken once it may.
    pub(crate) fn has_room(&self, waker: impl FnOnce() -> Waker) -> bool {
        let mut state = self.lock();
        let has_room = !state.lacks_room();
        state.writer = (!has_room).then(waker);
        has_room
    }

    /// Adds a chunk without waiting; for the run itself.
    pub(crate) fn push_now(&self, text: Arc<str>) {
        self.lock().append(1, StreamItem::Chunk(text));
    }

    /// Returns the items that are new to the run; from now on nodes may read them.
    pub(crate) fn see(&self, seen: &mut Vec<Seen>) {
        let mut state = self.lock();
        state.noticed = false;
        let from = usize::try_from(state.seen - state.first).unwrap_or(usize::MAX);
        seen.extend(state.chunks.iter().skip(from).cloned());
        state.seen = state.first + state.chunks.len() as u64;
        state.make_room();
        let wakers = state.wake_all();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The attempt has failed: readers forget what it wrote.
    pub(crate) fn retract(&self) {
        let mut state = self.lock();
        let began = state.first + state.chunks.len() as u64;
        self.began.store(began, Ordering::Release);
        state.seen = began;
        state.forgotten = 0;
        if let Some(joined) = &mut state.joined {
            joined.clear();
        }
        state.first = began;
        state.chunks.clear();
        let wakers = state.wake_all();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Returns `true` if more items may follow.
    pub(crate) fn is_open(&self) -> bool {
        !self.lock().ended
    }

    /// Nothing follows. The run has seen everything.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        let wakers = state.wake_all();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Returns all text of the last attempt, if a reader takes it as a whole.
    pub(crate) fn text(&self) -> Option<String> {
        self.joined.then(|| self.lock().joined.clone()).flatten()
    }

    /// A reader that begins with the first chunk.
    pub(crate) fn reader(self: &Arc<Self>, reading: Option<&Arc<Reading>>) -> StreamReader {
        if let Some(reading) = reading {
            reading.lock().push(Arc::downgrade(self));
        }
        let mut state = self.lock();
        state.expected = state.expected.saturating_sub(1);
        let missed = match &state.joined {
            Some(joined) if state.forgotten > 0 => Some(StreamItem::Chunk(joined[..state.forgotten].into())),
            Some(_) | None => None,
        };
        let place = state.readers.len();
        let next = state.first;
        state.readers.push(Some(Position { next, waker: None, reading: reading.cloned() }));
        if state.expected == 0 && !self.joined {
            state.joined = None;
            state.forgotten = 0;
        }
        drop(state);
        StreamReader {
            source: Some((Arc::clone(self), place)),
            held: missed.into_iter().collect(),
            began: None,
            alone: reading.is_none(),
        }
    }
}

impl State {
    fn append(&mut self, attempt: u32, item: StreamItem) {
        if let (Some(joined), StreamItem::Chunk(text)) = (&mut self.joined, &item) {
            joined.push_str(text);
        }
        self.chunks.push_back((attempt, item));
    }

    /// Returns `true` if no reader is left but one that has started.
    fn has_one_reader(&self) -> bool {
        self.expected == 0 && self.readers.iter().flatten().count() == 1
    }

    /// Moves the first chunks out of the ring.
    fn hand_over(&mut self, count: usize, to: &mut VecDeque<StreamItem>) {
        let kept = self.joined.is_some();
        for (_, item) in self.chunks.drain(..count) {
            if let (true, StreamItem::Chunk(text)) = (kept, &item) {
                self.forgotten += text.len();
            }
            to.push_back(item);
        }
        self.first += count as u64;
    }

    /// Drops what all that have started have read, and what only those hold back that have not.
    fn make_room(&mut self) {
        let slowest = self.readers.iter().flatten().map(|reader| reader.next).min();
        let keep_for_late = self.expected > 0 && self.chunks.len() < CAPACITY;
        let until = match slowest {
            Some(_) | None if keep_for_late => return,
            None => self.seen,
            Some(slowest) => slowest.min(self.seen),
        };
        while self.first < until {
            let kept = self.joined.is_some();
            if let Some((_, StreamItem::Chunk(text))) = self.chunks.pop_front().filter(|_| kept) {
                self.forgotten += text.len();
            }
            self.first += 1;
        }
    }

    /// Returns `true` if the ring is full, even without the chunks that everyone has read.
    fn lacks_room(&mut self) -> bool {
        if self.chunks.len() < CAPACITY {
            return false;
        }
        self.make_room();
        self.is_full()
    }

    /// Returns `true` if the run, or a reader that will read on by itself, is a whole ring behind.
    fn is_full(&self) -> bool {
        let end = self.first + self.chunks.len() as u64;
        let holding =
            self.readers.iter().flatten().filter(|reader| reader.holds_back()).map(|reader| reader.next);
        end - holding.min().unwrap_or(u64::MAX).min(self.seen) >= CAPACITY as u64
    }

    fn wake_all(&mut self) -> Vec<Waker> {
        let mut wakers: Vec<Waker> =
            self.readers.iter_mut().flatten().filter_map(|reader| reader.waker.take()).collect();
        wakers.extend(self.wake_writer());
        wakers
    }

    fn wake_writer(&mut self) -> impl Iterator<Item = Waker> + use<> {
        let room = !self.is_full();
        self.writer.take_if(|_| room).into_iter()
    }
}

/// Reads a stream from its first chunk.
#[derive(Debug)]
pub struct StreamReader {
    source: Option<(Arc<Stream>, usize)>,
    /// Chunks taken out of the ring and not given yet.
    held: VecDeque<StreamItem>,
    /// Start of the attempt whose chunks were returned last.
    began: Option<u64>,
    /// Its node reads no other stream.
    alone: bool,
}

impl StreamReader {
    pub(crate) fn of_value(value: &Value) -> Self {
        let text: Arc<str> = match value {
            Value::String(text) => text.as_str().into(),
            other => other.to_string().into(),
        };
        Self { source: None, held: VecDeque::from([StreamItem::Chunk(text)]), began: None, alone: true }
    }

    /// The next item; none at the end.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<StreamItem> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The whole text, as it is when the stream has ended.
    ///
    /// # Cancel safety
    /// What was read is lost when the future is dropped.
    pub async fn read_to_end(&mut self) -> String {
        let mut text = String::new();
        while let Some(item) = self.next().await {
            match item {
                StreamItem::Chunk(chunk) => text.push_str(&chunk),
                StreamItem::Mark(_) => {}
                StreamItem::Retracted => text.clear(),
            }
        }
        text
    }

    fn poll_next(&mut self, cx: &Context<'_>) -> Poll<Option<StreamItem>> {
        let Some((stream, place)) = &self.source else {
            return Poll::Ready(self.held.pop_front());
        };
        // A batch is taken under the lock once; then its chunks are given without it, as long as their attempt counts.
        if self.alone
            && self.began == Some(stream.began.load(Ordering::Acquire))
            && let Some(item) = self.held.pop_front()
        {
            return Poll::Ready(Some(item));
        }
        let mut state = stream.lock();
        let began = stream.began.load(Ordering::Acquire);
        let Some(own) = state.readers[*place].as_ref() else { return Poll::Ready(None) };
        let (position, reading) = (own.next, own.reading.clone());
        if let Some(reading) = &reading {
            reading.waits.store(false, Ordering::Release);
        }
        let known = *self.began.get_or_insert(began.min(position));
        if known < began {
            self.began = Some(began);
            self.held.clear();
            let position = position.max(began);
            state.readers[*place] = Some(Position { next: position, waker: None, reading });
            return Poll::Ready(Some(StreamItem::Retracted));
        }
        if let Some(item) = self.held.pop_front() {
            return Poll::Ready(Some(item));
        }
        let (first, seen) = (state.first, state.seen);
        let as_place = |number: u64| usize::try_from(number.saturating_sub(first)).unwrap_or(usize::MAX);
        let (from, to) = (as_place(position), as_place(seen));
        if from < to {
            if from == 0 && state.has_one_reader() {
                // Nothing else needs them: they are handed over as they are.
                state.hand_over(to, &mut self.held);
            } else {
                self.held.extend(state.chunks.iter().take(to).skip(from).map(|(_, item)| item.clone()));
            }
            state.readers[*place] = Some(Position { next: seen, waker: None, reading });
            state.make_room();
            let writer = state.wake_writer().next();
            drop(state);
            writer.into_iter().for_each(Waker::wake);
            return Poll::Ready(self.held.pop_front());
        }
        if state.ended {
            return Poll::Ready(None);
        }
        let waker = Some(cx.waker().clone());
        state.readers[*place] = Some(Position { next: position, waker, reading: reading.clone() });
        drop(state);
        if let Some(reading) = reading {
            reading.wait();
        }
        Poll::Pending
    }
}

impl Drop for StreamReader {
    /// A dropped reader does not block the writer.
    fn drop(&mut self) {
        if let Some((stream, place)) = &self.source {
            let mut state = stream.lock();
            state.readers[*place] = None;
            state.make_room();
            let writer = state.wake_writer().next();
            drop(state);
            writer.into_iter().for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready<T>(future: impl Future<Output = T>) -> Option<T> {
        let mut future = Box::pin(future);
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn push(stream: &Stream, attempt: u32, text: &str) -> bool {
        ready(stream.push(attempt, StreamItem::Chunk(text.into()))).is_some()
    }

    fn see(stream: &Stream) -> usize {
        let mut seen = Vec::new();
        stream.see(&mut seen);
        seen.len()
    }

    /// As `ready(reader.next())` gives it.
    #[expect(clippy::option_option, clippy::unnecessary_wraps, reason = "it is compared with such a value")]
    fn chunk(text: &str) -> Option<Option<StreamItem>> {
        Some(Some(StreamItem::Chunk(text.into())))
    }

    #[test]
    fn every_reader_sees_every_chunk_after_the_run_has_seen_it() {
        let stream = Stream::new(2, true);
        let (mut one, mut two) = (stream.reader(None), stream.reader(None));
        assert!(push(&stream, 1, "a") && push(&stream, 1, "b"));
        assert_eq!(ready(one.next()), None);
        assert_eq!(see(&stream), 2);
        assert_eq!(ready(one.next()), chunk("a"));
        assert_eq!(ready(two.next()), chunk("a"));
        assert_eq!(ready(two.next()), chunk("b"));
        stream.end();
        assert_eq!(ready(two.next()), Some(None));
        assert_eq!(ready(one.next()), chunk("b"));
        assert_eq!(stream.text().as_deref(), Some("ab"));
    }

    #[test]
    fn a_slow_reader_holds_the_writer_back_and_a_late_one_does_not() {
        let stream = Stream::new(2, false);
        let mut early = stream.reader(None);
        for n in 0..200 {
            if !push(&stream, 1, "x") {
                assert_eq!(n, CAPACITY);
                break;
            }
        }
        see(&stream);
        assert!(!push(&stream, 1, "x"), "the chunk was not read");
        assert_eq!(ready(early.next()), chunk("x"));
        assert!(push(&stream, 1, "y"), "the late reader does not count");
        see(&stream);
        let mut late = stream.reader(None);
        let text = |reader: &mut StreamReader| {
            let mut text = String::new();
            while let Some(Some(StreamItem::Chunk(chunk))) = ready(reader.next()) {
                text.push_str(&chunk);
            }
            text
        };
        assert_eq!(text(&mut late), format!("{}y", "x".repeat(CAPACITY)));
        drop(late);
        assert_eq!(text(&mut early), format!("{}y", "x".repeat(CAPACITY - 1)));
    }

    #[test]
    fn a_failed_attempt_is_taken_back() {
        let stream = Stream::new(1, true);
        let mut reader = stream.reader(None);
        push(&stream, 1, "a");
        see(&stream);
        assert_eq!(ready(reader.next()), chunk("a"));
        push(&stream, 1, "b");
        stream.retract();
        push(&stream, 2, "c");
        see(&stream);
        stream.end();
        assert_eq!(ready(reader.next()), Some(Some(StreamItem::Retracted)));
        assert_eq!(ready(reader.next()), chunk("c"));
        assert_eq!(ready(reader.next()), Some(None));
        assert_eq!(stream.text().as_deref(), Some("c"));
    }

    #[test]
    fn a_node_that_waits_for_one_stream_does_not_hold_back_another() {
        let (slow, fast) = (Stream::new(1, false), Stream::new(1, false));
        let reading = Arc::default();
        let (mut first, mut second) = (slow.reader(Some(&reading)), fast.reader(Some(&reading)));
        let fill = |stream: &Stream| {
            let mut pushed = 0;
            while pushed < 1000 && push(stream, 1, "x") {
                see(stream);
                pushed += 1;
            }
            pushed
        };
        assert_eq!(fill(&fast), CAPACITY);
        assert_eq!(ready(first.next()), None);
        assert_eq!(fill(&fast), 1000, "nothing is held back while the node waits");
        push(&slow, 1, "a");
        see(&slow);
        assert_eq!(ready(first.next()), chunk("a"));
        assert_eq!(fill(&fast), 0, "now it may read on");
        let mut read = 0;
        while let Some(Some(StreamItem::Chunk(_))) = ready(second.next()) {
            read += 1;
        }
        assert_eq!(read, CAPACITY + 1000);
    }

    #[test]
    fn a_value_is_a_stream_of_one_chunk() {
        let mut reader = StreamReader::of_value(&serde_json::json!({"a": 1}));
        assert_eq!(ready(reader.next()), chunk(r#"{"a":1}"#));
        assert_eq!(ready(reader.next()), Some(None));
    }
}
