//! Two servers on one project: sessions continue whichever of them dies. `cargo xtask soak sessions` does the same with many more.

use std::path::Path;

use weft_harness::SessionsSoak;

#[cfg(unix)]
#[test]
fn sessions_on_two_servers_lose_nothing_when_one_is_killed() {
    let soak = SessionsSoak { sessions: 40, messages: 10, kills: 2, seed: 7 };
    let summary = soak.run(Path::new(env!("CARGO_BIN_EXE_weft"))).unwrap();
    assert!(!summary.contains(" 0 servers killed"), "{summary}");
}
