//! The tables, and how an older file becomes a new one.

use rusqlite::Connection;

use super::store_error;
use crate::StoreError;

/// Migrations: statements that each format adds to the one before it. A file of format n has had the first n
/// of them.
const MIGRATIONS: &[&str] = &[
    // 1: runs and what belongs to them, threads, named values.
    "CREATE TABLE runs (
        id INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, agent TEXT, workflow TEXT, thread TEXT, parent TEXT,
        plan TEXT NOT NULL, phase TEXT NOT NULL, exit TEXT, kind TEXT,
        started INTEGER NOT NULL, finished INTEGER,
        first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, last_span INTEGER NOT NULL) STRICT;
     CREATE INDEX runs_by_start ON runs (started);
     CREATE TABLE events (
        id INTEGER PRIMARY KEY, run INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        lines BLOB NOT NULL) STRICT;
     CREATE UNIQUE INDEX events_by_run ON events (run, last);
     CREATE TABLE snapshots (
        run INTEGER NOT NULL, seq INTEGER NOT NULL, state BLOB NOT NULL, PRIMARY KEY (run, seq)) STRICT;
     CREATE TABLE blobs (sha TEXT PRIMARY KEY, data BLOB NOT NULL) STRICT;
     CREATE TABLE blob_uses (
        run INTEGER NOT NULL, sha TEXT NOT NULL, last INTEGER NOT NULL,
        PRIMARY KEY (run, sha)) STRICT, WITHOUT ROWID;
     CREATE INDEX blob_uses_by_sha ON blob_uses (sha);
     CREATE TABLE asks (
        run INTEGER NOT NULL, ask TEXT NOT NULL, opened INTEGER NOT NULL, summary TEXT NOT NULL,
        answer TEXT, answered INTEGER, PRIMARY KEY (run, ask)) STRICT;
     CREATE TABLE messages (
        thread TEXT NOT NULL, seq INTEGER NOT NULL, message TEXT NOT NULL,
        PRIMARY KEY (thread, seq)) STRICT, WITHOUT ROWID;
     CREATE TABLE named (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;",
    // 2: passages of knowledge bases with the words and pairs of letters in them.
    "CREATE TABLE passages (id INTEGER PRIMARY KEY, kb TEXT NOT NULL, source TEXT NOT NULL, text TEXT NOT NULL) STRICT;
     CREATE INDEX passages_by_kb ON passages (kb);
     CREATE VIRTUAL TABLE passage_terms USING fts5 (words, pairs, tokenize = 'unicode61 remove_diacritics 0');",
    // 3: lines of events leave out what the line before says of its location. What is there stays as it is.
    "",
    // 4: bytes of the events of a run, unknown for runs that were there before.
    "ALTER TABLE runs ADD COLUMN log_bytes INTEGER;",
];

/// Indexes that a file of any format may have: programs that do not know them keep them all the same.
const INDEXES: &str = "CREATE INDEX IF NOT EXISTS runs_by_thread ON runs (thread, agent);
     CREATE INDEX IF NOT EXISTS runs_by_phase ON runs (phase);
     CREATE INDEX IF NOT EXISTS runs_by_parent ON runs (parent);";

/// The newest format.
pub(crate) fn newest() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Brings a file up to the newest format, step by step, all or nothing.
pub(super) fn bring_up_to_date(connection: &mut Connection) -> Result<(), StoreError> {
    // A file that is not a database fails at the first query.
    let found: i64 =
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(store_error)?;
    if found > newest() {
        return Err(StoreError::Newer { found, known: newest() });
    }
    connection.pragma_update(None, "journal_mode", "WAL").map_err(store_error)?;
    if found == newest() {
        return connection.execute_batch(INDEXES).map_err(store_error);
    }
    // Two processes may open a new file at once: the second one finds the work done.
    let begin = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate);
    let transaction = begin.map_err(store_error)?;
    let found: i64 =
        transaction.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(store_error)?;
    for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.execute_batch(migration).map_err(store_error)?;
    }
    transaction.execute_batch(INDEXES).map_err(store_error)?;
    transaction.pragma_update(None, "user_version", newest()).map_err(store_error)?;
    transaction.commit().map_err(store_error)
}
