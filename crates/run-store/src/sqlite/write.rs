//! Writing a group of changes in one transaction.

use agent_types::RunId;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::store_error;
use crate::{AskRecord, Change, Events, NewRun, RunPhase, StoreError, Update};

type Done = Result<(), rusqlite::Error>;

pub(super) fn commit(connection: &mut Connection, changes: &[Change]) -> Result<(), StoreError> {
    let begin = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate);
    let transaction = begin.map_err(store_error)?;
    for change in changes {
        apply(&transaction, change).map_err(store_error)?;
    }
    transaction.commit().map_err(store_error)
}

pub(super) fn update(connection: &mut Connection, key: &str, change: Update<'_>) -> Result<(), StoreError> {
    let begin = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate);
    let transaction = begin.map_err(store_error)?;
    let Some(value) = change(super::read::value(&transaction, key)?) else { return Ok(()) };
    apply(&transaction, &Change::Put { key: key.to_owned(), value: Some(value) }).map_err(store_error)?;
    transaction.commit().map_err(store_error)
}

fn apply(db: &Transaction<'_>, change: &Change) -> Done {
    match change {
        Change::Begin { new, started } => begin(db, new, started.as_millis()),
        Change::Events(events) => add_events(db, events),
        Change::Blob { sha, data } => {
            let sql = "INSERT INTO blobs (sha, data) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
            db.prepare_cached(sql)?.execute(params![sha, data]).map(drop)
        }
        Change::Snapshot { run, seq, state } => {
            let Some(id) = row_of(db, run)? else { return Ok(()) };
            let sql = "INSERT OR REPLACE INTO snapshots (run, seq, state) VALUES (?1, ?2, ?3)";
            db.prepare_cached(sql)?.execute(params![id, number(*seq), state]).map(drop)
        }
        Change::Trim { run, seq, keep } => trim(db, run, *seq, *keep),
        Change::Answer { run, ask, value, seq } => {
            let Some(id) = row_of(db, run)? else { return Ok(()) };
            let sql = "UPDATE asks SET answer = ?3, answered = ?4 WHERE run = ?1 AND ask = ?2";
            db.prepare_cached(sql)?.execute(params![id, ask, value.to_string(), number(*seq)]).map(drop)
        }
        Change::Remove { run } => remove(db, run),
        Change::Messages { thread, messages } => {
            let sql = "INSERT INTO messages (thread, seq, message)
                SELECT ?1, 1 + COALESCE(MAX(seq), 0), ?2 FROM messages WHERE thread = ?1";
            let mut insert = db.prepare_cached(sql)?;
            messages
                .iter()
                .try_for_each(|message| insert.execute(params![thread, message.to_string()]).map(drop))
        }
        Change::CutThread { thread, keep } => {
            let sql = "DELETE FROM messages WHERE thread = ?1 AND seq > ?2";
            db.prepare_cached(sql)?.execute(params![thread, number(*keep as u64)]).map(drop)
        }
        Change::Put { key, value: Some(value) } => {
            let sql = "INSERT OR REPLACE INTO named (key, value) VALUES (?1, ?2)";
            db.prepare_cached(sql)?.execute(params![key, value.to_string()]).map(drop)
        }
        Change::Put { key, value: None } => {
            db.prepare_cached("DELETE FROM named WHERE key = ?1")?.execute([key]).map(drop)
        }
    }
}

fn begin(db: &Transaction<'_>, new: &NewRun, started: i64) -> Done {
    let sql = "INSERT INTO runs (run, agent, workflow, thread, parent, plan, phase, started,
        first_seq, last_seq, last_span, log_bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, 0, 0, 0)";
    let parent = new.parent.as_ref().map(RunId::as_str);
    let (plan, phase) = (new.plan.to_string(), RunPhase::Running.as_str());
    db.prepare_cached(sql)?
        .execute(params![new.run.as_str(), new.agent, new.workflow, new.thread, parent, plan, phase, started])
        .map(drop)
}

fn add_events(db: &Transaction<'_>, events: &Events) -> Done {
    let Some(id) = row_of(db, &events.run)? else { return Ok(()) };
    let sql = "INSERT INTO events (run, first, last, lines) VALUES (?1, ?2, ?3, ?4)";
    let (first, last) = (number(events.first), number(events.last));
    db.prepare_cached(sql)?.execute(params![id, first, last, events.lines])?;
    let sql = "UPDATE runs SET last_seq = ?2, last_span = MAX(last_span, ?3),
        first_seq = CASE WHEN last_seq = 0 THEN ?4 ELSE first_seq END, log_bytes = log_bytes + ?5 WHERE id = ?1";
    db.prepare_cached(sql)?.execute(params![
        id,
        last,
        number(events.last_span),
        first,
        number(events.lines.len() as u64)
    ])?;
    if let Some(state) = &events.state {
        let sql = "UPDATE runs SET phase = ?2, exit = ?3, kind = ?4, finished = ?5 WHERE id = ?1";
        let exit = state.exit.map(agent_types::ExitReason::as_str);
        let finished = state.finished.map(agent_types::Timestamp::as_millis);
        db.prepare_cached(sql)?.execute(params![id, state.phase.as_str(), exit, state.kind, finished])?;
    }
    for sha in &events.blobs {
        let sql = "INSERT INTO blob_uses (run, sha, last) VALUES (?1, ?2, ?3)
            ON CONFLICT DO UPDATE SET last = excluded.last";
        db.prepare_cached(sql)?.execute(params![id, sha, last])?;
    }
    events.asks.iter().try_for_each(|ask| open(db, id, ask))
}

