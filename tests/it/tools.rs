//! Tools as an embedder and the loop use them: check before call, results for every mistake.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use toolgate::memory::Memory;
use toolgate::tools::{
    CannedTool, MEMORY_TOOLS, Registry, Source, Status, Tool, file_tools, memory_tools, typed,
};
use toolgate_sandbox::policy::{Mode, Policy};
use toolgate_sandbox::{Root, ambient_authority};

/// The file tools over a directory.
pub(crate) fn registry_of(dir: &Path, policy: &Policy, mode: Mode) -> Registry {
    let root = Root::open(dir, ambient_authority()).unwrap();
    let mut registry = Registry::new();
    for tool in file_tools(&root, policy, mode).unwrap() {
        registry.add(tool).unwrap();
    }
    registry
}

fn workspace(mode: Mode) -> (tempfile::TempDir, Registry) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "one\ntwo\nthree\n").unwrap();
    let registry = registry_of(dir.path(), &Policy::default_for(mode), mode);
    (dir, registry)
}

fn check(registry: &Registry, name: &str, arguments: serde_json::Value, status: Status, says: &str) {
    let result = registry.call_json(name, &arguments.to_string());
    assert_eq!(result.status, status, "{name} {arguments}: {}", result.content);
    assert!(result.content.contains(says), "{name} {arguments}: {:?} lacks {says:?}", result.content);
}

#[test]
fn intel_reads_and_edit_writes() {
    let (_dir, intel) = workspace(Mode::Intel);
    assert_eq!(intel.names(), ["read_file", "list_directory", "search_codebase"]);
    check(&intel, "read_file", json!({"path": "a.txt", "start_line": 2, "max_lines": 1}), Status::Ok, "two");
    check(&intel, "write_file", json!({"path": "b", "content": ""}), Status::Failed, "there is no tool");

    let (dir, edit) = workspace(Mode::Edit);
    check(&edit, "write_file", json!({"path": "n/b.txt", "content": "x"}), Status::Ok, "n/b.txt");
    check(&edit, "write_file", json!({"path": "/n/b.txt", "content": "y"}), Status::Denied, "outside");
    check(&edit, "create_file", json!({"path": "n/b.txt", "content": "y"}), Status::Failed, "n/b.txt");
    check(
        &edit,
        "edit_file",
        json!({"path": "a.txt", "old_text": "two", "new_text": "2"}),
        Status::Ok,
        "a.txt",
    );
    assert_eq!(std::fs::read_to_string(dir.path().join("a.txt")).unwrap(), "one\n2\nthree\n");
    assert_eq!(std::fs::read_to_string(dir.path().join("n/b.txt")).unwrap(), "x");
}

