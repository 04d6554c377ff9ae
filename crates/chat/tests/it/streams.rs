//! A family's turn in pieces: however it is cut, the events add up to the turn that the whole text is.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};
use toolgate_chat::format::{Family, Start};
use toolgate_chat::{Event, ToolFormat};

use crate::random::{text, tools_and_calls};
use crate::support::{call, tools};
use crate::targets::{some, streamed, turn_in_pieces};

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
                wrong.extend(turn_in_pieces(&family, &text, &tools, &cuts).err());
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
            wrong.extend(turn_in_pieces(&family, &said, &tools, &cuts).err());
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
        let text = format!("Is it late?{}\n{said}", reasoning.close.text());
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
        let opened = format!("{}Is it late?{}Yes.", reasoning.open.text(), reasoning.close.text());
        let (seen, turn) = streamed(family.stream(&tools(), Start::Turn), &opened, &[2]);
        assert_eq!((turn.content.as_deref(), seen.reasoning.trim()), (Some("Yes."), "Is it late?"), "{name}");
        // Both grammars of it take what the model writes, and nothing after the mark.
        let (whole, inside) =
            (crate::support::automaton(&reasoning.whole), crate::support::automaton(&reasoning.inside));
        let closed = format!("Is it late?{}", reasoning.close.text());
        assert!(
            crate::support::accepts(&inside, &closed) && !crate::support::accepts(&whole, &closed),
            "{name}"
        );
        let both = format!("{}{closed}", reasoning.open.text());
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
