//! The store's file is cut at every byte of its last pages, as a loss of power may leave it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use agent_types::{RunId, SystemClock};

use crate::Fault;
use crate::child::{EFFECTS, FILE, RUN, drive, open, say};

/// Bytes of the write-ahead log that are cut away one by one.
const LAST: usize = 3 * (4096 + 24);

pub(crate) fn run(every: usize) -> Result<(), Fault> {
    let whole = tempfile::tempdir().map_err(|error| error.to_string())?;
    // A process of its own that is killed: what it leaves has not been tidied up.
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .arg("child")
        .arg(whole.path())
        .arg("start")
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let lines = child.stdout.take().ok_or("no stdout")?;
    let printed = std::io::BufRead::lines(std::io::BufReader::new(lines)).take(120).count();
    child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
    let read = |name: &str| std::fs::read(whole.path().join(name)).map_err(|error| error.to_string());
    let (file, log) = (read(FILE)?, read(&format!("{FILE}-wal"))?);
    let mut lengths = Vec::new();
    let cuts = (log.len().saturating_sub(LAST)..log.len()).step_by(every);
    for cut in cuts.chain([log.len()]) {
        let events = check_cut(&file, &log[..cut], lengths.last().copied())
            .map_err(|fault| format!("cut at byte {cut} of {}: {fault}", log.len()))?;
        lengths.push(events);
    }
    let most = lengths.last().copied().unwrap_or(0);
    if most < printed {
        return Err(format!("{printed} events were printed, and {most} are stored"));
    }
    say(&format!("cut {} times: {} to {most} events left, always whole", lengths.len(), lengths[0]))
}

/// Opens a cut file; it must hold the first events of the run without a hole, and the run must resume from there.
fn check_cut(file: &[u8], log: &[u8], before: Option<usize>) -> Result<usize, Fault> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).map_err(|error| error.to_string())
    };
    write(FILE, file)?;
    write(&format!("{FILE}-wal"), log)?;
    let store = open(folder.path())?;
    let run = RunId::new(RUN);
    let events = match store.known(&run) {
        Ok(record) => {
            let events = store.events(&run, 0, usize::MAX).map_err(|error| error.to_string())?;
            if events.len() as u64 != record.last_seq {
                return Err(format!("{} events, and the record says {}", events.len(), record.last_seq));
            }
            events
        }
        // Cut before the run began.
        Err(error) if error.code() == "unknown_run" => return Ok(0),
        Err(error) => return Err(error.to_string()),
    };
    let holes = events.iter().zip(1..).any(|(kept, at)| kept.event.seq != at);
    if holes {
        return Err("a hole in the numbers".to_owned());
    }
    if before != Some(events.len()) {
        resume(folder.path(), &store)?;
    }
    Ok(events.len())
}

/// Resumes the run, until it is suspended or has ended.
fn resume(folder: &Path, store: &run_store::Store) -> Result<(), Fault> {
    std::fs::write(folder.join(EFFECTS), "").map_err(|error| error.to_string())?;
    let resumed = store.resume(&RunId::new(RUN), Arc::new(SystemClock));
    let (run, log) = resumed.map_err(|error| error.to_string())?;
    let outcome = drive(folder, &run, Some(log), &|_| Ok(()))?;
    match outcome.status {
        agent_types::RunStatus::Waiting | agent_types::RunStatus::Ok => Ok(()),
        other => Err(format!("it was resumed and ended: {other:?} {:?}", outcome.error)),
    }
}
