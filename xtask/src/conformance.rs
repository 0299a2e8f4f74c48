//! Outside cases against the program, as a user would run it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::{judge, workspace};

/// Cases that fail, each with its reason. An unlisted failure fails, and so does a listed case that passes.
const KNOWN_FAILURES: &[(&str, &str)] = &[
    ("bfcl/simple_java_29/action", UNTYPED),
    ("bfcl/simple_java_29/action_json", UNTYPED),
    ("bfcl/simple_java_29/tool_call", UNTYPED),
    ("bfcl/simple_java_94/action", UNTYPED),
    ("bfcl/simple_java_94/action_json", UNTYPED),
    ("bfcl/simple_java_94/tool_call", UNTYPED),
    ("bfcl/simple_javascript_43/action", UNTYPED),
    ("bfcl/simple_javascript_43/action_json", UNTYPED),
    ("bfcl/simple_javascript_43/tool_call", UNTYPED),
];

/// A reason that several cases share.
const UNTYPED: &str =
    "the parameter declares no type, and there JSON text is JSON: `10` and `null` cannot mean texts";

/// What the user asked for.
struct Options {
    data: PathBuf,
    list: bool,
}

/// Runs every set that is there.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = options(arguments)?;
    let cases = options.data.join("cases");
    ensure!(cases.is_dir(), "{} holds no cases; name the folder with --data DIR", options.data.display());
    let weft = build()?;
    let mut failed = Vec::new();
    let mut total = 0;
    for set in judge::sets(&options.data)? {
        let result = set.run(&weft)?;
        println!("{}: {} passed, {} failed", set.name, result.passed, result.failed.len());
        total += result.passed + result.failed.len();
        for failure in &result.failed {
            let id = format!("{}/{}", set.name, failure.id);
            let known = KNOWN_FAILURES.iter().find(|(known, _)| *known == id);
            let reason = known.map(|(_, reason)| format!(" (known: {reason})")).unwrap_or_default();
            println!("  {}{reason}", failure.id);
            if options.list {
                println!("    want {}\n    got  {}", failure.wanted, failure.got);
            }
        }
        failed.extend(result.failed.into_iter().map(|failure| format!("{}/{}", set.name, failure.id)));
    }
    let known: Vec<&str> = KNOWN_FAILURES.iter().map(|(id, _)| *id).collect();
    let unlisted: Vec<&str> = failed.iter().map(String::as_str).filter(|id| !known.contains(id)).collect();
    let mended: Vec<&str> =
        known.iter().copied().filter(|id| !failed.iter().any(|failed| failed == id)).collect();
    println!("{} passed, {} failed", total - failed.len(), failed.len());
    if !mended.is_empty() {
        bail!("these are listed as failures and pass: {}", mended.join(", "));
    }
    if !unlisted.is_empty() {
        bail!("{} failures that are not listed with a reason", unlisted.len());
    }
    Ok(())
}

fn options(arguments: &[String]) -> Result<Options> {
    let mut options = Options { data: workspace::root().join("../shared"), list: false };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--data" => options.data = PathBuf::from(rest.next().context("--data wants a folder")?),
            "--list" => options.list = true,
            other => bail!("`{other}` is no option of conformance"),
        }
    }
    Ok(options)
}

/// Builds the program and gives its path.
fn build() -> Result<PathBuf> {
    workspace::run("cargo", &["build", "--quiet", "--package", "weft-cli"])?;
    let metadata = workspace::metadata()?;
    let path = metadata.target_directory.as_std_path().join("debug").join("weft");
    let path = if path.is_file() { path } else { path.with_extension("exe") };
    ensure!(path.is_file(), "{} was not built", path.display());
    Ok(path)
}

/// Feeds lines to a program and gives the lines that it prints.
pub(crate) fn lines_through(program: &Path, arguments: &[&str], input: String) -> Result<Vec<String>> {
    use std::io::Write;
    use std::process::Stdio;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| program.display().to_string())?;
    let mut stdin = child.stdin.take().context("stdin is piped")?;
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output()?;
    writer.join().map_err(|_| anyhow::anyhow!("the writer failed"))??;
    ensure!(output.status.success(), "{} ended with {}", program.display(), output.status);
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
}
