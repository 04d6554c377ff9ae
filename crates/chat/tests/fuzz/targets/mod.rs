//! What is fuzzed: each target takes bytes, makes a text of them, reads it, and panics if a law is broken. Called by `cargo
//! fuzz` (the wrappers in `fuzz/`) and by the time-boxed test beside this folder; the laws serve the other tests as well.

use std::sync::LazyLock;

use serde_json::{Value, json};
use toolgate_chat::fallback::{Extraction, Stream, extract_typed};
use toolgate_chat::format::{Family, Start, TurnStream};
use toolgate_chat::{Event, ParsedTurn, ToolCall, ToolFormat, ToolSpec};

static FAMILIES: LazyLock<Vec<Family>> =
    LazyLock::new(|| Family::names().iter().map(|name| Family::named(name).unwrap()).collect());

static TOOLS: LazyLock<Vec<ToolSpec>> = LazyLock::new(|| {
    let any = json!({"type": "object", "properties": {"a": {}, "s": {"type": "string"}, "n": {"type": "integer"},
        "l": {"type": "array", "items": {"type": "string"}}, "o": {"type": "object", "properties": {"b": {"type": "boolean"}}}}});
    vec![ToolSpec::new("f", "", any).unwrap(), ToolSpec::new("g_h", "", Value::Null).unwrap()]
});

/// Texts of calls, whole and in pieces: what the bytes choose from.
pub(crate) static PIECES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let call = |name: &str, arguments: Value| {
        ToolCall::new(name, arguments.as_object().unwrap().clone()).with_id("c1")
    };
    let calls =
        [call("f", json!({"s": "x", "n": 3, "l": ["p", "q"], "o": {"b": true}})), call("g_h", json!({}))];
    let mut pieces: Vec<String> = FAMILIES.iter().map(|family| family.render_calls(&calls, &TOOLS)).collect();
    // The marks and words of each, which the pieces between its special characters are.
    let marks: Vec<String> = pieces
        .iter()
        .flat_map(|piece| piece.split_inclusive(['>', ']', '}', '\n', '\"', ' ']))
        .map(str::to_owned)
        .collect();
    pieces.extend(marks);
    let other = [
        "```json\n",
        "```",
        "`",
        "<think>",
        "</think>",
        "\\",
        "'",
        "é",
        "\u{0}",
        "\r\n",
        "/*",
        "*/",
        "//",
        "{",
        "[",
        "<|im_end|>",
        "</s>",
        "<s>",
        "<|channel|>",
        "<|message|>",
        "<|start|>assistant",
        "<channel|>",
        "<|channel>thought",
        "[THINK]",
        "[/THINK]",
        "</parameter>",
        "</arg_value>",
        "<![CDATA[",
        "]]>",
        "\n| ",
        "\n> ",
        "functions.f:1",
        "print(",
        "call:f{",
        "1e999",
        "\n",
        ">>>",
        "functools[",
        "to=functions.f",
        "{\"name\": \"f\", \"arguments\": {\"s\": 1}}",
        "None",
        "text ",
        "<thinking>",
        "</thinking>",
        "</think >",
        "◁think▷",
        "◁/think▷",
        "<answer>",
        "</answer>",
        "<response>",
        "</response>",
        "<pre>",
        "</pre>",
        "<td>",
        "</td>",
        "<!--",
        "-->",
        "all\n",
        "<|recipient|>",
        "<|content|>",
        "f[ARGS]{",
        "<|tool_call_argument_begin|>",
        "```tool_code\n",
        "import f\n",
        "# f\n",
        "NaN",
        "f(s=1)",
    ];
    pieces.extend(other.map(str::to_owned));
    pieces.sort();
    pieces.dedup();
    pieces
});

/// The text that bytes stand for: two bytes a piece, or the bytes themselves.
fn text_of(data: &[u8]) -> String {
    if data.first().is_some_and(|first| first % 8 == 0) {
        return String::from_utf8_lossy(data).into_owned();
    }
    let pick =
        |pair: &[u8]| PIECES[(usize::from(pair[0]) * 256 + usize::from(pair[1])) % PIECES.len()].as_str();
    data.chunks_exact(2).map(pick).collect()
}

