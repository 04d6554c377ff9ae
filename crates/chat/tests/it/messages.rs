//! Turns that are several messages, as gpt-oss writes them: what each message is, wherever its recipient stands and whatever ends it.

use serde_json::{Value, json};
use toolgate_chat::fallback::extract_typed;
use toolgate_chat::format::{Family, Start};
use toolgate_chat::{DefectKind, Dialogue, ParsedTurn, Template, TemplateTokens, ToolFormat, TurnRequest};
use toolgate_grammar::marks::MarkTokens;

use crate::support::{accepts, automaton, call, tools};
use crate::targets::{extracted, streamed, turn_in_pieces};

const NEXT: &str = "<|end|><|start|>assistant";
const MARKS: [&str; 7] =
    ["<|start|>", "<|end|>", "<|return|>", "<|call|>", "<|channel|>", "<|message|>", "<|constrain|>"];

fn harmony() -> Family {
    Family::named("harmony").unwrap()
}

/// The turn, read whole and in pieces.
fn read(text: &str) -> ParsedTurn {
    let family = harmony();
    for cuts in [&[1][..], &[7], &[3, 40, 2]] {
        turn_in_pieces(&family, text, &tools(), cuts).unwrap();
    }
    family.parse(text, &tools())
}

/// The same from tokens, each mark one of them.
fn read_tokens(text: &str) -> ParsedTurn {
    let names = MARKS.iter().zip(300..).map(|(mark, id)| ((*mark).to_owned(), id));
    let mut stream = harmony().resolved(&MarkTokens::new(names)).token_stream(&tools(), Start::Turn);
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let mark = MARKS.iter().zip(300..).find(|(mark, _)| rest.starts_with(**mark));
        let (id, bytes) = mark.map_or((1, &rest[..next.len_utf8()]), |(mark, id)| (id, *mark));
        stream.push(id, bytes.as_bytes());
        rest = &rest[bytes.len()..];
    }
    stream.finish().1
}