/// A question is asked, or emitted again with the others.
fn open(db: &Transaction<'_>, id: i64, ask: &AskRecord) -> Done {
    let sql = "INSERT INTO asks (run, ask, opened, summary) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT DO UPDATE SET summary = excluded.summary WHERE answer IS NULL";
    let summary = serde_json::to_string(&ask.summary).unwrap_or_default();
    db.prepare_cached(sql)?.execute(params![id, &*ask.summary.ask, number(ask.opened), summary]).map(drop)
}

/// Lets old events go until those before the snapshot take no more than `keep` bytes.
fn trim(db: &Transaction<'_>, run: &RunId, seq: u64, keep: u64) -> Done {
    let (keep, seq) = (number(keep), number(seq));
    let sql = "SELECT id, COALESCE(log_bytes, (SELECT SUM(length(lines)) FROM events WHERE run = runs.id), 0)
        FROM runs WHERE run = ?1";
    let sizes = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let found = db.prepare_cached(sql)?.query_row([run.as_str()], sizes).optional()?;
    let Some((id, bytes)) = found.filter(|(_, bytes)| *bytes > keep) else { return Ok(()) };
    let sql = "SELECT COALESCE(SUM(length(lines)), 0) FROM events WHERE run = ?1 AND last > ?2";
    let later: i64 = db.prepare_cached(sql)?.query_row([id, seq], |row| row.get(0))?;
    let (mut left, mut cut) = (bytes - later, None);
    {
        let sql = "SELECT last, length(lines) FROM events WHERE run = ?1 AND last <= ?2 ORDER BY last";
        let mut statement = db.prepare_cached(sql)?;
        let mut rows = statement.query([id, seq])?;
        while left > keep
            && let Some(row) = rows.next()?
        {
            left -= row.get::<_, i64>(1)?;
            cut = Some(row.get::<_, i64>(0)?);
        }
    }
    let Some(cut) = cut else { return Ok(()) };
    db.prepare_cached("DELETE FROM events WHERE run = ?1 AND last <= ?2")?.execute([id, cut])?;
    let sql = "UPDATE runs SET first_seq = ?2, log_bytes = ?3 WHERE id = ?1";
    db.prepare_cached(sql)?.execute([id, cut + 1, left + later])?;
    db.prepare_cached("DELETE FROM snapshots WHERE run = ?1 AND seq < ?2 AND seq < ?3")?
        .execute([id, cut, seq])?;
    drop_blobs(db, "run = ?1 AND last <= ?2", &[id, cut])
}

fn remove(db: &Transaction<'_>, run: &RunId) -> Done {
    let Some(id) = row_of(db, run)? else { return Ok(()) };
    for table in ["events", "snapshots", "asks"] {
        db.execute(&format!("DELETE FROM {table} WHERE run = ?1"), [id])?;
    }
    drop_blobs(db, "run = ?1", &[id])?;
    db.execute("DELETE FROM runs WHERE id = ?1", [id]).map(drop)
}

/// Forgets the uses that `condition` names, and blobs that nothing uses then.
fn drop_blobs(db: &Transaction<'_>, condition: &str, values: &[i64]) -> Done {
    let values = rusqlite::params_from_iter(values);
    let sql = format!("DELETE FROM blob_uses WHERE {condition} RETURNING sha");
    let gone: Vec<String> =
        db.prepare_cached(&sql)?.query_map(values, |row| row.get(0))?.collect::<Result<_, _>>()?;
    let sql = "DELETE FROM blobs WHERE sha = ?1
        AND NOT EXISTS (SELECT 1 FROM blob_uses WHERE blob_uses.sha = ?1)";
    let mut delete = db.prepare_cached(sql)?;
    gone.iter().try_for_each(|sha| delete.execute([sha]).map(drop))
}

fn row_of(db: &Transaction<'_>, run: &RunId) -> Result<Option<i64>, rusqlite::Error> {
    let mut statement = db.prepare_cached("SELECT id FROM runs WHERE run = ?1")?;
    statement.query_row([run.as_str()], |row| row.get(0)).optional()
}

/// SQLite knows signed numbers only; no run has that many events.
pub(super) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
