//! Runs as they happen, for any number of readers.

pub(crate) mod conversation;
mod hub;
mod socket;
mod sse;
mod subscription;

pub(crate) use hub::Hubs;
pub(crate) use socket::{open as open_socket, send_frame};
pub(crate) use sse::stream as event_stream;
pub(crate) use subscription::{Subscription, read_page};
