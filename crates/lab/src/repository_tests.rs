//! Questions over a tiny checkout, asked of a scripted model.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolgate_engine::{self as engine, Cancel, Engine, LocalEngine};
use toolgate_infer::{Vocabulary, scripted::Scripted};
use toolgate_sandbox::policy::{Mode, Policy};
use toolgate_sandbox::{Root, ambient_authority};
use toolgate_tools::{Registry, file_tools};

use super::super::jsonl::Jsonl;
use super::super::record::Record;
use super::super::run::{Case, Options, run};
use super::{MOST_BYTES, Repository, changed, stamps};

const MANIFEST: &str = "[package]\nname = \"lantern\"\nedition = \"2024\"\n";

/// A checkout of two files, with what no copy has.
fn checkout() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("Cargo.toml", MANIFEST),
        ("src/target/mod.rs", "pub fn aim() {}\n"),
        (".git/HEAD", "ref: refs/heads/main\n"),
        ("target/debug/lantern.d", "src/main.rs\n"),
        ("member/Cargo.toml", "[package]\n"),
        ("member/target/x", "x"),
        ("member/.git", "gitdir: ../.git/modules/member\n"),
        ("questions.jsonl", "{}\n"),
    ] {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let long = usize::try_from(MOST_BYTES).unwrap();
    fs::write(dir.path().join("long"), vec![b'x'; long]).unwrap();
    fs::write(dir.path().join("longer"), vec![b'x'; long + 1]).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("Cargo.toml", dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink("src", dir.path().join("linked")).unwrap();
    }
    dir
}

fn open(dir: &TempDir) -> Repository {
    Repository::open(dir.path()).unwrap().without(&dir.path().join("questions.jsonl"))
}

#[test]
fn a_copy_has_the_sources_alone() {
    let (dir, copy) = (checkout(), tempfile::tempdir().unwrap());
    open(&dir).copy_to(copy.path()).unwrap();
    let found: Vec<String> = stamps(copy.path()).unwrap().into_keys().collect();
    assert_eq!(found, ["Cargo.toml", "long", "member/Cargo.toml", "src/target/mod.rs"]);
    assert_eq!(fs::read_to_string(copy.path().join("Cargo.toml")).unwrap(), MANIFEST);
}

#[test]
fn too_many_files_are_refused_and_one_fewer_is_not() {
    let dir = checkout();
    let repository = open(&dir);
    assert_eq!(repository.files(4).unwrap().len(), 4);
    let message = repository.files(3).unwrap_err().to_string();
    assert!(message.ends_with("more than 3 files: name a smaller directory"), "{message}");
    assert!(Repository::open(&dir.path().join("none")).is_err());
    assert!(Repository::open(&dir.path().join("Cargo.toml")).is_err());
}

#[test]
fn what_was_made_changed_or_removed_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    for name in ["same", "other", "gone"] {
        write(name, "ab");
    }
    let before = stamps(dir.path()).unwrap();
    assert!(changed(&before, &stamps(dir.path()).unwrap()).is_empty());
    write("same", "ab");
    write("other", "ba");
    write("made", "");
    fs::remove_file(dir.path().join("gone")).unwrap();
    assert_eq!(changed(&before, &stamps(dir.path()).unwrap()), ["gone", "made", "other"]);
}

#[test]
fn a_question_is_read_or_says_what_is_wrong() {
    let dir = checkout();
    let repository = open(&dir);
    for (fields, category, wrong) in [
        (json!({"any": ["2024"]}), "read", ""),
        (json!({"all": ["2024"], "mode": "read"}), "read", ""),
        (json!({"all": ["2024"], "mode": "intel"}), "read", ""),
        (json!({"all": ["2024"], "mode": "edit"}), "edit", ""),
        (json!({"file": ["./Cargo.toml", "2021"], "mode": "edit"}), "edit", ""),
        (json!({"file": ["Cargo.toml", "2021"]}), "", "give it the mode \"edit\""),
        (
            json!({"file": ["../Cargo.toml", "2021"], "mode": "edit"}),
            "",
            "no path of a file in the repository",
        ),
        (json!({"file": ["Cargo.toml"], "mode": "edit"}), "", "invalid length 1"),
        (json!({}), "", "nothing says which answer is right"),
        (json!({"any": [], "all": []}), "", "nothing says which answer is right"),
        (json!({"any": ["2024"], "none": ["2021"]}), "", "unknown field `none`"),
        (json!({"any": ["2024"], "mode": "write"}), "", "unknown variant `write`"),
        (json!({"any": "2024"}), "", "invalid type"),
    ] {
        let mut question = json!({"id": "q", "prompt": "Which edition is this?"});
        question.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        match repository.case(question.clone()) {
            Ok(case) => assert_eq!((case.category(), wrong), (category, ""), "{question}"),
            Err(error) => {
                assert!(!wrong.is_empty() && error.to_string().contains(wrong), "{question}: {error}");
            }
        }
    }
}

