//! Packs: a second process evaluates what differs, and says the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use toolgate::engine::{
    self, Cancel, DEFAULT_LIMIT, Engine, LocalEngine, Packs, Sampling, Turn, TurnEvent, TurnRequest,
};
use toolgate_chat::{Dialogue, Message, Template, TemplateTokens, ToolChoice, ToolSpec, Transcript};
use toolgate_infer::Vocabulary;
use toolgate_infer::scripted::Scripted;

const TEMPLATE: &str = "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}<tool_call>\n\
{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}\
{% endfor %}<assistant>";
const CALL: &str = "<tool_call>\n{\"name\": \"note\", \"arguments\": {\"text\": \"milk\"}}\n</tool_call>";

fn tools(names: &[&str]) -> Vec<ToolSpec> {
    let parameters = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": false});
    names.iter().map(|name| ToolSpec::new(name, "Notes something.", parameters.clone()).unwrap()).collect()
}

/// An engine as a new process makes it.
fn scripted(packs: Option<&Packs>, bias: f64) -> LocalEngine<Scripted> {
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).context(16_384).on("", CALL);
    let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    let options = engine::Options { tool_bias: bias, ..engine::Options::default() };
    let engine = LocalEngine::new("scripted", model, dialogue, options);
    match packs {
        Some(packs) => engine.with_packs(packs.clone()),
        None => engine,
    }
}

/// A turn, and how many of its first prompt's tokens were there before.
fn turn(engine: &dyn Engine, tools: &[ToolSpec], text: &str) -> (Turn, usize) {
    let transcript = Transcript::new().with(Message::User(text.to_owned()));
    let sampling = Sampling { max_tokens: 200, ..Sampling::default() };
    let request =
        TurnRequest { choice: ToolChoice::Required, ..TurnRequest::new(&transcript, tools, &sampling) };
    let mut cached = None;
    let turn = engine.turn(&request, &Cancel::default(), &mut |event| {
        if let TurnEvent::Prefill { cached: tokens, .. } = event {
            cached.get_or_insert(tokens);
        }
    });
    (turn.unwrap(), cached.unwrap())
}

fn model(dir: &Path) -> PathBuf {
    let model = dir.join("model.gguf");
    fs::write(&model, "what the fingerprint is taken of").unwrap();
    model
}

#[test]
fn a_second_process_evaluates_what_the_user_says() {
    let dir = tempfile::tempdir().unwrap();
    let packs = Packs::of(&model(dir.path()), dir.path().join("packs"), DEFAULT_LIMIT).unwrap();
    let two = tools(&["note", "list"]);
    let (first, nothing) = turn(&scripted(Some(&packs), 0.0), &two, "Note milk.");
    assert_eq!((nothing, packs.list().len()), (0, 1));
    let (second, cached) = turn(&scripted(Some(&packs), 0.0), &two, "Write milk down, please.");
    let (without, _) = turn(&scripted(None, 0.0), &two, "Write milk down, please.");
    assert_eq!((&second.text, second.stop.clone()), (&without.text, without.stop));
    let prompt = second.stats.prompt_tokens;
    assert!(cached * 10 > prompt * 9, "{cached} of {prompt}");
    assert_eq!((second.stats.cached_tokens, without.stats.cached_tokens), (cached, 0));
    assert_eq!(packs.list()[0].tokens as usize, cached, "the pack ends where the user begins");
    assert_eq!(first.text, second.text);
    // Another set of tools takes what it shares, and is kept beside it.
    let three = tools(&["note", "list", "find"]);
    let (_, shared) = turn(&scripted(Some(&packs), 0.0), &three, "Note milk.");
    assert!(shared > 32 && shared < cached, "{shared}");
    assert_eq!(packs.list().len(), 2);
}

#[test]
fn a_pack_that_is_not_what_it_was_costs_its_evaluation_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let packs = Packs::of(&model(dir.path()), dir.path().join("packs"), DEFAULT_LIMIT).unwrap();
    let tools = tools(&["note"]);
    let (first, _) = turn(&scripted(Some(&packs), 0.0), &tools, "Note milk.");
    let path = packs.list().remove(0).path;
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let (second, cached) = turn(&scripted(Some(&packs), 0.0), &tools, "Note milk.");
    assert_eq!((&second.text, cached), (&first.text, 0));
    let (_, cached) = turn(&scripted(Some(&packs), 0.0), &tools, "Note milk.");
    assert!(cached > 0, "it was made anew");
}

#[test]
fn what_was_learned_of_tools_is_learned_once() {
    let dir = tempfile::tempdir().unwrap();
    let packs = Packs::of(&model(dir.path()), dir.path().join("packs"), DEFAULT_LIMIT).unwrap();
    let tools = tools(&["note", "list"]);
    let (first, _) = turn(&scripted(Some(&packs), 0.5), &tools, "Note milk.");
    let (second, _) = turn(&scripted(Some(&packs), 0.5), &tools, "Note milk.");
    let (without, _) = turn(&scripted(None, 0.5), &tools, "Note milk.");
    assert_eq!((&first.text, &second.text), (&without.text, &without.text));
    assert_eq!(first.stats.decode_calls, without.stats.decode_calls);
    assert!(second.stats.decode_calls < first.stats.decode_calls, "{:?} {:?}", second.stats, first.stats);
}

#[test]
fn a_real_model_says_the_same_after_a_pack() {
    for id in ["smollm2-135m", "qwen2.5-coder-0.5b"] {
        let dir = tempfile::tempdir().unwrap();
        let packs = Packs::of(&model(dir.path()), dir.path().join("packs"), DEFAULT_LIMIT).unwrap();
        let tools = tools(&["note", "list", "find"]);
        let Some(fresh) = crate::models::load(id, |_| {}) else { return };
        let (before, _) = turn(&fresh.with_packs(packs.clone()), &tools, "Note that the milk is sour.");
        let Some(again) = crate::models::load(id, |_| {}) else { return };
        let (after, cached) = turn(&again.with_packs(packs.clone()), &tools, "Note that the milk is sour.");
        assert_eq!(before.text, after.text, "{id}");
        assert!(
            cached * 10 > after.stats.prompt_tokens * 7,
            "{id}: {cached} of {}",
            after.stats.prompt_tokens
        );
    }
}
