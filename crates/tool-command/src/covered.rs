//! Files that an approval covers: the program and the scripts among its arguments.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};
use tool_registry::{ToolError, ToolErrorKind};

use crate::argument::Argument;

/// Files that a call runs, with SHA-256 of each as it was.
#[derive(Debug, Clone, Default)]
pub(crate) struct CoveredFiles {
    root: PathBuf,
    /// Paths that may be files, by their names in the tool's file.
    paths: BTreeMap<String, PathBuf>,
    digests: BTreeMap<String, String>,
}

impl CoveredFiles {
    /// The files of a command: its program, and each argument that is a file inside the project, seen from `folder`. The
    /// arguments of a call that changes nothing are its data, and may change.
    pub(crate) fn new(
        root: &Path,
        folder: &Path,
        program: &str,
        arguments: &[Argument],
        read_only: bool,
    ) -> Self {
        let mut paths = BTreeMap::new();
        if program.contains('/') {
            paths.insert(program.to_owned(), root.join(program));
        }
        for argument in arguments.iter().filter(|_| !read_only) {
            if let Argument::Literal(text) = argument
                && !text.is_empty()
            {
                paths.entry(text.clone()).or_insert_with(|| folder.join(text));
            }
        }
        let mut covered = Self { root: root.to_owned(), paths, digests: BTreeMap::new() };
        covered.digests = covered.now(program);
        covered
    }

    /// The digests by the names of the files.
    pub(crate) const fn digests(&self) -> &BTreeMap<String, String> {
        &self.digests
    }

    /// Checks that the files are as they were.
    ///
    /// # Errors
    /// One has changed, or is new, or is gone.
    pub(crate) fn check(&self, program: &str) -> Result<(), ToolError> {
        let now = self.now(program);
        let names = self.digests.keys().chain(now.keys());
        let Some(changed) = names.into_iter().find(|name| self.digests.get(*name) != now.get(*name)) else {
            return Ok(());
        };
        let message = format!(
            "`{changed}` has changed since the tool was read, and an approval counts for it as it was"
        );
        let help = "check the file and call again; a file that the program itself changes is named by a parameter or in `env`";
        Err(ToolError::new(ToolErrorKind::Refused, message).with_code("command_changed").with_detail(help))
    }

    fn now(&self, program: &str) -> BTreeMap<String, String> {
        let covered =
            self.paths.iter().filter(|(name, path)| name.as_str() == program || self.holds(name, path));
        // A file that cannot be read has a digest too: it differs from what can.
        let digest = |path: &Path| digest(path).unwrap_or_else(|error| error.kind().to_string());
        let files = covered.filter(|(_, path)| path.is_file());
        files.map(|(name, path)| (name.clone(), digest(path))).collect()
    }

    /// Returns `true` for a path inside the project, by its name or behind links.
    fn holds(&self, name: &str, path: &Path) -> bool {
        let steps = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        Path::new(name).components().all(steps)
            || path.canonicalize().is_ok_and(|path| {
                path.starts_with(&self.root)
                    || self.root.canonicalize().is_ok_and(|root| path.starts_with(root))
            })
    }
}

fn digest(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut file = File::open(path)?;
    let mut piece = vec![0; 64 * 1024];
    loop {
        match io::Read::read(&mut file, &mut piece)? {
            0 => return Ok(format!("{:x}", hash.finalize())),
            read => hash.update(&piece[..read]),
        }
    }
}