/// What came of a question. The tools are those of `offered`, whatever the question is for.
fn asked(question: Value, offered: Mode, says: &[&str]) -> Record {
    let dir = checkout();
    let before = stamps(dir.path()).unwrap();
    // Asked for the kind of the request, it finds a change. The last text is what it says behind a result.
    let mut model = Scripted::new(Arc::new(Vocabulary::bytes_only())).context(32_768).on("Kind:", " change");
    if let [call, answer] = says {
        model = model.on("<tool_response>", *answer).on("", *call);
    } else {
        model = model.on("", says.concat());
    }
    let engine: Arc<dyn Engine> = Arc::new(LocalEngine::scripted(model, engine::Options::default()).unwrap());
    let builtin = move |workspace: &Path, _: Mode, _: toolgate_tools::memory::Memory| {
        let mut tools = Registry::new();
        let root = Root::open(workspace, ambient_authority())?;
        for tool in file_tools(&root, &Policy::default_for(offered), offered)? {
            tools.add(tool)?;
        }
        Ok(tools)
    };
    let options = Options {
        system: None,
        max_tokens: 300,
        temperature: None,
        parallel: None,
        builtin: &builtin,
        hints: toolgate_agent::Hints::auto(),
    };
    let case = open(&dir).case(question).unwrap();
    let record = run(&case, &engine, &options, &Cancel::default()).unwrap();
    assert_eq!(stamps(dir.path()).unwrap(), before, "the checkout itself is only read");
    record
}

const READ: &str =
    "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"Cargo.toml\"}}\n</tool_call>";
const EDIT: &str = "<tool_call>\n{\"name\": \"edit_file\", \"arguments\": {\"path\": \"Cargo.toml\", \
                    \"old_text\": \"2024\", \"new_text\": \"2021\"}}\n</tool_call>";

#[test]
fn an_answer_is_right_by_its_texts() {
    let question = json!({"id": "name", "prompt": "What is the package called?", "any": ["Lantern", "lamp"]});
    let right = asked(question.clone(), Mode::Intel, &[READ, "It is called `lantern`."]);
    assert!(right.pass && right.changed.is_empty() && right.files_after.is_empty(), "{right:?}");
    let wrong = asked(question, Mode::Intel, &[READ, "It is called torch."]);
    assert_eq!(wrong.reasons, ["final answer has none of [\"Lantern\", \"lamp\"]"]);
}

#[test]
fn a_question_that_only_reads_fails_where_a_file_changed() {
    let question = |mode: &str| {
        let prompt = "Which edition does Cargo.toml name? Change it to 2021.";
        json!({"id": "edition", "prompt": prompt, "mode": mode, "any": ["2021"]})
    };
    let says = [EDIT, "It is 2021 now."];
    let read = asked(question("read"), Mode::Edit, &says);
    assert_eq!(read.changed, ["Cargo.toml"], "{read:?}");
    assert_eq!(read.reasons, ["Cargo.toml changed in a run that may only read"]);
    let edit = asked(question("edit"), Mode::Edit, &says);
    assert!(edit.pass && edit.changed == ["Cargo.toml"], "{edit:?}");
}

#[test]
fn a_file_holds_the_text_afterwards_or_the_question_fails() {
    let question = |text: &str| {
        let file = json!(["./Cargo.toml", text]);
        json!({"id": "edition", "prompt": "Set the edition to 2021 in Cargo.toml.", "mode": "edit", "file": file})
    };
    let says = [EDIT, "Done."];
    let right = asked(question("edition = \"2021\""), Mode::Edit, &says);
    assert!(right.pass, "{right:?}");
    assert!(right.files_after["Cargo.toml"].contains("2021"), "{right:?}");
    let wrong = asked(question("edition = \"2018\""), Mode::Edit, &says);
    assert_eq!(wrong.reasons, ["Cargo.toml lacks \"edition = \\\"2018\\\"\""]);
    let idle = asked(question("edition = \"2021\""), Mode::Edit, &["Done."]);
    assert!(
        !idle.pass && idle.files_after["Cargo.toml"] == MANIFEST,
        "a file that is checked is told: {idle:?}"
    );
}

#[test]
fn the_questions_over_this_repository_can_be_asked() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dir = checkout();
    let repository = open(&dir);
    let rows = Jsonl::within("questions.jsonl", include_str!("../data/repository/questions.jsonl"));
    let mut counts = std::collections::BTreeMap::new();
    for row in rows.rows() {
        let (place, value) = row.unwrap().into_parts();
        let case = repository.case(value).unwrap_or_else(|error| panic!("{place}: {error}"));
        *counts.entry(case.category().to_owned()).or_insert(0) += 1;
        let Case::Task(task) = case else { panic!("{place}: no task") };
        for (name, after) in &task.expect.files_after {
            let text =
                fs::read_to_string(root.join(name)).unwrap_or_else(|why| panic!("{place}: {name}: {why}"));
            let wanted = after.contains.as_ref().unwrap().as_slice();
            assert!(wanted.iter().all(|wanted| !text.contains(wanted)), "{place}: nothing is to be done");
        }
    }
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [("edit".to_owned(), 6), ("read".to_owned(), 12)]);
}
