//! Exceptions to the limits of shape, each with its reason.

use serde::Deserialize;

/// The file of exceptions.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exceptions {
    /// Types with more methods than others may have.
    #[serde(default)]
    pub(super) methods: Vec<Type>,
    /// Types with more fields of shared visibility than others may have.
    #[serde(default)]
    pub(super) shared_fields: Vec<Type>,
    /// Circles of more files than others may have.
    #[serde(default)]
    pub(super) circle: Vec<CircleException>,
}

/// A type that may be larger than others.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Type {
    #[serde(rename = "crate")]
    pub(super) package: String,
    #[serde(rename = "type")]
    pub(super) name: String,
    /// Most methods or fields that it may have.
    pub(super) most: usize,
    pub(super) reason: String,
}

/// A circle that may be larger than others.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CircleException {
    #[serde(rename = "crate")]
    pub(super) package: String,
    /// Number of its files. It only shrinks.
    pub(super) files: usize,
    pub(super) reason: String,
}
