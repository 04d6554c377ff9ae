//! The laws of families on the vocabularies that `scripts/lib/vocabularies.py` makes, with templates of our own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "tests")]

#[path = "../../../tests/support/skip.rs"]
mod skip;

use std::path::{Path, PathBuf};

use toolgate_lab::families::{Corpus, Failure, Laws, Report};

/// A vocabulary, and the family that a template here has in it.
const PAIRS: [(&str, &str); 3] =
    [("mistral-nemo", "mistral"), ("qwen3", "hermes"), ("deepseek-v3", "deepseek_v3_1")];

/// The directory of vocabularies, where it has those of the pairs.
fn vocabularies() -> Option<PathBuf> {
    let Some(directory) = std::env::var_os("TOOLGATE_VOCABULARIES").map(PathBuf::from) else {
        skip::required("set TOOLGATE_VOCABULARIES to the directory that scripts/lib/vocabularies.py makes");
        return None;
    };
    let missing = PAIRS.iter().find(|(name, _)| !directory.join(format!("{name}.gguf")).is_file());
    if let Some((name, _)) = missing {
        skip::required(&format!("run scripts/lib/vocabularies.py, which makes {name}.gguf"));
        return None;
    }
    Some(directory)
}

fn run(vocabularies: &Path, turns: usize) -> (Report, Vec<Failure>) {
    let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/templates");
    let corpus = Corpus { vocabularies: vocabularies.to_owned(), templates, turns };
    let mut failures = Vec::new();
    let report = corpus.run(&mut |failure| failures.push(failure), &mut |what| eprintln!("left out: {what}"));
    (report.unwrap(), failures)
}

#[test]
fn each_family_writes_the_tokens_of_its_template_and_reads_them_back() {
    let Some(all) = vocabularies() else { return };
    // Those of other tests have no marks.
    let directory = tempfile::tempdir().unwrap();
    for (name, _) in PAIRS {
        let file = format!("{name}.gguf");
        std::fs::copy(all.join(&file), directory.path().join(&file)).unwrap();
    }
    let (report, failures) = run(directory.path(), 9);
    let ours = |failure: &&Failure| failure.template != "own";
    assert_eq!(failures.iter().find(ours), None);
    for (vocabulary, family) in PAIRS {
        let Laws { forced_tokens, history, no_spelled_marks, own_start, .. } = report
            .by_family
            .get(family)
            .unwrap_or_else(|| panic!("no template of {family} fits {vocabulary}: {report:?}"));
        for (law, count) in [("forced", forced_tokens), ("history", history), ("spelled", no_spelled_marks)] {
            let untested: usize = count.exceptions.values().sum();
            assert!(count.cases > untested + 4, "{family}: {law} was not put to the test: {count:?}");
        }
        for count in [&own_start.says, &own_start.calls] {
            assert!(count.cases > 0 && count.exceptions.is_empty(), "{family}: {own_start:?}");
        }
    }
}

#[test]
fn a_directory_that_is_not_there_is_an_error() {
    let nowhere = PathBuf::from("no/such/directory");
    let corpus = Corpus { vocabularies: nowhere.clone(), templates: nowhere, turns: 1 };
    assert!(corpus.run(&mut |_| (), &mut |_| ()).is_err());
}
