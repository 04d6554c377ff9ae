//! Policies as a person would write them, right and wrong.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use super::*;

const SPECIFIED: &str = r#"
version = 1
tier = "edit"
[workspace]
root = "."
[fs]
read = ["@workspace", "@system"]
write = ["@workspace"]
deny_read = ["**/.env*", "**/*.pem"]
protect = ["@vcs", "@autoexec"]
max_file_bytes = 4096
[net]
mode = "none"
[env]
pass = ["LANG", "TERM"]
[exec]
shell = "/bin/sh"
[[exec.rule]]
prefix = ["git", "push"]
decision = "ask"
match = ["git push origin"]
not_match = ["git pull", "git pushed"]
[limits]
wall_ms = 30000
output_kb = 256
[require]
layers = ["userns", "landlock", "seccomp"]
[wasm.calculator]
component = "tools/calculator.wasm"
sha256 = "00"
dirs = [{ host = "data", guest = "/data", mode = "ro" }]
net = []
fuel = 10000000000
[mcp.files]
command = ["some-mcp-server", "--stdio"]
tools = ["*"]
[approve]
ask = ["write_file", "edit_file", "run_command"]
[[expect]]
tool = "read_file"
path = "../x"
result = "denied"
[[expect]]
tool = "write_file"
path = "src/main.rs"
result = "allowed"
"#;

#[test]
fn every_section_is_read() {
    let policy = Policy::parse(SPECIFIED).unwrap();
    assert_eq!((policy.tier, policy.workspace.as_deref()), (Tier::Edit, Some(".")));
    assert!(policy.system_readable && policy.asks("edit_file") && !policy.asks("read_file"));
    assert_eq!(policy.grants(Mode::Edit).limits.max_file_bytes, 4096);
    assert_eq!(policy.grants(Mode::Edit).limits.max_output_bytes, 262_144);
    assert_eq!(policy.exec.rule.first().unwrap().decision, Decision::Ask);
    assert_eq!(policy.wasm["calculator"].dirs.first().unwrap().mode, DirMode::Ro);
    assert_eq!(policy.mcp["files"].tools, ["*"]);
}

#[test]
fn what_is_not_granted_is_denied() {
    for (text, reads, writes) in [
        ("version = 1", false, false),
        ("version = 1\ntier = \"edit\"", false, false),
        ("version = 1\n[fs]\nread = [\"@workspace\"]", false, false),
        (
            "version = 1\ntier = \"read\"\n[fs]\nread = [\"@workspace\"]\nwrite = [\"@workspace\"]",
            true,
            false,
        ),
        ("version = 1\ntier = \"edit\"\n[fs]\nread = [\"@workspace\"]", true, false),
        (
            "version = 1\ntier = \"exec\"\n[fs]\nread = [\"@workspace\"]\nwrite = [\"@workspace/a\"]",
            true,
            true,
        ),
    ] {
        let grants = Policy::parse(text).unwrap().grants(Mode::Edit);
        assert_eq!((grants.can_read(), grants.can_write()), (reads, writes), "{text}");
        assert!(!Policy::parse(text).unwrap().grants(Mode::Intel).can_write(), "{text}");
    }
    let defaults =
        Policy::parse("version = 1\ntier = \"edit\"\n[fs]\nread = [\".\"]\nwrite = [\".\"]").unwrap();
    assert!(
        defaults.check("read_file", "a/.env", Mode::Edit).is_err(),
        "secrets are closed unless it is said otherwise"
    );
    assert!(defaults.check("write_file", ".git/config", Mode::Edit).is_err());
    assert!(defaults.check("read_file", ".git/config", Mode::Edit).is_ok());
}

