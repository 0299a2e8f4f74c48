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
        let reserve = Self(with_suffix(path, "-reserve"));
        reserve.fill();
        reserve
    }

    /// Takes the room, where there is any. The reserve appears as a whole or not at all: others may do the same, or end in
    /// the middle of it.
    pub(crate) fn fill(&self) {
        if std::fs::metadata(&self.0).is_ok_and(|file| file.len() == BYTES as u64) {
            return;
        }
        let own = with_suffix(&self.0, &format!(".{}", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        // Another thread takes the room.
        let Ok(mut file) = options.open(&own) else { return };
        let filled = file.write_all(&vec![0; BYTES]).and_then(|()| std::fs::rename(&own, &self.0));
        if filled.is_err() {
            // A part of it would be no help, and is room for others.
            let _ = std::fs::remove_file(&own);
        }
    }

    /// Gives the room up. Returns `true` if there was any.
    pub(crate) fn release(&self) -> bool {
        std::fs::remove_file(&self.0).is_ok()
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n21_one_that_finds_the_room_taken_does_not_give_it_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weft.db");
        // The rest of a process that ended while it took the room.
        std::fs::write(with_suffix(&path, "-reserve"), [0; 100]).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let reserve = Reserve::beside(&path);
                        reserve.fill();
                    }
                });
            }
        });
        let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        assert_eq!(files[0].metadata().unwrap().len(), BYTES as u64);
    }

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
