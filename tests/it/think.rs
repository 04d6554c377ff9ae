//! Turns that think, say and call: each in the order that the model itself begins, over text marks and over marks that are tokens.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate::engine::{
    self, Cancel, Engine, LocalEngine, Reasoning, Sampling, Turn, TurnEvent, TurnRequest,
};
use toolgate_chat::{
    Dialogue, Effect, Message, Template, TemplateTokens, ToolCall, ToolChoice, ToolReply, ToolSpec,
    Transcript,
};
use toolgate_grammar::marks::MarkTokens;
use toolgate_infer::scripted::Scripted;
use toolgate_infer::{TokenKind, Vocabulary};

/// A template that writes the thoughts of its history, and leaves it to the model whether it thinks.
const THINKING: &str = r#"
{%- for m in messages %}
{%- if m.role == "tool" %}<user><tool_response>{{ m.content }}</tool_response>
{%- else %}<{{ m.role }}>{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}{% if m.tool_calls %}{% for c in m.tool_calls %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}{% endif %}{% endif %}
{%- if loop.first and tools %}<tools>{{ tools | tojson }}</tools> calls go into <tool_call></tool_call>{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<assistant>{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% endif %}{% endif %}"#;

const CALL: &str =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";

/// Bytes alone, so that marks are spelled; or bytes with the marks as tokens.
fn vocabularies() -> [Arc<Vocabulary>; 2] {
    let bytes = (0..=255_u8).map(|byte| (vec![byte], TokenKind::Text));
    let end = [(Vec::new(), TokenKind::EndOfGeneration)];
    let marks = ["<think>", "</think>", "<tool_call>", "</tool_call>"];
    let marks = marks.map(|mark| (mark.as_bytes().to_vec(), TokenKind::Special));
    let marked = Vocabulary::new(bytes.chain(end).chain(marks)).unwrap();
    [Arc::new(Vocabulary::bytes_only()), Arc::new(marked)]
}

fn tool(effect: Effect) -> ToolSpec {
    let parameters =
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    ToolSpec::new("get_weather", "The weather in a city.", parameters).unwrap().with_effect(effect)
}

fn engine(template: &str, model: Scripted, options: engine::Options) -> LocalEngine<Scripted> {
    let dialogue = Dialogue::derived(Template::new(template, TemplateTokens::default()).unwrap());
    let dialogue = dialogue.resolved(&MarkTokens::of(toolgate_infer::Backend::vocabulary(&model)));
    LocalEngine::new("scripted", model, dialogue, options)
}

fn asked() -> Transcript {
    Transcript::new().with(Message::User("How is the weather in Oslo?".into()))
}

/// A turn of a model that wants to say this, and the text and the thoughts that were shown.
struct Made {
    turn: Turn,
    text: String,
    thoughts: String,
    prompt: String,
}

impl Made {
    fn content(&self) -> &str {
        self.turn.parsed.content.as_deref().unwrap_or_default()
    }

    fn reasoning(&self) -> &str {
        self.turn.parsed.reasoning.as_deref().unwrap_or_default()
    }

    fn calls(&self) -> Vec<String> {
        let of = |call: &ToolCall| format!("{} {}", call.name, Value::Object(call.arguments.clone()));
        self.turn.parsed.calls.iter().map(of).collect()
    }
}

fn made_of(
    engine: &LocalEngine<Scripted>,
    request: &TurnRequest<'_>,
) -> Result<Made, toolgate::engine::Error> {
    let (mut text, mut thoughts, mut prompt) = (String::new(), String::new(), String::new());
    let turn = engine.turn(request, &Cancel::default(), &mut |event| match event {
        TurnEvent::Text(piece) => text.push_str(&piece),
        TurnEvent::Reasoning(piece) => thoughts.push_str(&piece),
        TurnEvent::Prompted(tokens) => prompt = engine.text_of(&tokens),
        _ => {}
    })?;
    Ok(Made { turn, text, thoughts, prompt })
}

fn said(vocabulary: &Arc<Vocabulary>, wants: &str, sampling: &Sampling) -> Made {
    let engine =
        engine(THINKING, Scripted::new(vocabulary.clone()).context(16_384).say(wants), Default::default());
    let (transcript, tools) = (asked(), [tool(Effect::Reads)]);
    made_of(&engine, &TurnRequest::new(&transcript, &tools, sampling)).unwrap()
}

#[test]
fn a_turn_is_what_the_model_begins_by_itself() {
    for vocabulary in vocabularies() {
        for (wants, thought, text, calls) in [
            (CALL.to_owned(), "", "", 1),
            ("It rains, I think.".to_owned(), "", "It rains, I think.", 0),
            (format!("<think>\nI look.\n</think>\n\n{CALL}"), "I look.", "", 1),
            ("<think>\nI know.\n</think>\n\nIt rains.".to_owned(), "I know.", "It rains.", 0),
            (format!("I look it up.\n{CALL}"), "", "I look it up.", 1),
            (format!("<think>Hm.</think>I look it up. {CALL}"), "Hm.", "I look it up.", 1),
            (format!("A moment. <think>Where?</think>\n{CALL}"), "Where?", "A moment.", 1),
            ("If a < b and <b>bold</b>, it rains.".to_owned(), "", "If a < b and <b>bold</b>, it rains.", 0),
        ] {
            let made = said(&vocabulary, &wants, &Sampling::default());
            let found = (made.reasoning(), made.content(), made.turn.parsed.calls.len());
            assert_eq!(found, (thought, text, calls), "{wants:?} with {} tokens", vocabulary.len());
            assert_eq!(made.text.trim(), text, "what is shown adds up: {wants:?}");
            assert_eq!(made.thoughts.trim(), thought, "{wants:?}");
            assert!(calls == 0 || made.calls() == ["get_weather {\"city\":\"Oslo\"}"], "{wants:?}");
            assert_eq!(made.turn.stats.reasoning_tokens > 0, !thought.is_empty(), "{wants:?}");
        }
    }
}

#[test]
fn what_a_thought_begins_with_is_no_beginning_of_a_call() {
    // Both marks begin with one character here, and the answer has nothing to do with the tool.
    let [spelled, _] = vocabularies();
    let made = said(&spelled, "<think>\n17 and 5 are 22.\n</think>\n\n22", &Sampling::default());
    assert_eq!((made.content(), made.turn.parsed.calls.len()), ("22", 0));
}

#[test]
fn a_call_ends_a_thought_that_was_left_open_where_its_mark_is_a_token() {
    let [_, marked] = vocabularies();
    // What it goes on with behind the closing mark that is written for it.
    let model = Scripted::new(marked)
        .context(16_384)
        .say(format!("<think>\nI look.\n{CALL}"))
        .or_say(format!("<think>\nI look.\n\n</think>{CALL}"));
    let engine = engine(THINKING, model, engine::Options::guided());
    let (transcript, tools, sampling) = (asked(), [tool(Effect::Reads)], Sampling::default());
    let made = made_of(&engine, &TurnRequest::new(&transcript, &tools, &sampling)).unwrap();
    assert_eq!((made.reasoning(), made.content()), ("I look.", ""));
    assert_eq!(made.calls(), ["get_weather {\"city\":\"Oslo\"}"]);
    let spelled = "<think>\nA call is <tool_call>, I know.\n</think>\n\nIt rains.";
    let made = said(&vocabularies()[0], spelled, &Sampling::default());
    assert_eq!((made.reasoning(), made.content()), ("A call is <tool_call>, I know.", "It rains."));
}

#[test]
fn a_thought_ends_at_its_budget_with_a_sentence_that_says_so() {
    for vocabulary in vocabularies() {
        let wants = format!("<think>{}</think>\n\n{CALL}", "on and on ".repeat(50));
        let sampling = Sampling::default().reasoning(Reasoning::within(120));
        let made = said(&vocabulary, &wants, &sampling);
        assert!(made.reasoning().ends_with("I have thought enough, and go on."), "{}", made.reasoning());
        assert!(made.turn.stats.reasoning_tokens <= 120, "{}", made.turn.stats.reasoning_tokens);
        let long = said(&vocabulary, &wants, &Sampling::default().max_tokens(2_000));
        assert_eq!((long.reasoning().len(), long.calls().len()), ("on and on ".len() * 50 - 1, 1), "control");
    }
}

#[test]
fn where_no_thought_is_wanted_none_is_written() {
    for vocabulary in vocabularies() {
        let off = Sampling::default().reasoning(Reasoning::OFF);
        // The template has a variable for it.
        let made = said(&vocabulary, "It rains.", &off);
        assert!(made.prompt.ends_with("<assistant><think>\n\n</think>\n\n"), "{}", made.prompt);
        assert_eq!((made.reasoning(), made.content()), ("", "It rains."));
        let made = said(&vocabulary, "It rains.", &Sampling::default());
        assert!(made.prompt.ends_with("<assistant>"), "control: {}", made.prompt);
        // This one has none, and the model begins all the same.
        let template = THINKING.replace("enable_thinking is false", "false");
        let model = Scripted::new(vocabulary.clone()).say("<think>Hm.</think>It rains.");
        let engine = engine(&template, model, engine::Options::guided());
        let (transcript, tools) = (asked(), [tool(Effect::Reads)]);
        let made = made_of(&engine, &TurnRequest::new(&transcript, &tools, &off)).unwrap();
        assert_eq!((made.reasoning(), made.thoughts.as_str(), made.content()), ("", "", "It rains."));
    }
}

#[test]
fn a_model_that_would_not_think_does_so_where_it_is_asked_to() {
    for vocabulary in vocabularies() {
        let model = Scripted::new(vocabulary).say("<think>I know.</think>It rains.");
        let engine = engine(THINKING, model, engine::Options::guided().reasoning(Reasoning::ON));
        let transcript = asked();
        let sampling = Sampling::default();
        let made = made_of(&engine, &TurnRequest::new(&transcript, &[], &sampling)).unwrap();
        assert_eq!((made.reasoning(), made.content()), ("I know.", "It rains."));
    }
}

#[test]
fn a_variable_that_the_template_does_not_read_is_refused_by_name() {
    let engine = engine(THINKING, Scripted::new(vocabularies()[0].clone()).say("Yes."), Default::default());
    let transcript = asked();
    let with = |name: &str, value: bool| {
        let values = json!({name: value}).as_object().unwrap().clone();
        let sampling = Sampling::default().template_values(values);
        made_of(&engine, &TurnRequest::new(&transcript, &[], &sampling)).map(|made| made.prompt)
    };
    let error = with("enable_thoughts", true).unwrap_err().to_string();
    assert!(error.contains("\"enable_thoughts\"") && error.contains("enable_thinking"), "{error}");
    assert!(with("enable_thinking", false).unwrap().ends_with("</think>\n\n"));
    assert!(with("enable_thoughts", false).is_ok(), "it is off as it is");
}

#[test]
fn text_goes_on_where_the_call_behind_it_may_not_be_made() {
    for vocabulary in vocabularies() {
        let model = Scripted::new(vocabulary)
            .context(16_384)
            .on("\nKind:", " look")
            // Where it goes on behind what it said.
            .on("I set it. ", "Or would, if I might.")
            .on("What would you set?", format!("I set it. {CALL}"));
        let engine = engine(THINKING, model, engine::Options::guided());
        let transcript = Transcript::new().with(Message::User("What would you set?".into()));
        let (tools, sampling) = ([tool(Effect::Changes)], Sampling::default());
        let made = made_of(&engine, &TurnRequest::new(&transcript, &tools, &sampling)).unwrap();
        assert_eq!((made.content(), made.calls().len()), ("I set it. Or would, if I might.", 0));
        assert_eq!(made.text, made.content());
    }
}

#[test]
fn no_call_is_looked_for_where_none_may_be_made() {
    for vocabulary in vocabularies() {
        let model = Scripted::new(vocabulary).say(format!("I look. {CALL}"));
        let engine = engine(THINKING, model, engine::Options::guided());
        let (transcript, tools) = (asked(), [tool(Effect::Reads)]);
        let sampling = Sampling::default().max_tokens(60);
        let request = TurnRequest::new(&transcript, &tools, &sampling).choice(ToolChoice::None);
        let made = made_of(&engine, &request).unwrap();
        assert!(made.calls().is_empty() && made.content().starts_with("I look. "), "{}", made.content());
        assert!(!made.content().contains("<tool_call"), "{}", made.content());
    }
}

#[test]
fn a_thought_goes_back_into_the_field_that_the_template_has_for_it() {
    let call = ToolCall::new("get_weather", json!({"city": "Oslo"}).as_object().unwrap().clone());
    let reply = ToolReply::ok(&call, "rain");
    let thought =
        Message::Assistant { content: None, reasoning: Some("I look it up.".to_owned()), calls: vec![call] };
    let transcript = asked().with(thought).with(Message::Tool(vec![reply]));
    for (field, is_kept) in
        [("reasoning_content", true), ("reasoning", true), ("thinking", true), ("musings", false)]
    {
        let template = THINKING.replace("reasoning_content", field);
        let options = engine::Options::guided().answer_view(engine::AnswerView::Full);
        let engine = engine(&template, Scripted::new(vocabularies()[0].clone()).say("It rains."), options);
        let (tools, sampling) = ([tool(Effect::Reads)], Sampling::default());
        let made = made_of(&engine, &TurnRequest::new(&transcript, &tools, &sampling)).unwrap();
        assert_eq!(made.prompt.contains("<think>\nI look it up.\n</think>"), is_kept, "{field}");
        assert_eq!(made.prompt.contains("I look it up."), is_kept, "{field}: nowhere else");
    }
}
