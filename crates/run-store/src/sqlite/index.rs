//! Full-text search in the store's own file (FTS5).
//!
//! Words lie in a column of their own, pairs of letters of scripts without blanks in another one: FTS5 knows no word
//! of two Chinese letters by itself.

use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, params};

use super::{Sqlite, store_error};
use crate::text_index::{is_pair, terms};
use crate::{Hit, Passage, StoreError, TextIndex};

/// The index of one knowledge base, in the file of a store.
#[derive(Debug)]
pub struct SqliteIndex {
    name: String,
    connection: Mutex<Connection>,
}

impl Sqlite {
    /// The index of that name; empty if it is new.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn index(&self, name: &str) -> Result<SqliteIndex, StoreError> {
        let connection = super::connect(&self.path)?;
        Ok(SqliteIndex { name: name.to_owned(), connection: Mutex::new(connection) })
    }
}

impl SqliteIndex {
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock()
    }

    /// The passages that fit best, best first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn try_search(&self, query: &str, limit: usize) -> Result<Vec<Hit>, StoreError> {
        let (words, pairs) = columns(query);
        let any = |column: &str, terms: &[String]| {
            let quoted: Vec<String> = terms.iter().map(|term| format!("\"{term}\"")).collect();
            (!quoted.is_empty()).then(|| format!("{column} : ({})", quoted.join(" OR ")))
        };
        let wanted: Vec<String> =
            [any("words", &words), any("pairs", &pairs)].into_iter().flatten().collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let sql = "SELECT passages.source, passages.text, passage_terms.rank FROM passage_terms
            JOIN passages ON passages.id = passage_terms.rowid
            WHERE passage_terms MATCH ?1 AND passages.kb = ?2 ORDER BY passage_terms.rank, passages.id LIMIT ?3";
        let connection = self.connection();
        let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![wanted.join(" OR "), self.name, limit], |row| {
            let passage = Passage { source: row.get(0)?, text: row.get(1)? };
            // FTS5 gives better passages a lower rank.
            Ok(Hit { passage, score: -row.get::<_, f64>(2)? })
        });
        rows.map_err(store_error)?.collect::<Result<_, _>>().map_err(store_error)
    }

    /// Takes these passages in the place of all it has.
    ///
    /// # Errors
    /// The store cannot be written; it has what it had then.
    pub fn try_replace(&self, passages: &[Passage]) -> Result<(), StoreError> {
        let mut connection = self.connection();
        let begin = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate);
        let transaction = begin.map_err(store_error)?;
        let write = || {
            let old = "DELETE FROM passage_terms WHERE rowid IN (SELECT id FROM passages WHERE kb = ?1)";
            transaction.execute(old, [&self.name])?;
            transaction.execute("DELETE FROM passages WHERE kb = ?1", [&self.name])?;
            let mut passage =
                transaction.prepare_cached("INSERT INTO passages (kb, source, text) VALUES (?1, ?2, ?3)")?;
            let mut entry = transaction
                .prepare_cached("INSERT INTO passage_terms (rowid, words, pairs) VALUES (?1, ?2, ?3)")?;
            for Passage { source, text } in passages {
                let id = passage.insert(params![self.name, source, text])?;
                let (mut words, mut pairs) = columns(text);
                let (more_words, more_pairs) = columns(source);
                words.extend(more_words);
                pairs.extend(more_pairs);
                entry.execute(params![id, words.join(" "), pairs.join(" ")])?;
            }
            Ok(())
        };
        write().map_err(store_error)?;
        transaction.commit().map_err(store_error)
    }
}

/// Words and pairs of a text.
fn columns(text: &str) -> (Vec<String>, Vec<String>) {
    terms(text).into_iter().partition(|term| !is_pair(term))
}

impl TextIndex for SqliteIndex {
    fn search(&self, query: &str, limit: usize) -> Vec<Hit> {
        // A tool that finds nothing is better than one that is not there.
        self.try_search(query, limit).unwrap_or_default()
    }

    fn replace(&self, passages: Vec<Passage>) {
        let _ = self.try_replace(&passages);
    }
}
