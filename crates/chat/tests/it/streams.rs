//! A family's turn in pieces: however it is cut, the events add up to the turn that the whole text is.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};
use toolgate_chat::format::{Family, Start, TurnStream};
use toolgate_chat::{Event, ParsedTurn, ToolCall, ToolFormat, ToolSpec};

use crate::random::{text, tools_and_calls};
use crate::support::{call, tools};

/// What events say, put together by someone who knows nothing else.
#[derive(Debug, Default)]
struct Seen {
    text: String,
    reasoning: String,
    calls: Vec<ToolCall>,
    /// The arguments of each call as they were told.
    told: Vec<String>,
    started: Option<(String, String)>,
}

impl Seen {
    fn add(&mut self, event: Event) {
        match event {
            Event::Text(text) => {
                assert!(self.started.is_none(), "text inside a call: {text:?}");
                self.text.push_str(&text);
            }
            Event::Reasoning(text) => self.reasoning.push_str(&text),
            Event::CallStarted(name) => {
                assert!(self.started.is_none(), "a call inside a call");
                self.started = Some((name, String::new()));
            }
            Event::Arguments(more) => self.started.as_mut().unwrap().1.push_str(&more),
            Event::Call(call) => {
                let (name, told) = self.started.take().unwrap();
                assert_eq!(name, call.name);
                self.told.push(told);
                self.calls.push(call);
            }
            Event::CallBroken => assert!(self.started.take().is_some()),
            Event::Reasoned(text) => {
                self.text.clear();
                self.calls.clear();
                self.told.clear();
                self.reasoning = text;
            }
            other => panic!("{other:?}"),
        }
    }
}

fn streamed(mut stream: TurnStream, text: &str, cuts: &[usize]) -> (Seen, ParsedTurn) {
    let mut seen = Seen::default();
    let mut rest = text.as_bytes();
    for cut in cuts.iter().cycle().take(text.len()) {
        let (piece, after) = rest.split_at((*cut).min(rest.len()));
        rest = after;
        stream.push(piece).into_iter().for_each(|event| seen.add(event));
    }
    stream.push(rest).into_iter().for_each(|event| seen.add(event));
    let (last, turn) = stream.finish();
    last.into_iter().for_each(|event| seen.add(event));
    (seen, turn)
}

fn without_ids(calls: &[ToolCall]) -> Vec<Value> {
    calls.iter().map(|call| json!([call.name, call.arguments])).collect()
}

fn some(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty())
}

/// Checks a text of a family in pieces against the whole; says what is wrong.
fn check(family: &Family, text: &str, tools: &[ToolSpec], cuts: &[usize]) -> Result<(), String> {
    let whole = family.parse(text, tools);
    let (seen, turn) = streamed(family.stream(tools, Start::Turn), text, cuts);
    let name = family.name();
    let differ = |what: &str, seen: String, whole: String| {
        if seen == whole { Ok(()) } else { Err(format!("{name} {what}: {text:?}\n  {seen}\n  {whole}")) }
    };
    for (read, source) in [(&turn, "turn"), (&whole, "whole")] {
        let calls = |calls: &[ToolCall]| format!("{:?}", without_ids(calls));
        differ(&format!("calls of the {source}"), calls(&seen.calls), calls(&read.calls))?;
        differ("text", format!("{:?}", some(&seen.text)), format!("{:?}", read.content.as_deref()))?;
        differ(
            "reasoning",
            format!("{:?}", some(&seen.reasoning)),
            format!("{:?}", read.reasoning.as_deref()),
        )?;
    }
    differ("defects", format!("{:?}", turn.defects), format!("{:?}", whole.defects))?;
    if whole.defects.is_empty() {
        for (told, call) in seen.told.iter().zip(&seen.calls) {
            // Arguments that had to be mended are told up to there.
            if let Ok(told) = serde_json::from_str::<Value>(told) {
                differ("arguments", told.to_string(), json!(call.arguments).to_string())?;
            }
        }
    }
    Ok(())
}

fn families() -> Vec<Family> {
    Family::names().iter().map(|name| Family::named(name).unwrap()).collect()
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![Just(vec![1]), proptest::collection::vec(1..24_usize, 1..4)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, rng_seed: RngSeed::Fixed(19), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn turns_in_pieces_are_turns_in_whole(
        (tools, calls) in tools_and_calls(),
        thought in prop_oneof![Just(None), text().prop_map(Some)],
        before in prop_oneof![Just(String::new()), text()],
        after in prop_oneof![Just(String::new()), text()],
        cuts in cuts(),
    ) {
        let mut wrong = Vec::new();
        for family in families() {
            let said = family.render_calls(&calls, &tools);
            let thought = thought.as_ref().map_or(String::new(), |thought| format!("<think>{thought}</think>"));
            for text in [said.clone(), format!("{thought}{before}{said}"), format!("{before}{said}{after}{said}")] {
                wrong.extend(check(&family, &text, &tools, &cuts).err());
            }
            // Whole arguments are told as they arrive, as JSON.
            let (seen, _) = streamed(family.stream(&tools, Start::Turn), &said, &cuts);
            for (told, call) in seen.told.iter().zip(&calls) {
                if serde_json::from_str::<Value>(told).ok() != Some(json!(call.arguments)) {
                    wrong.push(format!("{}: {said:?} told {told:?}", family.name()));
                }
            }
        }
        prop_assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong[..wrong.len().min(6)].join("\n"));
    }

    #[test]
    fn broken_turns_in_pieces_are_broken_turns_in_whole(
        (tools, calls) in tools_and_calls(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), text()), 1..3),
        cuts in cuts(),
    ) {
        let mut wrong = Vec::new();
        for family in families() {
            let mut said: Vec<char> = family.render_calls(&calls, &tools).chars().collect();
            for (at, length, put) in &damage {
                let at = at.index(said.len() + 1);
                let end = (at + length.index(6)).min(said.len());
                said.splice(at..end, put.chars());
            }
            let said = String::from_iter(said);
            wrong.extend(check(&family, &said, &tools, &cuts).err());
        }
        prop_assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong[..wrong.len().min(6)].join("\n"));
    }
}

