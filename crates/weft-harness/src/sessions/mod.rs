//! Soak of sessions: many conversations at once over two server processes on one store, one of which is killed at random.
//!
//! Clients send messages with ids to either server and retry at the other one. A model and an endpoint behind HTTP count
//! what they are asked. At the end each conversation is read and judged.

mod backend;
mod client;
mod judge;
mod servers;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use backend::Backend;
use client::Client;
use servers::Servers;

use crate::Numbers;

/// Fewest messages of a session: with fewer, a person who takes it does not give it back.
const MIN_MESSAGES: u64 = 4;

/// Delay of the timers of the sessions, in milliseconds.
const IDLE_MS: u64 = 1500;

/// Faults that are printed at most.
const SHOWN: usize = 20;

/// Description of a fault.
type Fault = String;

/// A soak of sessions.
#[derive(Debug, Clone)]
pub struct SessionsSoak {
    /// Sessions at once.
    pub sessions: u64,
    /// Messages of each, four or more.
    pub messages: u64,
    /// Servers that are killed, one after the other.
    pub kills: u64,
    /// Seed of all that is random.
    pub seed: u64,
}

impl SessionsSoak {
    /// Runs the soak with this program; gives a summary.
    ///
    /// # Errors
    /// A message was lost, repeated or out of order, a hand-over did not last, a timer did not fire once, or the program failed.
    pub fn run(&self, program: &Path) -> Result<String, String> {
        if self.messages < MIN_MESSAGES {
            return Err(format!(
                "a session needs at least {MIN_MESSAGES} messages, to come back from a person"
            ));
        }
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let backend = Backend::start().map_err(|error| error.to_string())?;
        write_project(folder.path(), backend.address());
        let servers = Servers::start(program, folder.path())?;
        let start = Instant::now();
        let (faults, refused) = (Mutex::new(Vec::new()), AtomicU64::new(0));
        let kills = self.drive(&servers, &faults, &refused)?;
        let took = start.elapsed();
        await_timers(&servers, Duration::from_secs(2) + took / 20)?;
        let mut faults = faults.into_inner().unwrap_or_default();
        let judged = judge::judge(self, &servers, &backend, kills, &mut faults);
        faults.extend(servers.complaints());
        if let Some(first) = faults.first() {
            let shown = faults.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("\n  ");
            servers::keep_logs(folder);
            return Err(format!("{} faults, the first: {first}\n  {shown}", faults.len()));
        }
        Ok(format!(
            "{} sessions of {} messages in {:.1} s, {kills} servers killed, {judged}, {} refused for a moment: \
             every message once, in order",
            self.sessions,
            self.messages,
            took.as_secs_f64(),
            refused.into_inner()
        ))
    }

    /// Lets all clients talk while servers are killed; gives the number of kills.
    fn drive(
        &self,
        servers: &Servers,
        faults: &Mutex<Vec<Fault>>,
        refused: &AtomicU64,
    ) -> Result<u64, Fault> {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let killer = scope.spawn(|| self.kill(servers, &is_over));
            let clients: Vec<_> = (0..self.sessions)
                .map(|session| {
                    let mut client = Client::new(self, session, servers, refused);
                    let talk = move || {
                        if let Err(fault) = client.talk() {
                            let mut faults = faults.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                            faults.push(format!("s{session}: {fault}"));
                        }
                    };
                    std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, talk)
                })
                .collect();
            for client in clients {
                client.map_err(|error| error.to_string())?.join().map_err(|_| "a client panicked")?;
            }
            is_over.store(true, Ordering::Relaxed);
            killer.join().map_err(|_| "the killer panicked")?
        })
    }

    /// Kills servers at random moments, one at a time, and starts each again.
    fn kill(&self, servers: &Servers, is_over: &AtomicBool) -> Result<u64, Fault> {
        let mut numbers = Numbers::new(self.seed);
        let mut pause = |least: u64, more: u64| {
            std::thread::sleep(Duration::from_millis(least + numbers.below(more)));
            numbers.below(2)
        };
        for kill in 0..self.kills {
            let at = usize::try_from(pause(200, 1500)).unwrap_or(0);
            if is_over.load(Ordering::Relaxed) {
                return Ok(kill);
            }
            servers.kill(at)?;
            pause(50, 400);
            servers.restart(at)?;
        }
        Ok(self.kills)
    }
}

/// Waits until no further run begins for so long: the last timers have fired then.
fn await_timers(servers: &Servers, quiet: Duration) -> Result<(), Fault> {
    let mut last = None;
    std::thread::sleep(Duration::from_millis(IDLE_MS));
    loop {
        let newest = servers.read("/api/runs?limit=1")?;
        let newest = newest[0]["run"].as_str().map(str::to_owned);
        if newest == last {
            return Ok(());
        }
        last = newest;
        std::thread::sleep(quiet);
    }
}

fn write_project(folder: &Path, backend: std::net::SocketAddr) {
    let settings = format!(
        "[models.default]\nprovider = \"openai\"\nbase_url = \"http://{backend}/v1\"\nmodel = \"fake\"\n\
         [store]\nsync = \"normal\"\n[network]\nallow = [\"{backend}\"]\n\
         [server]\nmax_runs = 32\nmax_queue = 20000\nmax_connections = 8000\n"
    );
    let flows = serde_json::json!({
        "agent": "desk",
        "flows": [{"flow_id": "leave", "trigger_patterns": ["leave"],
            "endpoint": {"url": format!("http://{backend}/leave"), "method": "POST",
                "body": {"message": "{user_message}"}},
            "response_template": "Request {result.id} is sent.", "on_error": {"reply": "Try tomorrow."}}],
        "system_actions": [{"action_id": "human", "handler": "handoff", "trigger_patterns": ["a person"]}],
        "timers": [{"timer_id": "idle", "delay_ms": IDLE_MS, "max_triggers": 1,
            "action": {"reply": "Are you still there?"}}]
    });
    crate::write(folder, "weft.toml", &settings);
    crate::write(folder, "flows.json", &flows.to_string());
    crate::write(folder, "agents/desk.json", r#"{"id": "desk", "name": "Desk"}"#);
}
