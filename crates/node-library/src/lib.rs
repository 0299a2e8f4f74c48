//! The core nodes of weft.
