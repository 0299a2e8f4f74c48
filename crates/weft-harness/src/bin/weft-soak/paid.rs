//! A storm of kills over an agent's run whose model and tools are servers: each request reaches them as if nothing had
//! happened, whatever people answer.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use agent_types::{AskKind, RunId};
use serde_json::{Map, Value, json};
use weft_harness::{Numbers, StubServer};

use crate::Fault;
use crate::child::{RUN, open, say};
use crate::payer::FATES;

/// Lives of a run at most.
const LIVES: usize = 60;

/// Point at which a process is killed, counted from its start.
#[derive(Debug, Clone, Copy)]
enum Cut {
    Event(usize),
    /// In a request to the model.
    Asked(usize),
    /// In a request to a tool with an effect.
    Paid(usize),
}

/// Requests that servers got, and the process that sends them.
#[derive(Default)]
struct Seen {
    asked: Vec<String>,
    paid: Vec<(String, String)>,
    cut: Option<Cut>,
    child: Option<Child>,
}

impl Seen {
    fn cut_at(&mut self, is_meant: impl Fn(&mut Cut) -> bool) -> bool {
        let is_over = self.cut.as_mut().is_some_and(is_meant);
        if is_over && let Some(child) = &mut self.child {
            // It may have ended by itself.
            let _ = child.kill();
        }
        is_over
    }
}

/// One run of the storm.
struct Storm {
    turns: Vec<String>,
    cuts: Vec<Cut>,
    seed: u64,
}

/// Requests of a run, its end and the answers that were given.
struct Played {
    asked: Vec<String>,
    paid: Vec<(String, String)>,
    end: Value,
    fates: Map<String, Value>,
    retries: HashMap<String, usize>,
    kills: usize,
}

pub(crate) fn run(rounds: u64) -> Result<(), Fault> {
    let mut kills = 0;
    for seed in 0..rounds {
        kills += Storm::drawn(seed).check().map_err(|fault| format!("round {seed}: {fault}"))?;
    }
    say(&format!("{rounds} runs, killed {kills} times: every request as in the run that was not killed"))
}

impl Storm {
    fn drawn(seed: u64) -> Self {
        let mut numbers = Numbers::new(seed);
        let mut turns = Vec::new();
        for turn in 0..3 + numbers.below(4) {
            let calls = (0..=numbers.below(3)).map(|at| {
                let tool = ["pay", "pay", "mail", "look"][usize::try_from(numbers.below(4)).unwrap_or(0)];
                format!("<{tool}><n>{turn}{at}</n></{tool}>")
            });
            turns.push(format!("I act. <ACTION>{}</ACTION>", calls.collect::<String>()));
        }
        let cuts = (0..=numbers.below(5)).map(|_| {
            let kind = numbers.below(3);
            let at = usize::try_from(numbers.below(if kind == 0 { 40 } else { 3 })).unwrap_or(0);
            match kind {
                0 => Cut::Event(at),
                1 => Cut::Asked(at),
                _ => Cut::Paid(at),
            }
        });
        Self { cuts: cuts.collect(), turns, seed }
    }

    /// Checks the law for this run; returns the number of kills.
    fn check(&self) -> Result<usize, Fault> {
        let cut = self.play(&self.cuts, &Map::new())?;
        let whole = self.play(&[], &cut.fates)?;
        if cut.end != Value::Null && cut.end != whole.end {
            return Err(format!("it ended {}, not {}", cut.end, whole.end));
        }
        if cut.asked != whole.asked {
            return Err(format!("requests to the model: {:#?}, not {:#?}", cut.asked, whole.asked));
        }
        let mut counts: HashMap<&(String, String), usize> = HashMap::new();
        for request in &cut.paid {
            *counts.entry(request).or_default() += 1;
        }
        for ((call, what), count) in counts {
            if count > 1 + cut.retries.get(call).copied().unwrap_or(0) {
                return Err(format!("{call} paid {what} {count} times"));
            }
        }
        let mut first: Vec<&(String, String)> = Vec::new();
        for request in cut.paid.iter().filter(|(call, _)| !cut.fates.contains_key(call)) {
            if !first.contains(&request) {
                first.push(request);
            }
        }
        if first != whole.paid.iter().collect::<Vec<_>>() {
            return Err(format!("{:?} was paid, not {:?}", cut.paid, whole.paid));
        }
        Ok(cut.kills)
    }

