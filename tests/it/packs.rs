//! PromptCache: a second process evaluates what differs, and says the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolgate::engine::{
    self, Cancel, DEFAULT_LIMIT, Engine, LocalEngine, PromptCache, Sampling, Turn, TurnEvent, TurnRequest,
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
fn scripted(packs: Option<&PromptCache>, bias: f64) -> LocalEngine<Scripted> {
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only())).context(16_384).on("", CALL);
    let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    let options = engine::Options::guided().tool_bias(bias);
    let engine = LocalEngine::new("scripted", model, dialogue, options);
    match packs {
        Some(packs) => engine.with_prompt_cache(packs.clone()),
        None => engine,
    }
}

/// A turn, and how many of its first prompt's tokens were there before.
fn turn(engine: &dyn Engine, tools: &[ToolSpec], text: &str) -> (Turn, usize) {
    let transcript = Transcript::new().with(Message::User(text.to_owned()));
    let sampling = Sampling::default().max_tokens(200);
    let request = TurnRequest::new(&transcript, tools, &sampling).choice(ToolChoice::Required);
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
    let packs = PromptCache::of(&model(dir.path()), dir.path().join("packs"), DEFAULT_LIMIT).unwrap();
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
    let packs = PromptCache::of(&model(dir.path()), dir.path().join("packs"), DEFAULT_LIMIT).unwrap();
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
    let packs = PromptCache::of(&model(dir.path()), dir.path().join("packs"), DEFAULT_LIMIT).unwrap();
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
        let packs = PromptCache::of(&model(dir.path()), dir.path().join("packs"), DEFAULT_LIMIT).unwrap();
        let tools = tools(&["note", "list", "find"]);
        let Some(fresh) = crate::models::load(id, |_| {}) else { return };
        let (before, _) =
            turn(&fresh.with_prompt_cache(packs.clone()), &tools, "Note that the milk is sour.");
        let Some(again) = crate::models::load(id, |_| {}) else { return };
        let (after, cached) =
            turn(&again.with_prompt_cache(packs.clone()), &tools, "Note that the milk is sour.");
        assert_eq!(before.text, after.text, "{id}");
        assert!(
            cached * 10 > after.stats.prompt_tokens * 7,
            "{id}: {cached} of {}",
            after.stats.prompt_tokens
        );
    }
}

/// Letters of a system prompt that takes many batches.
const LONG: usize = 6_000;
const BATCH: usize = 250;

/// An engine as a new process makes it, which evaluates prompts in small batches.
fn in_batches(packs: Option<&PromptCache>) -> LocalEngine<Scripted> {
    let model =
        Scripted::new(Arc::new(Vocabulary::bytes_only())).context(16_384).batch(BATCH).on("", "Fine.");
    let engine = LocalEngine::scripted(model, engine::Options::guided()).unwrap();
    match packs {
        Some(packs) => engine.with_prompt_cache(packs.clone()),
        None => engine,
    }
}

/// A turn behind a long system prompt, and what was there of it before; `seen` hears how far it comes, and may cancel it.
fn behind(
    engine: &dyn Engine,
    system: &str,
    seen: &mut dyn FnMut(usize, &Cancel),
) -> (Result<Turn, toolgate::engine::Error>, usize) {
    let asked = Message::User("How are you?".to_owned());
    let transcript = Transcript::new().with(Message::System(system.to_owned())).with(asked);
    let sampling = Sampling::default().max_tokens(12);
    let (cancel, mut first) = (Cancel::default(), None);
    let turn = engine.turn(&TurnRequest::new(&transcript, &[], &sampling), &cancel, &mut |event| {
        if let TurnEvent::Prefill { done, cached, .. } = event {
            first.get_or_insert(cached);
            seen(done, &cancel);
        }
    });
    (turn, first.unwrap())
}

