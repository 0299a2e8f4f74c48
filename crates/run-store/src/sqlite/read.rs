//! Reading beside the writer.

use std::fmt::Write;

use agent_types::{ExitReason, RunId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use super::store_error;
use super::write::number;
use crate::json::read;
use crate::{AskRecord, NewRun, RunFilter, RunPhase, RunRecord, RunState, StoreError};

const COLUMNS: &str = "run, agent, workflow, thread, parent, plan, phase, exit, kind, started, finished,
    first_seq, last_seq, last_span, id";

pub(super) fn run(db: &Connection, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM runs WHERE run = ?1");
    let mut statement = db.prepare_cached(&sql).map_err(store_error)?;
    statement.query_row([run.as_str()], record).optional().map_err(store_error)
}

pub(super) fn runs(db: &Connection, filter: &RunFilter) -> Result<Vec<RunRecord>, StoreError> {
    let mut sql = format!("SELECT {COLUMNS} FROM runs WHERE 1");
    let mut values: Vec<rusqlite::types::Value> = Vec::new();
    let texts = [
        ("phase", filter.phase.map(|phase| phase.as_str().to_owned())),
        ("agent", filter.agent.clone()),
        ("workflow", filter.workflow.clone()),
        ("thread", filter.thread.clone()),
        ("parent", filter.parent.as_ref().map(ToString::to_string)),
    ];
    for (column, value) in texts {
        if let Some(value) = value {
            values.push(value.into());
            // Writing to a text cannot fail.
            let _ = write!(sql, " AND {column} = ?{}", values.len());
        }
    }
    if filter.open {
        let open = [RunPhase::Running, RunPhase::Waiting].map(RunPhase::as_str);
        let _ = write!(sql, " AND phase IN ('{}', '{}')", open[0], open[1]);
    }
    if let Some(before) = filter.before {
        values.push(before.as_millis().into());
        let _ = write!(sql, " AND started < ?{}", values.len());
    }
    // The order in which the store took them: clocks go back, rows do not.
    sql.push_str(" ORDER BY id DESC");
    if let Some(limit) = filter.limit {
        let _ = write!(sql, " LIMIT {limit}");
    }
    let mut statement = db.prepare_cached(&sql).map_err(store_error)?;
    let rows = statement.query_map(rusqlite::params_from_iter(values), record).map_err(store_error)?;
    rows.collect::<Result<_, _>>().map_err(store_error)
}

fn record(row: &Row<'_>) -> Result<RunRecord, rusqlite::Error> {
    let json = |text: &str| read(text.as_bytes()).unwrap_or(Value::Null);
    let exit = row.get::<_, Option<String>>(7)?;
    let phase: String = row.get(6)?;
    Ok(RunRecord {
        new: NewRun {
            run: RunId::new(row.get::<_, String>(0)?),
            agent: row.get(1)?,
            workflow: row.get(2)?,
            thread: row.get(3)?,
            parent: row.get::<_, Option<String>>(4)?.map(RunId::new),
            plan: json(&row.get::<_, String>(5)?),
        },
        order: row.get::<_, i64>(14)?.unsigned_abs(),
        state: RunState {
            // A phase that a newer program wrote would have come with a newer format.
            phase: RunPhase::parse(&phase).unwrap_or(RunPhase::Running),
            exit: exit.and_then(|word| serde_json::from_value::<ExitReason>(word.into()).ok()),
            kind: row.get(8)?,
            finished: row.get::<_, Option<i64>>(10)?.map(Timestamp::from_millis),
        },
        started: Timestamp::from_millis(row.get(9)?),
        first_seq: row.get::<_, i64>(11)?.unsigned_abs(),
        last_seq: row.get::<_, i64>(12)?.unsigned_abs(),
        last_span: row.get::<_, i64>(13)?.unsigned_abs(),
    })
}

pub(super) fn lines(
    db: &Connection,
    run: &RunId,
    after: u64,
    limit: usize,
) -> Result<Vec<Vec<u8>>, StoreError> {
    let sql = "SELECT lines FROM events WHERE run = (SELECT id FROM runs WHERE run = ?1) AND last > ?2
        ORDER BY last LIMIT ?3";
    let mut statement = db.prepare_cached(sql).map_err(store_error)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement
        .query_map(params![run.as_str(), number(after), limit], |row| row.get(0))
        .map_err(store_error)?;
    rows.collect::<Result<_, _>>().map_err(store_error)
}

pub(super) fn snapshot(
    db: &Connection,
    run: &RunId,
    at_most: u64,
) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
    let sql =
        "SELECT seq, state FROM snapshots WHERE run = (SELECT id FROM runs WHERE run = ?1) AND seq <= ?2
        ORDER BY seq DESC LIMIT 1";
    let mut statement = db.prepare_cached(sql).map_err(store_error)?;
    let found = statement.query_row(params![run.as_str(), number(at_most)], |row| {
        Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get(1)?))
    });
    found.optional().map_err(store_error)
}