/// What a turn says: thought, text, calls, defects.
type Said<'a> = (Option<&'a str>, Option<&'a str>, &'a [(&'a str, Value)], &'a [DefectKind]);

fn same(turn: &ParsedTurn, (reasoning, content, calls, defects): Said<'_>, text: &str) {
    let made: Vec<(&str, Value)> =
        turn.calls.iter().map(|call| (call.name.as_str(), json!(call.arguments))).collect();
    let kinds: Vec<DefectKind> = turn.defects.iter().map(|defect| defect.kind).collect();
    assert_eq!(
        (turn.reasoning.as_deref(), turn.content.as_deref(), &made[..], &kinds[..]),
        (reasoning, content, calls, defects),
        "{text}"
    );
    let said = format!("{:?}", (&turn.reasoning, &turn.content, &turn.calls));
    assert!(MARKS.iter().all(|mark| !said.contains(mark)), "{said}");
}

fn check(text: &str, said: Said<'_>) {
    same(&read(text), said, text);
    same(&read_tokens(text), said, text);
}

fn now() -> (&'static str, Value) {
    ("now", json!({}))
}

fn reads(path: &str) -> (&'static str, Value) {
    ("read_file", json!({ "path": path }))
}

#[test]
fn a_call_names_its_tool_behind_the_role_or_behind_the_channel() {
    for head in [
        " to=functions.read_file<|channel|>commentary json<|message|>",
        " to=functions.read_file<|channel|>commentary <|constrain|>json<|message|>",
        " to=functions.read_file<|channel|>commentary code<|message|>",
        " to=functions.read_file<|channel|>commentary<|message|>",
        " to=functions.read_file<|channel|>analysis<|message|>",
        "to=functions.read_file<|channel|>commentary json<|message|>",
        "<|channel|>commentary to=functions.read_file <|constrain|>json<|message|>",
        "<|channel|>commentary to=functions.read_file<|constrain|>json<|message|>",
        "<|channel|>commentary to=functions.read_file json<|message|>",
        "<|channel|>commentary to=functions.read_file code<|message|>",
        "<|channel|>commentary to=functions.read_file<|message|>",
        "<|channel|>commentary to=read_file<|message|>",
        "<|start|>assistant to=functions.read_file<|channel|>commentary json<|message|>",
        "<|start|>assistant<|channel|>commentary to=functions.read_file json<|message|>",
    ] {
        for end in ["<|call|>", "<|end|>", "<|return|>", ""] {
            let text = format!("{head}{{\"path\": \"a to=b.txt\"}}{end}");
            check(&text, (None, None, &[reads("a to=b.txt")], &[]));
            let thought = format!("<|channel|>analysis<|message|>Hm.{NEXT}{text}");
            check(&thought, (Some("Hm."), None, &[reads("a to=b.txt")], &[]));
        }
    }
}

#[test]
fn a_text_is_an_answer_or_stands_in_front_of_calls() {
    let analysis = "<|channel|>analysis<|message|>";
    let preamble = "<|channel|>commentary<|message|>";
    let answer = "<|channel|>final<|message|>";
    let call = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>";
    let role = " to=functions.now<|channel|>commentary json<|message|>{}<|call|>";
    check(&format!("{answer}It is noon.<|return|>"), (None, Some("It is noon."), &[], &[]));
    check(&format!("{answer}It is noon."), (None, Some("It is noon."), &[], &[]));
    check(&format!("{preamble}I look."), (None, Some("I look."), &[], &[]));
    for call in [call, role] {
        check(&format!("{preamble}I look.{NEXT}{call}"), (None, Some("I look."), &[now()], &[]));
        check(&format!("{preamble}I look.<|end|>{call}"), (None, Some("I look."), &[now()], &[]));
        check(
            &format!("{analysis}Hm.{NEXT}{preamble}I look.{NEXT}{call}"),
            (Some("Hm."), Some("I look."), &[now()], &[]),
        );
        check(
            &format!("{preamble}I look.{NEXT}{analysis}Hm.{NEXT}{call}"),
            (Some("Hm."), Some("I look."), &[now()], &[]),
        );
        check(
            &format!("{call}<|start|>assistant{role}<|start|>assistant{call}"),
            (None, None, &[now(), now(), now()], &[]),
        );
    }
    check(
        &format!("{analysis}Hm.{NEXT}{analysis}So.{NEXT}{preamble}I look.{NEXT}{answer}Noon.<|return|>"),
        (Some("Hm.\n\nSo."), Some("I look.\n\nNoon."), &[], &[]),
    );
    // A message to a person is text, the channel that is named last is the one.
    check("<|channel|>commentary to=user<|message|>Noon.", (None, Some("Noon."), &[], &[]));
    check(
        "<|channel|>commentary to=assistant<|channel|>analysis<|message|>Hm.<|end|>",
        (Some("Hm."), None, &[], &[]),
    );
}

#[test]
fn what_is_no_whole_message_leaves_no_mark_behind() {
    let unclosed: &[DefectKind] = &[DefectKind::Unclosed];
    check("<|start|>assistant Noon.", (None, Some("Noon."), &[], &[]));
    check("<|channel|>final Noon is near.", (None, Some("Noon is near."), &[], &[]));
    check("<|message|>Noon.<|end|>", (None, Some("Noon."), &[], &[]));
    check("<|channel|>analysis<|message|>Hm.", (Some("Hm."), None, &[], unclosed));
    check("<|channel|>analysis<|message|>Hm.<|return|>", (Some("Hm."), None, &[], &[]));
    check(
        "<|channel|>analysis<|message|>Hm.<|channel|>final<|message|>Yes.",
        (Some("Hm."), Some("Yes."), &[], &[]),
    );
    for cut in [
        "<|start|>assistant",
        "<|channel|>",
        "<|channel|>comm",
        "<|channel|>commentary to=functions.re",
        " to=functions.now",
    ] {
        let expected = if cut == "<|start|>assistant" { &[] } else { unclosed };
        check(
            &format!("<|channel|>commentary<|message|>I look.<|end|>{cut}"),
            (None, Some("I look."), &[], expected),
        );
    }
    let call = "<|channel|>commentary to=functions.read_file json<|message|>";
    check(&format!("{call}{{\"path\": \"a"), (None, None, &[], unclosed));
    check(&format!("{call}print(1)<|call|>"), (None, None, &[], &[DefectKind::NotACall]));
    check(
        &format!("{call}print(1)<|call|><|start|>assistant<|channel|>final<|message|>So."),
        (None, Some("So."), &[], &[DefectKind::NotACall]),
    );
    check(
        &format!("{call}{{\"path\": \"a\"}}<|call|><|start|>assistant<|channel|>final<|message|>So."),
        (None, Some("So."), &[reads("a")], &[DefectKind::Stray]),
    );
    // Prose that names a recipient is prose, at its end as well.
    for prose in [
        "I write to=functions.now for it.",
        "to=functions.now is a recipient",
        "to=Rome",
        "a to=functions.now b",
    ] {
        check(prose, (None, Some(prose), &[], &[]));
    }
    let text = "<|channel|>final<|message|>I write to=functions.now, then to=functions.now<|channel|>commentary<|message|>{}";
    check(text, (None, Some("I write to=functions.now, then"), &[now()], &[]));
}

#[test]
fn a_thought_that_the_prompt_opened_ends_where_another_message_begins() {
    let text = format!("Hm.{NEXT}<|channel|>commentary to=functions.now<|message|>{{}}<|call|>");
    check(&text, (Some("Hm."), None, &[now()], &[]));
    let (_, turn) = streamed(harmony().stream(&tools(), Start::Reasoning), &text, &[2]);
    same(&turn, (Some("Hm."), None, &[now()], &[]), &text);
    // A text behind a header is none, and neither is one that nothing follows.
    check(&format!("<|channel|>final<|message|>Noon.{NEXT}"), (None, Some("Noon."), &[], &[]));
    check("Noon.<|end|>", (None, Some("Noon."), &[], &[]));
}

#[test]
fn a_turn_may_begin_in_all_the_ways_of_its_messages() {
    let family = harmony();
    let openings = family.openings();
    let calls = [" to=functions.", "<|channel|>commentary to=functions."];
    assert_eq!(openings[..2], calls);
    assert_eq!(family.openings_in_text(), calls);
    assert_eq!(family.text_heads(), ["<|channel|>final<|message|>", "<|channel|>commentary<|message|>"]);
    assert_eq!(family.text_end(), NEXT);
    assert_eq!(family.thoughts().unwrap().0.text(), "<|channel|>analysis<|message|>");
    // The control: other families have their own mark, and the head of an answer if there is one.
    let hermes = Family::hermes();
    assert_eq!((hermes.openings_in_text(), hermes.text_end()), (vec!["<tool_call>".to_owned()], ""));
    assert!(hermes.text_heads().is_empty());
    let command = Family::named("command_r7b").unwrap();
    assert_eq!(command.text_heads(), ["<|START_RESPONSE|>"]);
}

#[test]
fn an_answer_spells_no_mark_of_a_message() {
    let turn = harmony().turn(&tools(), &TurnRequest::default()).unwrap();
    let answer = automaton(&turn.answer.unwrap());
    let thought = automaton(&turn.reasoning.unwrap().whole);
    let thinks = |text: &str| format!("<|channel|>analysis<|message|>{text}{NEXT}");
    for mark in MARKS {
        assert!(!accepts(&answer, &format!("<|channel|>final<|message|>It is {mark}.")), "{mark}");
        assert!(!accepts(&thought, &thinks(mark)), "{mark}");
    }
    assert!(accepts(&answer, "<|channel|>final<|message|>It is <|noon|>."));
    assert!(accepts(&thought, &thinks("It is <|noon|>.")));
}

/// A template of messages; `header` is what a call has between `assistant` and its content.
fn template(header: &str) -> Dialogue {
    let source = "{% if tools %}<|start|>developer<|message|>{% for tool in tools %}type {{ tool.function.name }}\n{% endfor %}<|end|>{% endif %}\
        {% for m in messages %}{% if m.role == 'assistant' and m.tool_calls %}{% set call = m.tool_calls[0].function %}\
        <|start|>assistantHEADER<|message|>{{ call.arguments | tojson }}<|call|>\
        {% elif m.role == 'assistant' %}{% if m.thinking %}<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>{% endif %}\
        <|start|>assistant<|channel|>final<|message|>{{ m.content }}<|end|>\
        {% else %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}\
        {% if add_generation_prompt %}<|start|>assistant{% endif %}";
    let source = source.replace("HEADER", header);
    Dialogue::derived(Template::new(&source, TemplateTokens::default()).unwrap())
}

#[test]
fn a_call_is_written_where_the_template_has_its_recipient() {
    for (header, written) in [
        (
            " to=functions.{{ call.name }}<|channel|>commentary json",
            " to=functions.now<|channel|>commentary json<|message|>{}",
        ),
        (
            "<|channel|>commentary to=functions.{{ call.name }} <|constrain|>json",
            "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}",
        ),
    ] {
        let dialogue = template(header);
        let format = dialogue.format();
        let calls = [call("now", json!({}))];
        assert_eq!(format.render_calls(&calls, &tools()), written, "{}", dialogue.knowledge().why);
        let grammar = format.turn(&tools(), &TurnRequest::default()).unwrap();
        assert!(accepts(&automaton(&grammar.call.unwrap()), written));
        // Both places are read, and a turn may begin with either.
        for other in
            [" to=functions.now<|channel|>commentary json", "<|channel|>commentary to=functions.now json"]
        {
            let turn = format.parse(&format!("{other}<|message|>{{}}<|call|>"), &tools());
            same(&turn, (None, None, &[now()], &[]), other);
        }
        let openings = format.openings_in_text();
        for place in [" to=functions.", "<|channel|>commentary to=functions."] {
            assert!(openings.iter().any(|opening| opening == place), "{openings:?}");
        }
        assert_eq!(format.text_heads(), ["<|channel|>final<|message|>", "<|channel|>commentary<|message|>"]);
        assert_eq!(format.text_end(), NEXT);
        assert_eq!(format.thoughts().unwrap().1.text(), NEXT);
    }
}

#[test]
fn messages_are_found_in_the_text_of_a_server() {
    let check = |text: &str, (reasoning, content, calls, _): Said<'_>| {
        let found = extract_typed(text, &tools());
        let made: Vec<(&str, Value)> =
            found.calls.iter().map(|call| (call.name.as_str(), json!(call.arguments))).collect();
        assert_eq!(
            (found.reasoning.as_deref(), found.content.as_deref(), &made[..]),
            (reasoning, content, calls),
            "{text}"
        );
        extracted(text, &tools(), &[1]);
    };
    let call = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>";
    let role = " to=functions.now<|channel|>commentary json<|message|>{}<|call|>";
    let preamble = "<|channel|>commentary<|message|>I look.";
    let analysis = "<|channel|>analysis<|message|>Hm.";
    for call in [call, role] {
        check(call, (None, None, &[now()], &[]));
        check(&format!("{preamble}{NEXT}{call}"), (None, Some("I look."), &[now()], &[]));
        check(
            &format!("{analysis}{NEXT}{preamble}{NEXT}{call}"),
            (Some("Hm."), Some("I look."), &[now()], &[]),
        );
        check(
            &format!("{preamble}{NEXT}{analysis}{NEXT}{call}"),
            (Some("Hm."), Some("I look."), &[now()], &[]),
        );
        check(&format!("{call}<|start|>assistant{role}"), (None, None, &[now(), now()], &[]));
    }
    // The server left the tokens out.
    for call in [
        "commentary to=functions.read_file json{\"path\": \"a\"}",
        "commentary to=functions.read_file {\"path\": \"a\"}",
        "commentary to=functions.read_file code{\"path\": \"a\"}",
        " to=functions.read_filecommentary json{\"path\": \"a\"}",
    ] {
        check(call, (None, None, &[reads("a")], &[]));
        let turn = format!("assistant{call}");
        check(&format!("analysisHm.{turn}"), (Some("Hm."), None, &[reads("a")], &[]));
        check(&format!("commentaryI look.{turn}"), (None, Some("I look."), &[reads("a")], &[]));
        check(
            &format!("analysisHm.assistantcommentaryI look.{turn}"),
            (Some("Hm."), Some("I look."), &[reads("a")], &[]),
        );
        check(
            &format!("commentaryI look.assistantanalysisHm.{turn}"),
            (Some("Hm."), Some("I look."), &[reads("a")], &[]),
        );
        check(&format!("{call}{turn}"), (None, None, &[reads("a"), reads("a")], &[]));
    }
    check("finalIt is noon.", (None, Some("It is noon."), &[], &[]));
    // Prose that has such words is prose.
    for prose in
        ["final words", "commentary to follow", "The assistantcommentary is a header.", "analysis of it"]
    {
        check(prose, (None, Some(prose), &[], &[]));
    }
}