#[test]
fn a_mistake_is_named_with_its_line_and_a_hint() {
    for (text, message) in [
        ("version = 1\n[fs]\nraed = []", "unknown key \"raed\" at line 3; did you mean \"read\"?"),
        ("version = 1\n[fss]\nread = []", "unknown key \"fss\" at line 2; did you mean \"fs\"?"),
        (
            "version = 1\n\ntier = \"all\"",
            "unknown value \"all\" at line 3; it is one of off, read, edit, exec, exec-net",
        ),
        ("version = 2", "unknown version of the policy file at line 1; this program reads version = 1"),
        ("tier = \"read\"", "missing field \"version\" at line 1"),
        (
            "version = 1\n[fs]\nread = [\"@home\"]",
            "unknown place: \"@home\" at line 3; places are @workspace, @workspace/DIRECTORY and @system",
        ),
        (
            "version = 1\n[fs]\nread = [\n\".\",\n\"/etc\"]",
            "a granted directory is relative to the workspace: \"/etc\" at line 5; write it like \"notes\" or \"src/docs\"",
        ),
        (
            "version = 1\n[fs]\ndeny_read = [\"a[\"]",
            "bad pattern (unclosed character class; missing ']'): \"**/a[\" at line 3",
        ),
        ("version = 1\n[fs]\nwrite = [\"@system\"]", "@system cannot be written; leave it out of [fs] write"),
        (
            "version = 1\n[require]\nlayers = [\n\"landlok\"]",
            "unknown layer: \"landlok\" at line 4; layers are bubblewrap, userns, owner, mounts, processes, ipc, names, network, environment, descriptors, cgroup, limits, landlock, seccomp, broker; \"landlock>=6\" asks for a version",
        ),
        ("version = 1\n[mcp.x]\ncomand = []", "unknown key \"comand\" at line 3; did you mean \"command\"?"),
        (
            "version = 1\n[net]\nmode = \"proxy\"\nallow = [\"example.org\"]",
            "this is no host and port: it names no port: \"example.org\" at line 4; write it like \"api.example.org:443\"",
        ),
        (
            "version = 1\n[net]\nallow = [\"example.org:443\"]",
            "[net] allow counts only with mode = \"proxy\"; add mode = \"proxy\" to [net], or take allow away",
        ),
        (
            "version = 1\n[net]\nmode = \"proxy\"",
            "[net] mode = \"proxy\" allows no host; add allow = [\"host:443\"] to [net], or use mode = \"none\"",
        ),
        (
            "version = 1\n[mcp.x]\nurl = \"https://x.example\"\npass = [\"KEY\"]",
            "[mcp.x] grants a server elsewhere what it cannot be given: \"https://x.example\" at line 2; env, pass, read and network are for servers that are started here, by a command",
        ),
        (
            "version = 1\n[mcp.x]\ncommand = [\"x\"]\nenv = { \"A B\" = \"secret\" }",
            "[mcp.x] names a variable that is none: \"A B\" at line 2; names have letters, digits and _",
        ),
        (
            "version = 1\n[mcp.x]\ncommand = [\"x\"]\nread = [\"tools\"]",
            "[mcp.x] grants a path that is none: \"tools\" at line 2; write an absolute path, without .. and without control characters",
        ),
        (
            "version = 1\n[mcp.x]\ncommand = [\"x\"]\nnetwork = [\"*.example.org:443\"]",
            "this is no host and port: names are exact: list each host by itself, without a *: \"*.example.org:443\" at line 4; write it like \"api.example.org:443\"",
        ),
    ] {
        let error = Policy::parse(text).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Policy, message), "{text}");
    }
    let broken = Policy::parse("version = 1\nfs = [").unwrap_err();
    assert!(broken.line() == Some(2), "{broken}");
}

#[test]
fn examples_that_do_not_hold_refuse_the_policy() {
    let base =
        "version = 1\ntier = \"edit\"\n[fs]\nread = [\"@workspace\"]\nwrite = [\"@workspace/notes\"]\n";
    for (tool, path, holds) in [
        ("read_file", "a", "allowed"),
        ("read_file", "../a", "denied"),
        ("read_file", "/etc/passwd", "denied"),
        ("list_directory", ".", "allowed"),
        ("write_file", "notes/a", "allowed"),
        ("write_file", "notes/../a", "denied"),
        ("edit_file", "notes/.git/config", "denied"),
        ("search_codebase", "notes/.ENV", "denied"),
    ] {
        for result in ["allowed", "denied"] {
            let text =
                format!("{base}[[expect]]\ntool = \"{tool}\"\npath = \"{path}\"\nresult = \"{result}\"\n");
            match Policy::parse(&text) {
                Ok(_) => assert_eq!(result, holds, "{tool} {path}"),
                Err(error) => {
                    assert_ne!(result, holds, "{tool} {path}: {error}");
                    assert_eq!(error.line(), Some(6), "{error}");
                }
            }
        }
    }
    assert!(
        Policy::parse(&format!("{base}[[expect]]\ntool = \"rm\"\npath = \"a\"\nresult = \"denied\""))
            .is_err()
    );
    let rule = |fits: &str| {
        format!(
            "version = 1\n[[exec.rule]]\nprefix = [\"git\", \"push\"]\ndecision = \"ask\"\nmatch = [\"{fits}\"]"
        )
    };
    assert!(Policy::parse(&rule("git  push -f")).is_ok() && Policy::parse(&rule("git pull")).is_err());
}

