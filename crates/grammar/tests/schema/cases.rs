//! The case folders: `grammars/cases/<name>/{schema.json,grammar.gbnf,accept.jsonl,reject.jsonl}`.
//!
//! A line of `accept.jsonl` is an instance that the schema holds valid, as an independent validator agrees, and
//! that the grammar accepts; a line of `reject.jsonl` is neither. `grammar.gbnf` is what the compiler prints;
//! `UPDATE_CASES=1` writes it anew.

use std::fs;
use std::path::Path;

use serde_json::Value;
use toolgate_grammar::compile::render;
use toolgate_grammar::{Grammar, Options, Schema, compile};

fn check(folder: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    let read =
        |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_else(|e| panic!("{name}/{file}: {e}"));
    let document: Value = serde_json::from_str(&read("schema.json")).unwrap();
    let options = Options::default();
    let schema = Schema::parse(&document).unwrap_or_else(|e| panic!("{name}: {e}"));
    let compiled = compile(&schema, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
    let printed = compiled.grammar.to_string();
    if std::env::var_os("UPDATE_CASES").is_some() {
        fs::write(folder.join("grammar.gbnf"), &printed).unwrap();
    } else if printed != read("grammar.gbnf") {
        faults.push(format!("{name}: the grammar has changed (UPDATE_CASES=1 accepts it):\n{printed}"));
    }
    if Grammar::parse(&printed).map(|grammar| grammar.to_string()).ok().as_deref() != Some(printed.as_str()) {
        faults.push(format!("{name}: the printed grammar does not read back as itself"));
    }
    let validator = jsonschema::options().should_validate_formats(true).build(&document).unwrap();
    for (file, holds) in [("accept.jsonl", true), ("reject.jsonl", false)] {
        for line in read(file).lines() {
            let value: Value =
                serde_json::from_str(line).unwrap_or_else(|e| panic!("{name}/{file}: {line}: {e}"));
            if validator.is_valid(&value) != holds {
                faults.push(format!("{name}/{file}: the validator disagrees on {line}"));
            }
            let text = render(&value, Some(&schema), options.whitespace);
            if serde_json::from_str::<Value>(&text).ok().map(|value| value.to_string().len()).is_none() {
                faults.push(format!("{name}/{file}: {line} is rendered as {text}, which is no JSON"));
            }
            if compiled.accepts(&text).unwrap() != holds {
                faults.push(format!("{name}/{file}: the grammar disagrees on {text}"));
            }
        }
    }
    faults
}

#[test]
fn every_case_folder_holds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../grammars/cases");
    let mut folders: Vec<_> =
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|p| p.is_dir()).collect();
    folders.sort();
    assert!(folders.len() >= 20, "only {} cases found", folders.len());
    let faults: Vec<String> = folders.iter().flat_map(|folder| check(folder)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