#[test]
fn marks_are_never_shown_in_part() {
    for family in families() {
        let said = family.render_calls(&[call("read_file", json!({"path": "notes.txt"}))], &tools());
        if matches!(family.name(), "llama3_json" | "pythonic" | "functionary_v3_2") {
            continue;
        }
        let (seen, turn) = streamed(family.stream(&tools(), Start::Turn), &format!("Well.\n{said}"), &[1]);
        assert_eq!(
            (seen.text.trim(), turn.content.as_deref()),
            ("Well.", Some("Well.")),
            "{}",
            family.name()
        );
        // Up to any place, what was shown is text of the whole.
        let text = format!("Well.\n{said}");
        let mut stream = family.stream(&tools(), Start::Turn);
        for byte in text.as_bytes() {
            for event in stream.push(&[*byte]) {
                if let Event::Text(shown) = event {
                    assert!("Well.\n".contains(shown.trim()), "{}: {shown:?}", family.name());
                }
            }
        }
    }
}

#[test]
fn reasoning_that_the_prompt_opened() {
    for family in families() {
        let name = family.name().to_owned();
        let Some(reasoning) = family.turn(&tools(), &Default::default()).unwrap().reasoning else { continue };
        let said = family.render_calls(&[call("now", json!({}))], &tools());
        let text = format!("Is it late?{}\n{said}", reasoning.close);
        for start in [Start::Reasoning, Start::Turn] {
            let (seen, turn) = streamed(family.stream(&tools(), start), &text, &[3]);
            assert_eq!(turn.reasoning.as_deref(), Some("Is it late?"), "{name} {start:?}");
            assert_eq!(
                (seen.reasoning.trim(), turn.calls.len(), some(&seen.text)),
                ("Is it late?", 1, None),
                "{name}"
            );
        }
        // Told of it, the stream shows no thought as text even where it never ends.
        let (seen, turn) = streamed(family.stream(&tools(), Start::Reasoning), "Is it late", &[4]);
        assert_eq!(
            (turn.content, turn.reasoning.as_deref(), seen.text.as_str()),
            (None, Some("Is it late"), "")
        );
        let opened = format!("{}Is it late?{}Yes.", reasoning.open, reasoning.close);
        let (seen, turn) = streamed(family.stream(&tools(), Start::Turn), &opened, &[2]);
        assert_eq!((turn.content.as_deref(), seen.reasoning.trim()), (Some("Yes."), "Is it late?"), "{name}");
        // Both grammars of it take what the model writes, and nothing after the mark.
        let (whole, inside) =
            (crate::support::automaton(&reasoning.whole), crate::support::automaton(&reasoning.inside));
        let closed = format!("Is it late?{}", reasoning.close);
        assert!(
            crate::support::accepts(&inside, &closed) && !crate::support::accepts(&whole, &closed),
            "{name}"
        );
        let both = format!("{}{closed}", reasoning.open);
        assert!(crate::support::accepts(&whole, &both), "{name}");
        assert!(!crate::support::accepts(&inside, &format!("{closed} more")), "{name}");
    }
}

#[test]
fn work_grows_with_the_text() {
    let units = [
        "<tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"",
        "<tool_call>\n{\"name\": \"now\", \"arguments\": {\"a\": \"",
        "<tool_call>\n<function=now>\n<parameter=a>\n",
        "<think>",
        "</think>",
        "{",
        "[now(a=",
        "plain text ",
        "[TOOL_CALLS]now[ARGS]{",
        "<tool_call>now<arg_key>a</arg_key><arg_value>",
        "<|tool_call>call:now{a:<|\"|>",
    ];
    for family in families() {
        for unit in units {
            let work = |size: usize| {
                let mut stream = family.stream(&tools(), Start::Turn);
                for piece in unit.repeat(size / unit.len()).as_bytes().chunks(16) {
                    stream.push(piece);
                }
                stream.work()
            };
            let (small, large) = (work(1 << 14), work(1 << 16));
            assert!(
                large < small.max(1 << 16) * 8,
                "{} {unit:?}: {small} for 16 KiB, {large} for 64 KiB",
                family.name()
            );
        }
    }
}
