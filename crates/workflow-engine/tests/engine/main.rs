//! Whole runs of small workflows in virtual time.

mod common;
mod dag;
mod zones;