pub(super) fn blob(db: &Connection, sha: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let mut statement = db.prepare_cached("SELECT data FROM blobs WHERE sha = ?1").map_err(store_error)?;
    statement.query_row([sha], |row| row.get(0)).optional().map_err(store_error)
}

pub(super) fn asks(db: &Connection, run: &RunId) -> Result<Vec<AskRecord>, StoreError> {
    let sql = "SELECT summary, opened, answer, answered FROM asks
        WHERE run = (SELECT id FROM runs WHERE run = ?1) ORDER BY opened, ask";
    let mut statement = db.prepare_cached(sql).map_err(store_error)?;
    let rows = statement
        .query_map([run.as_str()], |row| {
            let answer = row.get::<_, Option<String>>(2)?.zip(row.get::<_, Option<i64>>(3)?);
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, answer))
        })
        .map_err(store_error)?;
    let mut asks = Vec::new();
    for row in rows {
        let (summary, opened, answer) = row.map_err(store_error)?;
        let summary = read(summary.as_bytes())
            .map_err(|error| StoreError::Corrupt { message: format!("a question: {error}") })?;
        let answer =
            answer.map(|(value, seq)| (read(value.as_bytes()).unwrap_or(Value::Null), seq.unsigned_abs()));
        asks.push(AskRecord { summary, opened: opened.unsigned_abs(), answer });
    }
    Ok(asks)
}

pub(super) fn messages(db: &Connection, thread: &str) -> Result<Vec<Value>, StoreError> {
    let sql = "SELECT message FROM messages WHERE thread = ?1 ORDER BY seq";
    let mut statement = db.prepare_cached(sql).map_err(store_error)?;
    let rows = statement.query_map([thread], |row| row.get::<_, String>(0)).map_err(store_error)?;
    let read = |row: Result<String, rusqlite::Error>| {
        read(row.map_err(store_error)?.as_bytes())
            .map_err(|error| StoreError::Corrupt { message: format!("a message: {error}") })
    };
    rows.map(read).collect()
}

/// Messages are numbered from 1 without holes.
pub(super) fn thread_length(db: &Connection, thread: &str) -> Result<usize, StoreError> {
    let sql = "SELECT COALESCE(MAX(seq), 0) FROM messages WHERE thread = ?1";
    let mut statement = db.prepare_cached(sql).map_err(store_error)?;
    let last: i64 = statement.query_row([thread], |row| row.get(0)).map_err(store_error)?;
    Ok(usize::try_from(last).unwrap_or(0))
}

pub(super) fn value(db: &Connection, key: &str) -> Result<Option<Value>, StoreError> {
    let mut statement = db.prepare_cached("SELECT value FROM named WHERE key = ?1").map_err(store_error)?;
    let text: Option<String> =
        statement.query_row([key], |row| row.get(0)).optional().map_err(store_error)?;
    text.map(|text| read(text.as_bytes()))
        .transpose()
        .map_err(|error| StoreError::Corrupt { message: format!("the value `{key}`: {error}") })
}

pub(super) fn values(db: &Connection, prefix: &str) -> Result<Vec<(String, Value)>, StoreError> {
    // No name continues with the last of all characters.
    let query = "SELECT key, value FROM named WHERE key >= ?1 AND key < ?1 || char(1114111) ORDER BY key";
    let mut statement = db.prepare_cached(query).map_err(store_error)?;
    let rows = statement
        .query_map([prefix], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
        .map_err(store_error)?;
    let read = |row: rusqlite::Result<(String, String)>| {
        let (key, text) = row.map_err(store_error)?;
        let value = read(text.as_bytes())
            .map_err(|error| StoreError::Corrupt { message: format!("the value `{key}`: {error}") })?;
        Ok((key, value))
    };
    rows.map(read).collect()
}

pub(super) fn count(db: &Connection) -> Result<u64, StoreError> {
    let count = db.query_row("SELECT COUNT(*) FROM runs", [], |row| row.get::<_, i64>(0));
    count.map(i64::unsigned_abs).map_err(store_error)
}
