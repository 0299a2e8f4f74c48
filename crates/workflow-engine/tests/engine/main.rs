//! Whole runs of small workflows in virtual time.

mod caching;
mod common;
mod dag;
mod groups;
mod laws;
mod streams;
mod waiting;
mod zones;