    fn play(&self, cuts: &[Cut], fates: &Map<String, Value>) -> Result<Played, Fault> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let text = Value::Object(fates.clone()).to_string();
        std::fs::write(folder.path().join(FATES), text).map_err(|error| error.to_string())?;
        let seen = Arc::new(Mutex::new(Seen::default()));
        let server = self.serve(Arc::clone(&seen));
        let (mut fates, mut retries) = (fates.clone(), HashMap::new());
        let (mut cuts, mut kills, mut end) = (cuts.iter().copied(), 0, None);
        let mut cut = cuts.next();
        for _ in 0..LIVES {
            let last = live(folder.path(), &server.address.to_string(), &seen, cut)?;
            let Some(last) = last else {
                kills += 1;
                cut = cuts.next();
                continue;
            };
            match last["outcome"].as_str() {
                Some("waiting") => self.answer_all(folder.path(), &mut fates, &mut retries)?,
                Some("ended") => end = Some(Value::Null),
                Some(_) => end = Some(last),
                None => return Err(format!("it printed {last}")),
            }
            if end.is_some() {
                break;
            }
        }
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut asked, paid) = (std::mem::take(&mut seen.asked), std::mem::take(&mut seen.paid));
        asked.dedup();
        Ok(Played { asked, paid, end: end.ok_or("it does not end")?, fates, retries, kills })
    }

    /// The server of the model and of the tools.
    fn serve(&self, seen: Arc<Mutex<Seen>>) -> StubServer {
        let turns = self.turns.clone();
        StubServer::start(move |_, request, stream| {
            let (head, body) = request.split_once("\r\n\r\n").unwrap_or_default();
            let body: Value = serde_json::from_str(body).unwrap_or_default();
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            if head.starts_with("POST /v1/") {
                seen.asked.push(body["messages"].to_string());
                if !seen.cut_at(|cut| match cut {
                    Cut::Asked(left) => counted(left),
                    Cut::Event(_) | Cut::Paid(_) => false,
                }) {
                    answer_model(stream, &turns, &body["messages"]);
                }
                return;
            }
            let has_effect = head.starts_with("POST /pay");
            if has_effect {
                let call = body["call"].as_str().unwrap_or_default().to_owned();
                seen.paid.push((call, body["what"].to_string()));
            }
            if !(has_effect
                && seen.cut_at(|cut| match cut {
                    Cut::Paid(left) => counted(left),
                    Cut::Event(_) | Cut::Asked(_) => false,
                }))
            {
                // The client may be gone.
                let _ =
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
        })
    }

    /// Answers the open questions; answers hang on the names of the questions.
    fn answer_all(
        &self,
        folder: &Path,
        fates: &mut Map<String, Value>,
        retries: &mut HashMap<String, usize>,
    ) -> Result<(), Fault> {
        let (store, run) = (open(folder)?, RunId::new(RUN));
        for ask in store.asks(&run).map_err(|error| error.to_string())? {
            if ask.answer.is_some() {
                continue;
            }
            let name = &*ask.summary.ask;
            let number = name.bytes().fold(self.seed, |sum, byte| sum * 31 % 10_007 + u64::from(byte));
            let call = name.split('~').next().unwrap_or_default().to_owned();
            let value = match (ask.summary.kind, number % 3) {
                (AskKind::Approval, 0) => json!({"deny": "not wanted"}),
                (AskKind::Approval, 1) => json!({"approve": true, "arguments": {"n": number}}),
                (AskKind::Approval, _) => json!({"approve": true}),
                (_, 0) => {
                    fates.insert(call, "skip".into());
                    "skip".into()
                }
                (_, 1) => {
                    fates.insert(call, json!([number]));
                    json!({"outcome": "done", "value": [number]})
                }
                (_, _) => {
                    *retries.entry(call).or_default() += 1;
                    "retry".into()
                }
            };
            store.answer(&run, name, &value).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// Counts down; `true` at the end.
fn counted(left: &mut usize) -> bool {
    let is_over = *left == 0;
    *left = left.saturating_sub(1);
    is_over
}

fn answer_model(stream: &mut TcpStream, turns: &[String], messages: &Value) {
    let replies = messages.as_array().into_iter().flatten().filter(|message| message["role"] == "assistant");
    let text = turns.get(replies.count()).map_or("All is done.", String::as_str);
    let delta = json!({"choices": [{"index": 0, "delta": {"content": text}}]});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    // The client may be gone.
    let _ = write!(stream, "{head}data: {delta}\n\ndata: {end}\n\ndata: [DONE]\n\n");
}

/// Lets a process execute the run until it is killed, or ends; then what it printed last.
fn live(folder: &Path, address: &str, seen: &Mutex<Seen>, cut: Option<Cut>) -> Result<Option<Value>, Fault> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.arg("payer").arg(folder).arg(address).stdout(Stdio::piped());
    let lock = || seen.lock().unwrap_or_else(PoisonError::into_inner);
    let stdout = {
        // No request is answered before the process is known that sends it.
        let mut seen = lock();
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let stdout = child.stdout.take().ok_or("no stdout")?;
        (seen.child, seen.cut) = (Some(child), cut);
        stdout
    };
    let mut last = None;
    for line in BufReader::new(stdout).lines() {
        let Ok(line) = line else { break };
        let Ok(value) = serde_json::from_str::<Value>(&line) else { break };
        if value.get("outcome").is_some() {
            last = Some(value);
        } else {
            lock().cut_at(|cut| match cut {
                Cut::Event(left) => counted(left),
                Cut::Asked(_) | Cut::Paid(_) => false,
            });
        }
    }
    let child = lock().child.take();
    let status = child.ok_or("no process")?.wait().map_err(|error| error.to_string())?;
    match last {
        Some(last) => Ok(Some(last)),
        None if status.code().is_none() => Ok(None),
        None => Err(format!("it printed no outcome: {status}")),
    }
}
