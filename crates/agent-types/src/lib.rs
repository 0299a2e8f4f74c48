//! What every layer of weft agrees on.
