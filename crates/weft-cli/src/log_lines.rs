//! Log lines of libraries, on stderr.

use log::{LevelFilter, Log, Metadata, Record};

/// Variable of the environment with the level: `error`, `warn`, `info`, `debug`, `trace`, `off`.
const LEVEL: &str = "WEFT_LOG";

struct Lines;

impl Log for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let level = record.level().as_str().to_ascii_lowercase();
            note!("{level}: {}: {}", record.target(), record.args());
        }
    }

    fn flush(&self) {}
}

/// Begins to print log lines, from warnings up unless the environment says otherwise.
pub(crate) fn to_stderr() {
    static LINES: Lines = Lines;
    let level = std::env::var(LEVEL).ok().and_then(|level| level.parse().ok()).unwrap_or(LevelFilter::Warn);
    if log::set_logger(&LINES).is_ok() {
        log::set_max_level(level);
    }
}
