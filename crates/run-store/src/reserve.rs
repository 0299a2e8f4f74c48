//! Room on the disk that is kept for removing: a removal writes before it frees.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Bytes that are kept.
const BYTES: usize = 1 << 20;

/// A file whose room is given up when the disk is full.
#[derive(Debug)]
pub(crate) struct Reserve(PathBuf);

impl Reserve {
    /// The reserve beside a file, filled if there is room.
    pub(crate) fn beside(path: &Path) -> Self {
        let mut name = path.as_os_str().to_owned();
        name.push("-reserve");
        let reserve = Self(name.into());
        if !reserve.0.exists() {
            reserve.fill();
        }
        reserve
    }

    /// Takes the room, where there is any.
    pub(crate) fn fill(&self) {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options.open(&self.0).and_then(|mut file| file.write_all(&vec![0; BYTES]));
        if written.is_err() {
            // A part of it would be no help, and is room for others.
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// Gives the room up. Returns `true` if there was any.
    pub(crate) fn release(&self) -> bool {
        std::fs::remove_file(&self.0).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n21_room_is_kept_given_up_and_taken_again() {
        let folder = tempfile::tempdir().unwrap();
        let reserve = Reserve::beside(&folder.path().join("weft.db"));
        assert_eq!(std::fs::metadata(&reserve.0).unwrap().len(), BYTES as u64);
        assert!(reserve.release() && !reserve.release());
        reserve.fill();
        assert!(reserve.release());
    }
}
