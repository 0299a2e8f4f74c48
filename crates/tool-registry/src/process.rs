//! Programs that were started, with the programs that they start: they end with us.

use std::collections::BTreeSet;

use parking_lot::Mutex;

/// Groups that are alive.
static ALIVE: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// A started program and its children, which end when this is dropped.
#[derive(Debug)]
pub struct ProcessGroup(u32);

impl ProcessGroup {
    /// The group that a program leads.
    #[must_use]
    pub fn led_by(leader: u32) -> Self {
        ALIVE.lock().insert(leader);
        Self(leader)
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        ALIVE.lock().remove(&self.0);
        kill(self.0);
    }
}

/// Ends all programs that were started, and their children. For a process that ends at once; otherwise they end with what
/// holds their groups.
pub fn kill_programs() {
    std::mem::take(&mut *ALIVE.lock()).into_iter().for_each(kill);
}

#[cfg(unix)]
fn kill(leader: u32) {
    let leader = i32::try_from(leader).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(leader) = leader {
        // They may have ended by themselves.
        let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
    }
}

/// Other systems end the program alone, with its handle.
#[cfg(not(unix))]
const fn kill(_: u32) {}