#[test]
fn what_a_file_tool_showed_can_be_given_back() {
    let (dir, edit) = workspace(Mode::Edit);
    let file = dir.path().join("old.c");
    std::fs::write(&file, b"// caf\xe9\r\nint port = 80;\nint x;\r\n").unwrap();
    let read = edit.call_json("read_file", r#"{"path": "old.c"}"#);
    assert_eq!(read.content, "// café\nint port = 80;\nint x;\n[encoding: windows-1252]");
    assert_eq!(read.data.unwrap()["encoding"], "windows-1252");
    let (old, new) = ("// café\nint port = 80;\n", "// café\nint port = 90;\nint y;\n");
    let call = json!({"path": "old.c", "old_text": old, "new_text": new});
    check(&edit, "edit_file", call, Status::Ok, "still in windows-1252");
    let now = b"// caf\xe9\r\nint port = 90;\nint y;\nint x;\r\n";
    assert_eq!(std::fs::read(&file).unwrap(), now);
    let shown = edit.call_json("read_file", r#"{"path": "old.c"}"#).content;
    let back = json!({"path": "old.c", "content": shown.replace("int x;", "int z;")});
    check(&edit, "write_file", back, Status::Ok, "replaced \"old.c\" (4 lines");
    assert_eq!(std::fs::read(&file).unwrap(), b"// caf\xe9\r\nint port = 90;\nint y;\nint z;\r\n");
    let lacking = json!({"path": "old.c", "old_text": "int z;", "new_text": "int z; // 日"});
    check(&edit, "edit_file", lacking, Status::Failed, "windows-1252, which has no \"日\" (U+65E5)");
    std::fs::write(dir.path().join("long.js"), "x".repeat(300_000)).unwrap();
    let cut = "characters 1-261888 of 300000; to read on: start_line 1, start_column 261889]";
    check(&edit, "read_file", json!({"path": "long.js"}), Status::Ok, cut);
    let rest = edit.call_json("read_file", r#"{"path": "long.js", "start_column": 261889}"#);
    assert_eq!(rest.content, "x".repeat(300_000 - 261_888));
}

#[test]
fn every_mistake_of_a_call_is_a_result() {
    let (_dir, registry) = workspace(Mode::Intel);
    check(&registry, "open_file", json!({"path": "a.txt"}), Status::Failed, "read_file, list_directory");
    check(&registry, "read_file", json!({}), Status::Failed, "path");
    check(&registry, "read_file", json!({"path": 3}), Status::Failed, "/path");
    check(&registry, "read_file", json!({"path": "a.txt", "max_lines": -1}), Status::Failed, "/max_lines");
    check(&registry, "read_file", json!({"path": "b.txt"}), Status::Failed, "a.txt");
    check(&registry, "read_file", json!({"path": "../a.txt"}), Status::Denied, "outside");
    check(&registry, "read_file", json!({"path": "/etc/passwd"}), Status::Denied, "outside");
    check(&registry, "read_file", json!({"path": "/a.txt"}), Status::Ok, "three");
    assert_eq!(registry.call_json("read_file", "[1]").status, Status::Failed);
    check(&registry, "read_file", json!({"path": "a.txt"}), Status::Ok, "three");
}

#[test]
fn result_json_has_the_fields_of_the_contract() {
    let (_dir, registry) = workspace(Mode::Intel);
    let result = serde_json::to_value(registry.call_json("read_file", r#"{"path": "a.txt"}"#)).unwrap();
    assert_eq!(result["status"], "ok");
    assert_eq!(result["content"], "one\ntwo\nthree\n");
    assert_eq!(result["truncated"], false);
    assert_eq!(result["enforced"]["fs"], "capability:read");
    assert_eq!(result["enforced"]["net"], "none");
    assert!(result["enforced"]["process"].is_string() && result["ms"].is_u64(), "{result}");
}

#[test]
fn a_search_that_finds_no_line_names_the_files_named_so() {
    let (dir, registry) = workspace(Mode::Intel);
    std::fs::create_dir(dir.path().join("Inbox")).unwrap();
    std::fs::write(dir.path().join("Inbox/letter.txt"), "Dear all\n").unwrap();
    check(
        &registry,
        "search_codebase",
        json!({"query": "inbox"}),
        Status::Ok,
        "[files named so: Inbox/letter.txt]",
    );
    let found = registry.call_json("search_codebase", r#"{"query": "dear"}"#);
    assert_eq!(found.content, "Inbox/letter.txt:1: Dear all\n");
    let nothing = registry.call_json("search_codebase", r#"{"query": "outbox"}"#);
    assert!(!nothing.content.contains("named so"), "{}", nothing.content);
}

#[test]
fn canned_tools_answer_with_their_result() {
    let definitions = json!([
        {"type": "function", "function": {"name": "get_rate", "description": "A rate.", "parameters":
            {"type": "object", "properties": {"of": {"enum": ["gold", "tin"]}}, "required": ["of"]}},
         "result": {"rate": 7}},
        {"type": "function", "function": {"name": "mute", "description": "Says nothing.", "parameters":
            {"type": "object", "properties": {}}}}
    ]);
    let mut registry = Registry::new();
    for tool in CannedTool::all_from_json(&definitions.to_string()).unwrap() {
        registry.add(tool).unwrap();
    }
    check(&registry, "get_rate", json!({"of": "tin"}), Status::Ok, r#"{"rate":7}"#);
    check(&registry, "get_rate", json!({"of": "air"}), Status::Failed, "/of");
    check(&registry, "mute", json!({}), Status::Failed, "no canned result");
    let error = CannedTool::all_from_json(r#"[{"type": "function"}]"#).unwrap_err();
    assert!(error.to_string().starts_with("tool 0: "), "{error}");
}

#[test]
fn two_tools_of_one_name_are_refused_and_selection_names_what_there_is() {
    let (_dir, registry) = workspace(Mode::Intel);
    let selected = registry.select(&["search_codebase".into(), "read_file".into()]).unwrap();
    assert_eq!(selected.names(), ["search_codebase", "read_file"]);
    let error = selected.select(&["nothing".into()]).err().unwrap();
    assert!(error.to_string().contains("search_codebase, read_file"), "{error}");
}

#[test]
fn what_is_remembered_is_recalled_in_another_conversation() {
    let dir = tempfile::tempdir().unwrap();
    let registry = || {
        let memory = std::sync::Arc::new(Memory::open(&dir.path().join("memory.db")).unwrap());
        let mut registry = Registry::new();
        for tool in memory_tools(&memory).unwrap() {
            registry.add_boxed(tool).unwrap();
        }
        registry
    };
    let before = registry();
    check(&before, "recall_memory", json!({"query": "locker"}), Status::Ok, "nothing was remembered");
    check(&before, "store_memory", json!({"content": "The locker is 218."}), Status::Ok, "remembered");
    let fact = json!({"kind": "entity", "data": {"name": "Ana", "role": "tester"}});
    check(&before, "remember", fact, Status::Ok, "remembered");
    check(&before, "remember", json!({"kind": "rumour", "data": {}}), Status::Failed, "do not fit");
    check(&before, "think", json!({"content": "first the locker"}), Status::Ok, "");
    let after = registry();
    check(&after, "recall_memory", json!({"query": "my locker"}), Status::Ok, "The locker is 218.");
    check(&after, "search", json!({"query": "tester"}), Status::Ok, "Ana");
    assert_eq!(after.names(), MEMORY_TOOLS);
    assert!(after.without(&MEMORY_TOOLS).is_empty());
}

/// A source whose tools are those of its list, told when the list was changed.
struct Shelf(std::sync::Mutex<Option<Vec<&'static str>>>);

impl Source for Shelf {
    fn news(&self, taken: &dyn Fn(&str) -> bool) -> Option<Vec<Box<dyn Tool>>> {
        let names = self.0.lock().unwrap().take()?;
        let name = |name: &str| if taken(name) { format!("shelf__{name}") } else { name.to_owned() };
        let tool = |own: &&str| {
            let definition =
                json!({"function": {"name": name(own)}, "result": format!("{own} of the shelf")});
            Box::new(CannedTool::from_json(&definition).unwrap()) as Box<dyn Tool>
        };
        Some(names.iter().map(tool).collect())
    }
}

#[test]
fn tools_of_a_source_are_followed_and_take_nobodys_name() {
    let (_dir, mut registry) = workspace(Mode::Intel);
    let shelf = Arc::new(Shelf(Some(vec!["read_file", "one", "one"]).into()));
    registry.follow(shelf.clone());
    let own = ["read_file", "list_directory", "search_codebase"];
    assert_eq!(
        registry.names(),
        [&own[..], &["shelf__read_file", "one"]].concat(),
        "of two of a name the first"
    );
    check(&registry, "shelf__read_file", json!({}), Status::Ok, "read_file of the shelf");
    check(&registry, "read_file", json!({"path": "a.txt"}), Status::Ok, "three");
    *shelf.0.lock().unwrap() = Some(vec!["two"]);
    assert_eq!(registry.specs().last().unwrap().name.as_str(), "two");
    check(&registry, "one", json!({}), Status::Failed, "there is no tool");
    // What was selected stays as it was.
    let selected = registry.select(&["two".to_owned()]).unwrap();
    *shelf.0.lock().unwrap() = Some(vec!["three"]);
    assert_eq!(selected.names(), ["two"]);
}

#[test]
fn no_tool_of_another_source_comes_under_a_name_that_one_has_had() {
    let mut registry = Registry::new();
    let (one, other) = (Arc::new(Shelf(Some(vec!["send"]).into())), Arc::new(Shelf(Some(vec![]).into())));
    registry.follow(one.clone());
    registry.follow(other.clone());
    assert_eq!(registry.names(), ["send"]);
    // The first takes its tool back, and the other one offers one of that name.
    *one.0.lock().unwrap() = Some(vec![]);
    assert!(registry.names().is_empty());
    *other.0.lock().unwrap() = Some(vec!["send"]);
    assert_eq!(registry.names(), ["shelf__send"]);
    // Control: the one that had it may have it again.
    *one.0.lock().unwrap() = Some(vec!["send"]);
    assert_eq!(registry.names(), ["shelf__send", "send"]);
}

#[test]
fn results_of_any_tool_are_spelled_out_and_cut() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    let mut registry = Registry::new();
    let hostile = "red \u{1b}[31m and \u{202e}back";
    registry.add(typed("say", "Says it.", move |_: Nothing| Ok::<_, String>(hostile)).unwrap()).unwrap();
    registry.add(typed("fail", "Fails.", move |_: Nothing| Err::<String, _>(hostile)).unwrap()).unwrap();
    registry
        .add(typed("long", "Much.", |_: Nothing| Ok::<_, String>("x".repeat(3_000_000))).unwrap())
        .unwrap();
    for (name, status) in [("say", Status::Ok), ("fail", Status::Failed)] {
        let result = registry.call_json(name, "{}");
        assert_eq!((result.status, result.content.as_str()), (status, "red \\u{1b}[31m and \\u{202e}back"));
    }
    let long = registry.call_json("long", "{}");
    assert!(long.truncated && long.content.len() <= 256 * 1024, "{}", long.content.len());
}