/// Reads a text with the fallback parser and with one family, whole and in pieces; returns the bytes that were looked at.
pub(crate) fn parser(data: &[u8]) -> u64 {
    let Some(([family, cut, tools], data)) = data.split_first_chunk::<3>() else { return 0 };
    let text = text_of(data);
    let tools: &[ToolSpec] = if tools % 2 == 0 { &TOOLS } else { &[] };
    let cuts = [usize::from(cut % 16) + 1, usize::from(cut / 16) + 1];
    spans_lie_in_the_text(&text, tools);
    let whole = extract_typed(&text, tools);
    assert_eq!(extracted(&text, tools, &cuts), Read::of(&whole), "{text:?}");
    let family = &FAMILIES[usize::from(*family) % FAMILIES.len()];
    if let Err(wrong) = turn_in_pieces(family, &text, tools, &cuts) {
        panic!("{wrong}");
    }
    let mut stream = Stream::new(tools);
    stream.push(text.as_bytes());
    stream.work()
}

fn spans_lie_in_the_text(text: &str, tools: &[ToolSpec]) {
    let found = extract_typed(text, tools);
    let mut at = 0;
    for span in &found.dropped {
        assert!(
            at <= span.start && text.get(span.start..span.end).is_some_and(|text| !text.is_empty()),
            "{text:?}: {span:?}"
        );
        at = span.end;
    }
    assert!(found.repairs.iter().all(|repair| repair.offset <= text.len()), "{text:?}");
    let parts = [found.content.as_deref(), found.reasoning.as_deref()];
    assert!(parts.into_iter().flatten().all(|part| is_within(part, text)), "{text:?}: {parts:?}");
}

/// Whether a text is another one with parts left out.
pub(crate) fn is_within(part: &str, whole: &str) -> bool {
    let mut whole = whole.chars();
    part.chars().all(|c| whole.any(|other| other == c))
}

/// What events say, put together by someone who knows nothing else.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<ToolCall>,
    /// The arguments of each call as they were told.
    pub(crate) told: Vec<String>,
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

/// The bytes of a text in pieces of these sizes in turn.
fn pieces<'t>(text: &'t str, cuts: &[usize]) -> Vec<&'t [u8]> {
    let (mut pieces, mut rest) = (Vec::new(), text.as_bytes());
    for cut in cuts.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at((*cut).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// What the stream of a text tells when it is cut so, and the turn it makes of it.
pub(crate) fn streamed(mut stream: TurnStream, text: &str, cuts: &[usize]) -> (Seen, ParsedTurn) {
    let mut seen = Seen::default();
    for piece in pieces(text, cuts) {
        stream.push(piece).into_iter().for_each(|event| seen.add(event));
    }
    let (last, turn) = stream.finish();
    last.into_iter().for_each(|event| seen.add(event));
    (seen, turn)
}

fn without_ids(calls: &[ToolCall]) -> Vec<Value> {
    calls.iter().map(|call| json!([call.name, call.arguments])).collect()
}

/// The text, unless it is blank.
pub(crate) fn some(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty())
}

/// Checks a text of a family in pieces against the whole; says what is wrong.
pub(crate) fn turn_in_pieces(
    family: &Family,
    text: &str,
    tools: &[ToolSpec],
    cuts: &[usize],
) -> Result<(), String> {
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

/// What the events add up to.
pub(crate) fn extracted(text: &str, tools: &[ToolSpec], cuts: &[usize]) -> Read {
    let mut stream = Stream::new(tools);
    let mut seen = Seen::default();
    for piece in pieces(text, cuts) {
        stream.push(piece).into_iter().for_each(|event| seen.add(event));
    }
    let (last, whole) = stream.finish();
    last.into_iter().for_each(|event| seen.add(event));
    let trimmed = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let content = if seen.text == text { Some(seen.text) } else { trimmed(&seen.text) };
    let told = Read { calls: without_ids(&seen.calls), content, reasoning: trimmed(&seen.reasoning) };
    assert_eq!(told, Read::of(&whole), "{text:?}");
    told
}

/// What was read of a text, without ids, which are random.
#[derive(Debug, PartialEq)]
pub(crate) struct Read {
    pub(crate) calls: Vec<Value>,
    pub(crate) content: Option<String>,
    pub(crate) reasoning: Option<String>,
}

impl Read {
    pub(crate) fn of(found: &Extraction) -> Self {
        let (content, reasoning) = (found.content.clone(), found.reasoning.clone());
        Self { calls: without_ids(&found.calls), content, reasoning }
    }
}