#[test]
fn a_workspace_file_only_takes_away() {
    let user = Policy::parse(SPECIFIED).unwrap();
    let greedy = Policy::parse(
        "version = 1\ntier = \"exec-net\"\n[fs]\nread = [\"@workspace\"]\nwrite = [\"@workspace/notes\"]\ndeny_read = [\"extra\"]\nprotect = []\nmax_file_bytes = 999999999\n[net]\nmode = \"proxy\"\nallow = [\"example.org:443\"]\n[limits]\nwall_ms = 99999999\n[wasm.evil]\ncomponent = \"evil.wasm\"",
    )
    .unwrap();
    let narrowed = user.narrow(&greedy);
    assert_eq!((narrowed.tier, narrowed.net.mode), (Tier::Edit, NetMode::None));
    assert!(!narrowed.system_readable && !narrowed.wasm.contains_key("evil"));
    assert_eq!(narrowed.limits.wall_ms, Some(30_000));
    assert_eq!(narrowed.grants(Mode::Edit).limits.max_file_bytes, 4096);
    assert!(narrowed.asks("write_file"), "nobody is asked less");
    for (tool, path, allowed) in [
        ("write_file", "notes/a", true),
        ("write_file", "src/a", false),
        ("write_file", "notes/.git/a", false),
        ("read_file", "src/a", true),
        ("read_file", "src/extra", false),
        ("read_file", ".env", false),
    ] {
        assert_eq!(narrowed.check(tool, path, Mode::Edit).is_ok(), allowed, "{tool} {path}");
    }
}

#[test]
fn hosts_that_both_allow_are_left_and_servers_are_the_users_own() {
    let file = |hosts: &str, server: &str| {
        format!(
            "version = 1\ntier = \"exec-net\"\n[net]\nmode = \"proxy\"\nallow = [{hosts}]\n[mcp.x]\ncommand = [\"x\"]\n{server}"
        )
    };
    let mine = Policy::parse(&file("\"a.example:443\", \"b.example:443\"", "pass = [\"A\"]")).unwrap();
    let greedy = "env = { B = \"b\" }\npass = [\"C\"]\nread = [\"/opt\"]\nnetwork = [\"c.example:443\"]";
    let theirs = Policy::parse(&file("\"b.example:443\", \"c.example:443\"", greedy)).unwrap();
    let both = mine.narrow(&theirs);
    assert_eq!(both.net.allow, ["b.example:443"]);
    let server = both.mcp.get("x").unwrap();
    assert_eq!(server.powers(), ["sees A"]);
    let own = both.for_server(server);
    assert_eq!(
        (own.tier, own.net.mode),
        (Tier::Exec, NetMode::None),
        "the commands' network is not the server's"
    );
    // No tier is raised where no server may start.
    let low = Policy::parse(
        "version = 1\ntier = \"read\"\n[mcp.x]\ncommand = [\"x\"]\nnetwork = [\"c.example:443\"]",
    )
    .unwrap();
    assert_eq!(low.for_server(low.mcp.get("x").unwrap()).tier, Tier::Read);
}

#[test]
fn the_sample_policies_hold_what_they_expect() {
    for (name, text, tier) in [
        ("read-only", include_str!("../../policies/read-only.toml"), Tier::Read),
        ("notes", include_str!("../../policies/notes.toml"), Tier::Edit),
        ("coding", include_str!("../../policies/coding.toml"), Tier::Exec),
        ("online", include_str!("../../policies/online.toml"), Tier::ExecNet),
        ("locked-down", include_str!("../../policies/locked-down.toml"), Tier::Read),
        ("components", include_str!("../../policies/components.toml"), Tier::Read),
    ] {
        let policy = Policy::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(policy.tier, tier, "{name}");
        let n_expected = text.matches("[[expect]]").count();
        assert!(n_expected >= 2, "{name} gives examples of itself");
    }
    let locked = Policy::parse(include_str!("../../policies/locked-down.toml")).unwrap();
    assert!(locked.check("read_file", "docs/a.md", Mode::Edit).is_ok());
    assert!(locked.check("read_file", "src/a.rs", Mode::Edit).is_err());
}

#[test]
fn a_run_without_a_file_has_the_workspace_and_asks() {
    let intel = Policy::default_for(Mode::Intel);
    assert!(intel.grants(Mode::Edit).can_read() && !intel.grants(Mode::Edit).can_write());
    let edit = Policy::default_for(Mode::Edit);
    assert!(edit.grants(Mode::Edit).can_write() && edit.asks("write_file") && !edit.asks("read_file"));
    assert!(!edit.grants(Mode::Intel).can_write());
}

#[test]
fn less_confinement_is_asked_for_by_name_and_a_workspace_cannot_ask() {
    let with =
        |confinement: &str| Policy::parse(&format!("version = 1\n[require]\n{confinement}\n")).unwrap();
    let (silent, full, reduced) =
        (with(""), with("confinement = \"full\""), with("confinement = \"reduced\""));
    assert_eq!(silent.confinement, None);
    assert_eq!(silent.narrow(&reduced).confinement, None);
    assert_eq!(full.narrow(&reduced).confinement, Some(Confinement::Full));
    assert_eq!(reduced.narrow(&silent).confinement, Some(Confinement::Reduced));
    assert_eq!(reduced.narrow(&full).confinement, Some(Confinement::Full));
    let error = Policy::parse("version = 1\n[require]\nconfinement = \"weak\"\n").unwrap_err();
    assert!(error.to_string().contains("weak") && error.to_string().contains("reduced"), "{error}");
}
