//! Every way to put a mask together is gone for the grammars of a corpus: one that is not would be dead weight.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use toolgate_grammar::compile::render;
use toolgate_grammar::engine::Way;
use toolgate_grammar::{Automaton, Options, Schema, TokenKind, Vocabulary, compile};

use crate::corpus::{id, list, rows};

/// Pieces of texts that become tokens; the slices of a vocabulary need some thousands.
const PIECES: usize = 20_000;

/// All bytes, and what the corpus is written in: its words with the marks around them.
fn vocabulary(rows: &[Value]) -> Vocabulary {
    let mut pieces: BTreeSet<Vec<u8>> = (0..=u8::MAX).map(|byte| vec![byte]).collect();
    'rows: for row in rows {
        let text = row.to_string();
        let chars: Vec<char> = text.chars().collect();
        for words in
            chars.chunk_by(|a, b| a.is_alphanumeric() == b.is_alphanumeric()).collect::<Vec<_>>().windows(2)
        {
            for piece in [words[0].to_vec(), words[1].to_vec(), words.concat()] {
                pieces.insert(piece.into_iter().take(40).collect::<String>().into_bytes());
            }
            if pieces.len() > PIECES {
                break 'rows;
            }
        }
    }
    let end = (b"<end>".to_vec(), TokenKind::EndOfGeneration);
    Vocabulary::new(pieces.into_iter().map(|piece| (piece, TokenKind::Text)).chain([end])).unwrap()
}

#[test]
fn each_way_to_make_a_mask_is_gone_for_a_corpus() {
    let Some(rows) = rows("TOOLGATE_SCHEMA_CORPUS") else { return };
    let vocabulary = Arc::new(vocabulary(&rows));
    let options = Options::default();
    let mut gone = [0; Way::ALL.len()];
    for row in rows.iter().step_by(10) {
        let Ok(schema) = Schema::parse(&row["schema"]) else { continue };
        let Ok(compiled) = compile(&schema, &options) else { continue };
        let made = Automaton::new(&compiled.grammar, vocabulary.clone(), &options.limits);
        let Ok(automaton) = made else { continue };
        for instance in list(row, "valid_instances").iter().take(2) {
            let mut matcher = automaton.matcher();
            for byte in render(instance, Some(&schema), options.whitespace).bytes() {
                matcher.mask().unwrap_or_else(|error| panic!("{}: {error}", id(row)));
                if matcher.accept_bytes(&[byte]).is_err() {
                    break;
                }
            }
        }
        for (sum, way) in gone.iter_mut().zip(Way::ALL) {
            *sum += automaton.usage().ways.of(way);
        }
    }
    let told: Vec<String> =
        Way::ALL.iter().zip(gone).map(|(way, times)| format!("{} {times}", way.as_str())).collect();
    eprintln!("{}", told.join(", "));
    assert!(gone.iter().all(|times| *times > 0), "{}", told.join(", "));
}