#[test]
fn what_a_turn_evaluated_that_was_given_up_is_there_for_the_next_process() {
    let dir = tempfile::tempdir().unwrap();
    let packs = PromptCache::of(&model(dir.path()), dir.path().join("packs"), DEFAULT_LIMIT).unwrap();
    let system = "s".repeat(LONG);
    let first = in_batches(Some(&packs));
    let mut leaves = |done, cancel: &Cancel| {
        if done > 2_500 {
            cancel.cancel();
        }
    };
    let (given_up, nothing) = behind(&first, &system, &mut leaves);
    assert_eq!((given_up.unwrap_err().kind(), nothing), (toolgate::engine::Kind::Cancelled, 0));
    let kept = packs.list();
    let part = kept[0].tokens as usize;
    assert!(
        kept.len() == 1 && (2_500..2_500 + 2 * BATCH).contains(&part) && part.is_multiple_of(BATCH),
        "{kept:?}"
    );
    #[cfg(unix)]
    for (path, mode) in [(&kept[0].path, 0o600), (&dir.path().join("packs"), 0o700)] {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, mode, "its owner's alone");
    }
    // The same process goes on from there, and so does another one.
    let (_, held) = behind(&first, &system, &mut |_, cancel| cancel.cancel());
    assert_eq!(held, part);
    let (second, cached) = behind(&in_batches(Some(&packs)), &system, &mut |_, _| ());
    let (without, _) = behind(&in_batches(None), &system, &mut |_, _| ());
    assert_eq!((second.unwrap().text, cached), (without.unwrap().text, part));
    // The whole takes the place of its part.
    let kept = packs.list();
    assert!(kept.len() == 1 && kept[0].tokens as usize > LONG, "{kept:?}");
    let (_, cached) = behind(&in_batches(Some(&packs)), &system, &mut |_, _| ());
    assert!(cached > LONG, "{cached}");
    // One that is given up at once leaves nothing.
    let other = "o".repeat(LONG);
    behind(&in_batches(Some(&packs)), &other, &mut |_, cancel| cancel.cancel()).0.unwrap_err();
    assert_eq!(packs.list().len(), 1);
}

#[test]
fn a_long_beginning_is_saved_on_its_way_so_that_a_crash_does_not_cost_all_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let (file, at) = (model(dir.path()), dir.path().join("packs"));
    let packs = PromptCache::of(&file, &at, DEFAULT_LIMIT).unwrap().saving_every(Duration::ZERO);
    let system = "s".repeat(LONG);
    // What is on the disk in the moment of the crash.
    let crashed = dir.path().join("crashed");
    fs::create_dir(&crashed).unwrap();
    let (mut most, mut taken) = (0, 0);
    let mut crashes = |done: usize, _: &Cancel| {
        let kept = packs.list();
        most = most.max(kept.len());
        if done > 4_000 && taken == 0 {
            taken = kept[0].tokens as usize;
            fs::copy(&kept[0].path, crashed.join(kept[0].path.file_name().unwrap())).unwrap();
        }
    };
    behind(&in_batches(Some(&packs)), &system, &mut crashes).0.unwrap();
    assert_eq!(most, 1, "each part takes the place of the one before");
    assert!(taken >= 3_000, "no more than a quarter is missing: {taken}");
    let later = PromptCache::of(&file, &crashed, DEFAULT_LIMIT).unwrap();
    let (turn, cached) = behind(&in_batches(Some(&later)), &system, &mut |_, _| ());
    assert_eq!((turn.unwrap().text.as_str(), cached), ("Fine.", taken));
    // Control: within half a minute nothing is saved on the way.
    let patient = PromptCache::of(&file, dir.path().join("patient"), DEFAULT_LIMIT).unwrap();
    behind(&in_batches(Some(&patient)), &system, &mut |done, _| {
        assert!(done > LONG || patient.list().is_empty())
    })
    .0
    .unwrap();
}

#[test]
fn a_real_model_says_the_same_after_a_part() {
    let dir = tempfile::tempdir().unwrap();
    let packs = PromptCache::of(&model(dir.path()), dir.path().join("packs"), DEFAULT_LIMIT).unwrap();
    let system: String =
        (0..45).map(|n| format!("Rule {n}: the answer to question {n} is {}. ", n * 7)).collect();
    let load = || crate::models::load("smollm2-135m", |_| {});
    let Some(given_up) = load() else { return };
    let mut leaves = |done, cancel: &Cancel| {
        if done > 200 {
            cancel.cancel();
        }
    };
    behind(&given_up.with_prompt_cache(packs.clone()), &system, &mut leaves).0.unwrap_err();
    let part = packs.list()[0].tokens as usize;
    let (Some(again), Some(fresh)) = (load(), load()) else { return };
    let (after, cached) = behind(&again.with_prompt_cache(packs.clone()), &system, &mut |_, _| ());
    let (without, _) = behind(&fresh, &system, &mut |_, _| ());
    let (after, without) = (after.unwrap(), without.unwrap());
    assert_eq!((&after.text, cached), (&without.text, part));
    assert!(part >= 200 && after.stats.prompt_tokens > part + 256, "{part} of {}", after.stats.prompt_tokens);
}
