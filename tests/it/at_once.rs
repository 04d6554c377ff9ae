//! Turns made at the same time: they do not wait for each other, and none has anything of another's.

use std::num::NonZeroUsize;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use toolgate::engine::{self, Cancel, Engine, LocalEngine, Sampling, Turn, TurnEvent, TurnRequest};
use toolgate_chat::{Dialogue, Message, Template, TemplateTokens, ToolChoice, ToolSpec, Transcript};
use toolgate_infer::Vocabulary;
use toolgate_infer::scripted::Scripted;

use crate::agent::TEMPLATE;
use crate::models::load;

fn asked(text: &str) -> Transcript {
    Transcript::new().with(Message::User(text.to_owned()))
}

fn engine(conversations: usize) -> LocalEngine<Scripted> {
    remembering(conversations, 0)
}

/// One with so many bytes for what gives way.
fn remembering(conversations: usize, prompt_memory: usize) -> LocalEngine<Scripted> {
    let vocabulary = Arc::new(Vocabulary::bytes_only());
    let scripted = || {
        let scripted = Scripted::new(vocabulary.clone()).context(16_384);
        ["Oslo", "Bergen", "Tromsø"].iter().fold(scripted, |scripted, city| {
            scripted.on(format!("to {city}?"), format!("Six hours to {city}."))
        })
    };
    let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    let others = (1..conversations).map(|_| scripted());
    let options = engine::Options::guided().prompt_memory(prompt_memory);
    LocalEngine::with_conversations("scripted", scripted(), others, dialogue, options)
}

fn turn(engine: &dyn Engine, transcript: &Transcript, events: &mut dyn FnMut(TurnEvent)) -> Turn {
    let sampling = Sampling::default();
    let request = TurnRequest::new(transcript, &[], &sampling);
    engine.turn(&request, &Cancel::default(), events).unwrap()
}

/// Two turns that each wait so long, in the middle, for the other one to get there: whether both did.
fn meet(engine: &LocalEngine<Scripted>, patience: Duration) -> bool {
    let ((to_first, first), (to_second, second)) = (mpsc::channel(), mpsc::channel());
    let meeting = |city: &str, here: mpsc::Receiver<()>, there: mpsc::Sender<()>| {
        let mut met = None;
        turn(engine, &asked(&format!("How far is it to {city}?")), &mut |event| {
            if matches!(event, TurnEvent::Text(_)) && met.is_none() {
                // Where they do not meet, the other may be through by now.
                let _ = there.send(());
                met = Some(here.recv_timeout(patience).is_ok());
            }
        });
        met == Some(true)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| meeting("Bergen", second, to_first));
        meeting("Oslo", first, to_second) & other.join().unwrap()
    })
}

#[test]
fn as_many_turns_are_made_at_the_same_time_as_there_are_conversations() {
    assert!(meet(&engine(2), Duration::from_secs(120)));
    // However short, the time proves something: they cannot meet at all, and no event says that a turn waits for another.
    let meet_alone = meet(&engine(1), Duration::from_millis(200));
    assert!(!meet_alone, "control: one conversation makes one turn after the other");
}

#[test]
fn a_conversation_is_gone_on_with_where_it_is_held() {
    assert_eq!(gone_on_with(&engine(3)), 3);
    assert_eq!(gone_on_with(&remembering(1, 1 << 20)), 3, "those that gave way are put back");
    assert_eq!(gone_on_with(&engine(1)), 1, "control: with one conversation and no memory, only the last is");
}

/// Of three conversations that take turns, how many had most of their second prompt.
fn gone_on_with(engine: &LocalEngine<Scripted>) -> usize {
    let cities = ["Oslo", "Bergen", "Tromsø"];
    let answers = cities.map(|city| {
        let transcript = asked(&format!("How far is it to {city}?"));
        let turn = turn(engine, &transcript, &mut |_| {});
        transcript.with(Message::answer(turn.parsed.content.unwrap()))
    });
    let goes_on = |(city, transcript): (&str, Transcript)| {
        let told = transcript.messages().last().unwrap().clone();
        assert!(format!("{told:?}").contains(&format!("Six hours to {city}.")), "{told:?}");
        let longer = transcript.with(Message::User("Are you sure?".to_owned()));
        let stats = turn(engine, &longer, &mut |_| {}).stats;
        stats.cached_tokens * 2 > stats.prompt_tokens
    };
    cities.into_iter().zip(answers).rev().filter(|conversation| goes_on(conversation.clone())).count()
}

/// Real calls, made at the same time with the same tools: each is about its own request, and the beginning of the prompt,
/// which all have, is evaluated once.
#[test]
fn calls_of_a_real_model_at_the_same_time_are_each_about_their_own_request() {
    let four = |options: &mut engine::Options| options.at_once = NonZeroUsize::new(4).unwrap();
    let Some(engine) = load("qwen2.5-coder-0.5b", four) else { return };
    let paths = ["reports/march.txt", "src/parser.rs", "notes/todo.md", "data/prices.csv"];
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    let tools = [ToolSpec::new("read_file", "Read a file.", schema).unwrap()];
    let sampling = Sampling::default().max_tokens(64);
    let made = Mutex::new(Vec::new());
    let once = |path: &str| {
        let transcript = asked(&format!("Read the file {path}"));
        let request = TurnRequest::new(&transcript, &tools, &sampling).choice(ToolChoice::Required);
        let turn = engine.turn(&request, &Cancel::default(), &mut |_| {}).unwrap();
        assert_eq!(turn.parsed.calls.len(), 1, "{}", turn.text);
        let called = turn.parsed.calls[0].arguments["path"].clone();
        made.lock().unwrap().push((path.to_owned(), called, turn.stats));
    };
    for _ in 0..3 {
        std::thread::scope(|scope| {
            for path in paths {
                scope.spawn(move || once(path));
            }
        });
    }
    let made = made.into_inner().unwrap();
    assert_eq!(made.len(), 12);
    for (path, called, _) in &made {
        assert_eq!(called, &json!(path));
    }
    let anew = made.iter().filter(|(.., stats)| stats.cached_tokens * 2 < stats.prompt_tokens);
    assert_eq!(anew.count(), 1, "{made:?}");
}
