//! Files that only their user reads: runs hold what was said and sent.

use std::fs::DirBuilder;
#[cfg(feature = "sqlite")]
use std::fs::OpenOptions;
use std::io::{Error, ErrorKind};
use std::path::Path;

#[cfg(feature = "sqlite")]
use crate::StoreError;

/// Folder of a project that holds nothing but what weft writes.
const OWN_FOLDER: &str = ".weft";

/// Makes the folder and the file of a store, for their user only. A file of earlier versions becomes so.
///
/// # Errors
/// One of them is a link, which could lead anywhere, or cannot be made.
#[cfg(feature = "sqlite")]
pub(crate) fn prepare(path: &Path) -> Result<(), StoreError> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        make_folder(folder).map_err(|error| StoreError::file(folder, &error))?;
    }
    make_file(path).map_err(|error| StoreError::file(path, &error))
}

/// Makes a folder for its user only.
pub(crate) fn make_folder(folder: &Path) -> Result<(), Error> {
    let is_own = folder.file_name().is_some_and(|name| name == OWN_FOLDER);
    if is_own {
        refuse_link(folder)?;
    }
    if folder.is_dir() {
        return if is_own { restrict(folder) } else { Ok(()) };
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(feature = "sqlite")]
fn make_file(path: &Path) -> Result<(), Error> {
    refuse_link(path)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => restrict(path),
        Err(error) => Err(error),
    }
}

/// Refuses what is a link.
pub(crate) fn refuse_link(path: &Path) -> Result<(), Error> {
    if path.is_symlink() {
        let message = "it is a link, and nothing is written through links";
        return Err(Error::new(ErrorKind::PermissionDenied, message));
    }
    Ok(())
}

/// Takes the rights of others.
#[cfg(unix)]
fn restrict(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(path)?.permissions().mode();
    let of_others = mode & 0o077;
    if of_others == 0 {
        return Ok(());
    }
    match std::fs::set_permissions(path, PermissionsExt::from_mode(mode & 0o700)) {
        // Another user owns it, who decides.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        restricted => restricted,
    }
}

/// Other systems take the rights of the folder.
#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "as on systems that have modes")]
const fn restrict(_: &Path) -> Result<(), Error> {
    Ok(())
}

#[cfg(all(test, unix, feature = "sqlite"))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::{Sqlite, Sync};

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).map_or(0, |meta| meta.permissions().mode() & 0o777)
    }

    #[test]
    fn n16_a_store_is_for_its_user_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".weft/weft.db");
        drop(Sqlite::open(&path, Sync::Normal).unwrap());
        assert_eq!((mode(path.parent().unwrap()), mode(&path)), (0o700, 0o600));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        std::fs::set_permissions(path.parent().unwrap(), PermissionsExt::from_mode(0o755)).unwrap();
        drop(Sqlite::open(&path, Sync::Normal).unwrap());
        assert_eq!((mode(path.parent().unwrap()), mode(&path)), (0o700, 0o600));
    }

    #[test]
    fn n24_a_store_is_not_written_through_links() {
        let folder = tempfile::tempdir().unwrap();
        let (target, project) = (folder.path().join("target"), folder.path().join("project"));
        std::fs::create_dir_all(project.join("x")).unwrap();
        std::fs::create_dir(&target).unwrap();
        symlink(&target, project.join(".weft")).unwrap();
        symlink(target.join("other.db"), project.join("x/weft.db")).unwrap();
        for path in [project.join(".weft/weft.db"), project.join("x/weft.db")] {
            let error = Sqlite::open(&path, Sync::Normal).err().unwrap();
            assert!(error.to_string().contains("it is a link"), "{error}");
        }
        assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
    }
}
