//! `toolgate mcp add`, `list` and `remove`, with packages that are made here: nothing is fetched from a network.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Field, toolgate};
use crate::skip;

impl Field {
    /// Runs the program with a data directory of its own: exit code, what it printed, what it said.
    fn with_data(&self, arguments: &[&str]) -> (i32, String, String) {
        let data = self.base.path().join("data");
        let mut command = toolgate();
        command.args(arguments).current_dir(&self.ws).env("TOOLGATE_DATA", data).stdin(Stdio::null());
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn installed(&self, name: &str) -> PathBuf {
        self.base.path().join("data/mcp").join(name)
    }

    /// What the only tool of an added server says, where commands can be confined.
    fn started_with(&self, policy: &str) -> Option<String> {
        if !crate::cli::commands_work() {
            return None;
        }
        let (code, result, said) =
            self.with_data(&["tool", "call", "started_with", "{}", "--policy", policy]);
        assert_eq!(code, 0, "{result}{said}");
        let result: Value = serde_json::from_str(&result).unwrap();
        Some(result["content"].as_str().unwrap().to_owned())
    }
}

/// A package of npm, packed. Its script would leave a trace.
fn tarball(base: &Path) -> String {
    let package = base.join("package");
    std::fs::create_dir(&package).unwrap();
    let trace = base.join("trace");
    let about = serde_json::json!({
        "name": "@example/packed", "version": "1.2.3", "bin": {"packed": "server.js"},
        "scripts": {"postinstall": format!("touch {}", trace.display())},
    });
    std::fs::write(package.join("package.json"), about.to_string()).unwrap();
    std::fs::write(package.join("server.js"), include_str!("../fixtures/server.js")).unwrap();
    let packed = Command::new("npm")
        .args(["pack", "--silent", "--ignore-scripts", "--pack-destination"])
        .arg(base)
        .arg(&package)
        .output()
        .unwrap();
    let name = String::from_utf8(packed.stdout).unwrap();
    base.join(name.trim()).to_string_lossy().into_owned()
}

/// A package of Python as a wheel. A file in it would leave a trace whenever an interpreter started.
fn wheel(base: &Path) -> String {
    let path = base.join("packed_server-1.2.3-py3-none-any.whl");
    let mut wheel = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    let trace = format!("import pathlib; pathlib.Path({:?}).touch()\n", base.join("trace"));
    let info = "packed_server-1.2.3.dist-info";
    for (name, text) in [
        ("packed_server.py".to_owned(), include_str!("../fixtures/server.py").to_owned()),
        ("packed_server.pth".to_owned(), trace),
        (
            format!("{info}/METADATA"),
            "Metadata-Version: 2.1\nName: packed-server\nVersion: 1.2.3\n".to_owned(),
        ),
        (
            format!("{info}/WHEEL"),
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n".to_owned(),
        ),
        (
            format!("{info}/entry_points.txt"),
            "[console_scripts]\npacked-server = packed_server:main\n".to_owned(),
        ),
        (format!("{info}/RECORD"), String::new()),
    ] {
        wheel.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        wheel.write_all(text.as_bytes()).unwrap();
    }
    wheel.finish().unwrap();
    path.to_string_lossy().into_owned()
}

#[test]
fn a_package_of_npm_is_installed_once_and_started_in_the_sandbox() {
    if !(skip::program("npm") && skip::program("node")) {
        return;
    }
    let field = Field::new();
    let package = tarball(field.base.path());
    let policy =
        field.policy("# mine\nversion = 1\ntier = \"exec\"\n[fs]\nread = [\"@workspace\", \"@system\"]\n");
    let add = ["mcp", "add", "packed", "--policy", &policy];
    let fetch = ["--", "npx", "-y", &package, "--root", "."];
    // Nobody can be asked here.
    let (code, _, said) = field.with_data(&[&add[..], &fetch].concat());
    assert!(code == 2 && said.contains("--yes") && !field.installed("packed").exists(), "{code} {said}");
    let (code, _, said) = field.with_data(&[&add[..], &["--yes"], &fetch].concat());
    assert!(code == 0 && said.contains("@example/packed 1.2.3 is installed in"), "{said}");
    assert!(!field.base.path().join("trace").exists(), "its script was run");
    assert!(field.installed("packed").join("package-lock.json").exists());
    let written = std::fs::read_to_string(&policy).unwrap();
    assert!(written.starts_with("# mine\n") && written.contains("read = ["), "{written}");
    if let Some(said) = field.started_with(&policy) {
        assert_eq!(said, "started with --root .");
    }
    let (code, listed, _) = field.with_data(&["mcp", "list", "--policy", &policy]);
    assert!(code == 0 && listed.contains("packed  ") && listed.contains("    reads /"), "{listed}");
    let (_, listed, said) = field.with_data(&["mcp", "list"]);
    assert!(listed.contains("packed  installed") && !said.contains("mcp add"), "{listed} {said}");
    let (code, _, said) = field.with_data(&[&add[..], &["--yes"], &fetch].concat());
    assert!(code == 2 && said.contains("already: toolgate mcp remove packed"), "{said}");
    let (code, _, said) = field.with_data(&["mcp", "remove", "packed", "--policy", &policy]);
    assert!(code == 0 && !field.installed("packed").exists(), "{said}");
    assert!(!std::fs::read_to_string(&policy).unwrap().contains("mcp"));
    let (code, _, said) = field.with_data(&["mcp", "remove", "packed", "--policy", &policy]);
    assert!(code == 2 && said.contains("no server packed"), "{said}");
}

#[test]
fn a_package_of_python_is_installed_once_and_none_of_its_code_runs_outside() {
    if !skip::program("python3") {
        return;
    }
    let field = Field::new();
    let package = wheel(field.base.path());
    let policy = field.base.path().join("new.toml").to_string_lossy().into_owned();
    let (code, _, said) = field.with_data(&[
        "mcp", "add", "packed", "--yes", "--policy", &policy, "--", "uvx", &package, "--root", ".",
    ]);
    if code != 0 && said.contains("venv") {
        return skip::optional(&format!("install python3-venv: {said}"));
    }
    assert!(code == 0 && said.contains("packed-server 1.2.3 is installed in"), "{said}");
    assert!(!field.base.path().join("trace").exists(), "its code was run");
    let pinned = std::fs::read_to_string(field.installed("packed").join("requirements.txt")).unwrap();
    assert_eq!(pinned, "packed-server==1.2.3\n");
    if let Some(said) = field.started_with(&policy) {
        assert_eq!(said, "started with --root .");
    }
    assert!(!field.base.path().join("trace").exists(), "it reaches out of the sandbox");
    let (code, ..) = field.with_data(&["mcp", "remove", "packed"]);
    assert!(code == 0 && !field.installed("packed").exists());
}

#[test]
fn a_command_that_fetches_nothing_is_only_added_and_what_is_wrong_costs_nothing() {
    let field = Field::new();
    let (code, printed, said) = field.with_data(&[
        "mcp",
        "add",
        "notes",
        "--env",
        "KEY",
        "--env",
        "UNITS=metric",
        "--network",
        "api.example.org:443",
        "--read",
        "/opt/node",
        "--",
        "/bin/sh",
        "server.sh",
    ]);
    assert_eq!(code, 0, "{said}");
    let policy = toolgate_sandbox::policy::Policy::parse(&format!("version = 1\n{printed}")).unwrap();
    let server = &policy.mcp["notes"];
    assert_eq!(server.command, ["/bin/sh", "server.sh"]);
    assert_eq!(
        server.powers(),
        ["sees UNITS, KEY", "reads /opt/node", "reaches api.example.org:443"],
        "{printed}"
    );
    for (arguments, why) in [
        (&["a/b", "--", "sh"][..], "letters"),
        (&["a", "--network", "example.org", "--yes", "--", "npx", "x"], "names no port"),
        (&["a", "--env", "A B=1", "--yes", "--", "npx", "x"], "variable"),
        (&["a", "--yes", "--", "npx", "-c", "x"], "option -c"),
    ] {
        let (code, printed, said) = field.with_data(&[&["mcp", "add"][..], arguments].concat());
        assert!(code == 2 && printed.is_empty() && said.contains(why), "{arguments:?}: {code} {said}");
        assert!(!field.installed("a").exists());
    }
    if skip::program("npm") {
        let missing = field.base.path().join("missing.tgz").to_string_lossy().into_owned();
        let (code, _, said) = field.with_data(&["mcp", "add", "a", "--yes", "--", "npx", &missing]);
        assert!(code == 2 && said.contains("npm pack"), "{said}");
        let broken = field.base.path().join("broken.tgz");
        std::fs::write(&broken, "none").unwrap();
        let (code, _, said) =
            field.with_data(&["mcp", "add", "a", "--yes", "--", "npx", broken.to_str().unwrap()]);
        assert!(code == 2 && said.contains("npm could not install it"), "{said}");
        assert!(!field.installed("a").exists(), "nothing half-done is left");
    }
}

#[test]
fn removing_takes_nothing_away_but_what_was_installed_under_that_name() {
    let field = Field::new();
    let data = field.base.path().join("data");
    for kept in ["mcp/a/b", "mcp/other", "kept"] {
        std::fs::create_dir_all(data.join(kept)).unwrap();
    }
    for name in ["/", "//", "/.", "..", ".", "a/", "a/b", "a/.", "", "../kept", "a\\b"] {
        let (code, _, said) = field.with_data(&["mcp", "remove", "--", name]);
        assert!(code == 2 && said.contains("letters, digits"), "{name:?}: {said}");
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(data.join("kept"), data.join("mcp/link")).unwrap();
        for name in ["link", "link/"] {
            let (code, _, said) = field.with_data(&["mcp", "remove", name]);
            assert!(code == 2, "{name}: {said}");
        }
    }
    // Of that name, but installed for another policy.
    let own = "version = 1\n[mcp.a]\ncommand = [\"sh\"]\n[mcp.other]\ncommand = [\"sh\"]\n";
    let read = format!("read = [{:?}]\n", data.join("mcp/other"));
    let policy = field.policy(&format!("{own}{read}"));
    let (code, _, said) = field.with_data(&["mcp", "remove", "a", "--policy", &policy]);
    assert!(code == 0 && said.contains("stays"), "{said}");
    for kept in ["mcp/a/b", "mcp/other", "kept"] {
        assert!(data.join(kept).is_dir(), "{kept}");
    }
    let (code, _, said) = field.with_data(&["mcp", "remove", "other", "--policy", &policy]);
    assert!(code == 0 && !data.join("mcp/other").exists(), "{said}");
    let (code, _, said) = field.with_data(&["mcp", "remove", "a"]);
    assert!(code == 0 && !data.join("mcp/a").exists(), "{said}");
}

/// An `npm` in front of the real one: it notes its arguments, and somebody saves the policy meanwhile.
#[cfg(unix)]
#[test]
fn what_somebody_saves_while_a_package_is_fetched_stays_and_git_is_not_asked() {
    use std::os::unix::fs::PermissionsExt as _;
    let field = Field::new();
    let policy = field.policy("version = 1\ntier = \"exec\"\n");
    let bin = field.base.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let npm = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$@\" > '{0}/arguments'\nprintf '# saved meanwhile\\n' >> '{1}'\n\
         while [ \"$1\" != --prefix ]; do shift; done\nmkdir -p \"$2/node_modules/notes\"\n\
         printf '{{\"dependencies\": {{\"notes\": \"1.0.0\"}}}}' > \"$2/package.json\"\n\
         printf '{{\"version\": \"1.0.0\", \"bin\": \"notes.js\"}}' > \"$2/node_modules/notes/package.json\"\n\
         : > \"$2/node_modules/notes/notes.js\"\n",
        field.base.path().display(),
        policy
    );
    for (name, text) in [("npm", npm), ("node", "#!/bin/sh\nprintf /bin/sh\n".to_owned())] {
        std::fs::write(bin.join(name), text).unwrap();
        std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = toolgate();
    command.args(["mcp", "add", "notes", "--yes", "--policy", &policy, "--", "npx", "notes"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    command.env("TOOLGATE_DATA", field.base.path().join("data")).current_dir(&field.ws);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let written = std::fs::read_to_string(&policy).unwrap();
    assert!(written.contains("[mcp.notes]") && written.contains("# saved meanwhile"), "{written}");
    let arguments = std::fs::read_to_string(field.base.path().join("arguments")).unwrap();
    for wanted in ["--allow-git=none", "--ignore-scripts"] {
        assert!(arguments.lines().any(|argument| argument == wanted), "{arguments}");
    }
}

#[test]
fn an_empty_list_says_so_and_how_a_server_is_added() {
    let field = Field::new();
    let policy = field.policy("version = 1\n");
    for (arguments, place) in
        [(vec!["mcp", "list"], ""), (vec!["mcp", "list", "--policy", &policy], policy.as_str())]
    {
        let (code, listed, said) = field.with_data(&arguments);
        assert!(code == 0 && listed.is_empty(), "{code} {listed}");
        assert!(
            said.contains("no server") && said.contains(place) && said.contains("toolgate mcp add"),
            "{said}"
        );
    }
}
