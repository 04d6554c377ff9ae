//! What becomes of calls that are not quite what they should be: values that do not fit, and calls cut at the budget.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use toolgate::agent::{self, Agent, Event, Final, StopReason};
use toolgate::engine::{self, Cancel, LocalEngine, Sampling};
use toolgate::tools::{Args, Effect, Registry, Status, Tool, ToolResult};
use toolgate_chat::{
    Dialogue, Message, Template, TemplateTokens, ToolCall, ToolChoice, ToolSpec, Transcript,
};
use toolgate_infer::Vocabulary;
use toolgate_infer::scripted::Scripted;

use crate::agent::TEMPLATE;

/// A tool that counts its calls.
struct Counting {
    spec: ToolSpec,
    calls: Arc<AtomicUsize>,
}

impl Tool for Counting {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    fn effect(&self) -> Effect {
        Effect::Changes
    }
    fn call(&self, _: &Args) -> ToolResult {
        self.calls.fetch_add(1, Ordering::Relaxed);
        ToolResult::ok("done")
    }
}

struct Run {
    outcome: Final,
    events: Vec<Event>,
    transcript: Transcript,
    /// How often the tool was called.
    called: usize,
}

fn run(model: Scripted, parameters: Value, options: agent::Options, engine: engine::Options) -> Run {
    run_with(TEMPLATE, model, parameters, options, engine)
}

fn run_with(
    template: &str,
    model: Scripted,
    parameters: Value,
    options: agent::Options,
    engine: engine::Options,
) -> Run {
    let dialogue = Dialogue::derived(Template::new(template, TemplateTokens::default()).unwrap());
    let engine = LocalEngine::new("scripted", model, dialogue, engine);
    let definition = json!({"type": "function", "function":
        {"name": "note", "description": "Notes something.", "parameters": parameters}});
    let calls = Arc::new(AtomicUsize::new(0));
    let mut registry = Registry::new();
    let spec = ToolSpec::from_any(&definition).unwrap();
    registry.add(Counting { spec, calls: calls.clone() }).unwrap();
    let agent = Agent::new(Arc::new(engine), registry, options);
    let mut transcript = Transcript::new().with(Message::User("Note it.".into()));
    let mut events = Vec::new();
    let outcome = agent.run(&mut transcript, &Cancel::default(), &mut |event| events.push(event)).unwrap();
    Run { outcome, events, transcript, called: calls.load(Ordering::Relaxed) }
}

fn call(arguments: &str) -> String {
    format!("<tool_call>\n{{\"name\": \"note\", \"arguments\": {arguments}}}\n</tool_call>")
}

fn scripted() -> Scripted {
    Scripted::new(Arc::new(Vocabulary::bytes_only())).context(16_384).on("\nKind:", " change")
}

fn retries(run: &Run) -> Vec<&str> {
    let events = run.events.iter();
    let retries = events.filter_map(|event| match event {
        Event::Retry { why } => Some(why.as_str()),
        _ => None,
    });
    retries.collect()
}

fn arguments(run: &Run) -> Vec<String> {
    run.outcome.calls.iter().map(|call| Value::Object(call.arguments.clone()).to_string()).collect()
}

/// Each with a value that its grammar admits, and what the model would write otherwise.
fn faults() -> Vec<(Value, [&'static str; 2])> {
    let ids = json!({"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}});
    let with = |keyword: &str, value: Value| {
        let mut ids = ids.clone();
        ids[keyword] = value;
        json!({"type": "object", "properties": {"ids": ids, "text": {"type": "string"}}, "required": ["ids"]})
    };
    let conditional = json!({
        "type": "object",
        "properties": {"kind": {"enum": ["file", "web"]}, "place": {"type": "string"}},
        "required": ["kind"],
        "if": {"properties": {"kind": {"pattern": "^(?=web)"}}}, "then": {"required": ["place"]}
    });
    let items = json!({"type": "array", "items": {"type": "object", "properties":
        {"n": {"type": "number", "multipleOf": 2.5, "minimum": 0, "maximum": 9}}, "required": ["n"]}});
    let within = json!({"type": "object", "properties": {"items": items}, "required": ["items"]});
    let looking = json!({
        "type": "object", "properties": {"text": {"type": "string", "pattern": "^(?!secret).*$"}},
        "required": ["text"]
    });
    vec![
        (
            with("uniqueItems", json!(true)),
            [r#"{"ids": [3, 3], "text": "a"}"#, r#"{"ids": [3, 4], "text": "a"}"#],
        ),
        (with("uniqueItems", json!(true)), [r#"{"ids": [1, 2, 2]}"#, r#"{"ids": [1, 2]}"#]),
        (with("contains", json!({"const": 5})), [r#"{"ids": [3]}"#, r#"{"ids": [3, 5]}"#]),
        (
            within,
            [r#"{"items": [{"n": 5}, {"n": 7}, {"n": 5}]}"#, r#"{"items": [{"n": 5}, {"n": 5}, {"n": 5}]}"#],
        ),
        (conditional, [r#"{"kind": "web"}"#, r#"{"kind": "web", "place": "x"}"#]),
        (looking, [r#"{"text": "secret plan"}"#, r#"{"text": "plan"}"#]),
    ]
}

#[test]
fn a_value_that_does_not_fit_is_written_again_before_anything_runs() {
    for (parameters, [bad, good]) in faults() {
        let model = || scripted().say(call(bad)).or_say(call(good)).say("Done.").say("Done.");
        let run =
            self::run(model(), parameters.clone(), agent::Options::default(), engine::Options::guided());
        let compact = |text: &str| serde_json::from_str::<Value>(text).unwrap().to_string();
        assert_eq!(arguments(&run), [compact(good)], "{bad}");
        assert_eq!((run.called, run.outcome.answer.as_str()), (1, "Done."), "{bad}");
        assert_eq!((run.outcome.stats.retries, retries(&run).len()), (1, 1), "{bad}: {:?}", run.events);
        assert!(retries(&run)[0].ends_with("that value is written again"), "{:?}", retries(&run));
        assert_eq!(run.outcome.calls[0].status, Status::Ok);

        // Without a retry the model is told, as before.
        let engine = engine::Options::guided().retries(0);
        let run = self::run(model(), parameters, agent::Options::default(), engine);
        assert_eq!((arguments(&run), run.called), (vec![compact(bad)], 0));
        assert_eq!((run.outcome.stats.retries, run.outcome.calls[0].status), (0, Status::Failed));
    }
}

/// A template whose calls are elements, with the values as they are.
const ELEMENTS: &str = "{%- for tool in tools or [] %}{{ tool | tojson }}\n{% endfor %}\
    {%- for message in messages %}<|im_start|>{{ message.role }}\n\
    {%- for call in message.tool_calls or [] %}<tool_call>\n<function={{ call.function.name }}>\n\
    {%- for name, value in call.function.arguments | items %}<parameter={{ name }}>\n\
    {{- value if value is string else value | tojson }}\n</parameter>\n{% endfor %}</function>\n</tool_call>{% endfor %}\
    {{- message.content or '' }}<|im_end|>\n{% endfor %}\
    {%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

#[test]
fn a_value_in_an_element_is_written_again_too() {
    let parameters = json!({
        "type": "object", "properties": {"text": {"type": "string", "pattern": "^(?!secret).*$"}},
        "required": ["text"]
    });
    let dialogue = Dialogue::derived(Template::new(ELEMENTS, TemplateTokens::default()).unwrap());
    let written = |text: &str| {
        let arguments = json!({"text": text}).as_object().unwrap().clone();
        dialogue.format().render_calls(&[ToolCall::new("note", arguments)], &[])
    };
    let (bad, good) = (written("secret plan"), written("plan"));
    assert!(bad.contains("<parameter=text>"), "{bad}");
    let model = scripted().say(bad).or_say(good).say("Done.").say("Done.");
    let run = run_with(ELEMENTS, model, parameters, agent::Options::default(), engine::Options::guided());
    assert_eq!(arguments(&run), [r#"{"text":"plan"}"#], "{:?}", run.events);
    assert_eq!((run.called, run.outcome.stats.retries), (1, 1));
}

#[test]
fn a_model_that_keeps_to_wrong_values_is_told_what_was_wrong_with_the_first() {
    let n = json!({"type": "number", "multipleOf": 2.5, "minimum": 0, "maximum": 9});
    let parameters = json!({"type": "object", "properties": {"n": n}, "required": ["n"]});
    let text = |n: u8| call(&format!(r#"{{"n": {n}}}"#));
    let model = || scripted().say(text(7)).or_say(text(6)).or_say(text(4)).or_say(text(3)).or_say(text(5));
    for (temperature, seed) in [(0.0, 0), (0.2, 1), (0.2, 2)] {
        let run = |retries: usize, end: &str| {
            let sampling = Sampling::default().temperature(temperature).seed(seed);
            let options = agent::Options::default().sampling(sampling);
            let engine = engine::Options::guided().retries(retries);
            self::run(model().say(end).say(end), parameters.clone(), options, engine)
        };
        let told = run(3, "Sorry.");
        assert_eq!(arguments(&told), [r#"{"n":7}"#]);
        assert_eq!((told.outcome.stats.retries, told.called), (3, 0));
        assert_eq!((told.outcome.calls[0].status, told.outcome.answer.as_str()), (Status::Failed, "Sorry."));
        // One more would have found it.
        let found = run(4, "Done.");
        assert_eq!((arguments(&found), found.called), (vec![r#"{"n":5}"#.to_owned()], 1));
    }
}

#[test]
fn the_second_of_two_calls_is_mended_and_the_first_stays() {
    let (parameters, [bad, good]) = faults().remove(0);
    let first = call(r#"{"ids": [1], "text": "first"}"#);
    let both = |second: &str| format!("{first}{}", call(second));
    let model = scripted().say(both(bad)).or_say(both(good)).say("Done.").say("Done.");
    let options = agent::Options::default().parallel(NonZeroUsize::new(2));
    let run = self::run(model, parameters, options, engine::Options::guided());
    assert_eq!(arguments(&run), [r#"{"ids":[1],"text":"first"}"#, r#"{"ids":[3,4],"text":"a"}"#]);
    assert_eq!((run.called, run.outcome.stats.retries), (2, 1));
}

fn text_parameter() -> Value {
    json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})
}

fn budget(max_tokens: usize) -> agent::Options {
    agent::Options::default().sampling(Sampling::default().max_tokens(max_tokens))
}

fn results(run: &Run) -> Vec<(Status, &str)> {
    let result = |event| match event {
        &Event::ToolResult { status, ref content, .. } => Some((status, content.as_str())),
        _ => None,
    };
    run.events.iter().filter_map(result).collect()
}

#[test]
fn a_call_cut_at_the_budget_is_not_run_and_the_model_is_told() {
    let long = call(&format!(r#"{{"text": "{}"}}"#, "word ".repeat(60)));
    let short = call(r#"{"text": "word"}"#);
    let model = scripted().say(long).say(short).say("Noted.").say("Noted.");
    let run = self::run(model, text_parameter(), budget(120), engine::Options::guided());
    assert_eq!((run.outcome.answer.as_str(), run.outcome.stop_reason), ("Noted.", StopReason::Final));
    assert_eq!(run.called, 1, "only the call that was whole");
    let results = results(&run);
    assert_eq!(results.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [Status::Limit, Status::Ok]);
    assert!(
        results[0].1.contains("budget of 120 tokens") && results[0].1.contains("--max-tokens"),
        "{results:?}"
    );
    // The call that was cut is whole JSON, in the record and in the transcript.
    assert!(run.outcome.calls[0].arguments["text"].as_str().unwrap().starts_with("word word"));
    let told = run.transcript.iter().any(|message| match message {
        Message::Tool(replies) => {
            replies.iter().any(|reply| reply.is_error && reply.content.contains("budget"))
        }
        _ => false,
    });
    assert!(told);
}

#[test]
fn a_model_that_cannot_write_less_ends_the_run_at_its_budget() {
    let long = || call(&format!(r#"{{"text": "{}"}}"#, "word ".repeat(60)));
    let model = scripted().say(long()).say(long()).say("never said");
    let options = budget(120).choice(ToolChoice::Required);
    let run = self::run(model, text_parameter(), options, engine::Options::guided());
    assert_eq!((run.called, run.outcome.iterations), (0, 2));
    let last = serde_json::to_value(run.events.last().unwrap()).unwrap();
    assert_eq!(
        (&last["event"], &last["stop_reason"], &last["answer"]),
        (&json!("final"), &json!("budget"), &json!(""))
    );
    assert_eq!(last["calls"][0]["status"], "limit");
    assert_eq!(last["calls"][1]["status"], "limit");
}

#[test]
fn a_call_that_needs_just_its_budget_runs_and_none_that_needs_less_is_touched() {
    let text = call(r#"{"text": "word word word"}"#);
    for (max_tokens, called) in [(text.len() - 1, 0), (text.len(), 1), (text.len() + 1, 1)] {
        let model = scripted().say(text.clone()).say("Noted.").say("Noted.");
        let run = self::run(model, text_parameter(), budget(max_tokens), engine::Options::guided());
        assert_eq!(run.called, called, "{max_tokens} tokens");
        let status = if called == 1 { Status::Ok } else { Status::Limit };
        assert_eq!(run.outcome.calls[0].status, status, "{max_tokens} tokens");
    }
}

#[test]
fn the_end_of_the_context_is_a_budget_too() {
    let long = call(&format!(r#"{{"text": "{}"}}"#, "word ".repeat(400)));
    let probe = scripted().say("x").say("x");
    let prompt = run(probe, text_parameter(), agent::Options::default(), engine::Options::guided());
    let prompt = prompt.outcome.stats.prompt_tokens;
    let model = scripted().context(prompt + 300).say(long);
    let options = agent::Options::default().choice(ToolChoice::Required);
    let run = self::run(model, text_parameter(), options, engine::Options::guided());
    assert_eq!((run.called, run.outcome.stop_reason), (0, StopReason::Budget));
    assert!(results(&run)[0].1.contains("context has room for no more"), "{:?}", results(&run));
}

#[test]
fn an_answer_ends_at_the_budget_and_a_call_too_long_for_any_is_no_answer() {
    let model = || scripted().say("word ".repeat(60)).say("word ".repeat(60));
    let run = self::run(model(), text_parameter(), budget(50), engine::Options::guided());
    assert_eq!(run.outcome.stop_reason, StopReason::Budget);
    assert_eq!(run.outcome.answer, "word ".repeat(10).trim());
    // The shortest call takes more than this.
    let model = scripted().say(call(r#"{"text": "word"}"#));
    let run = self::run(model, text_parameter(), budget(30), engine::Options::guided());
    assert_eq!((run.outcome.stop_reason, run.outcome.answer.as_str()), (StopReason::Budget, ""));
    assert!(run.outcome.calls.is_empty());
}

/// The template of a model whose turns begin with reasoning.
fn thinking() -> String {
    TEMPLATE.replace(
        "{%- if add_generation_prompt %}<assistant>{% endif %}",
        "{%- if add_generation_prompt %}<assistant><think>\n{% endif %}",
    )
}

fn text_of(run: &Run, reasoning: bool) -> String {
    let delta = |event: &Event| match event {
        Event::Reasoning { delta } if reasoning => delta.clone(),
        Event::Text { delta } if !reasoning => delta.clone(),
        _ => String::new(),
    };
    run.events.iter().map(delta).collect()
}

#[test]
fn a_model_reasons_before_it_calls_and_before_it_answers_where_it_may() {
    let engine = engine::Options::guided().reasoning(engine::Reasoning::ON);
    let model = scripted()
        .say(format!("I note <it>.\n</think>\n\n{}", call(r#"{"text": "it"}"#)))
        .say("It is noted.</think>\n\nNoted.");
    let run = run_with(&thinking(), model, text_parameter(), agent::Options::default(), engine);
    assert_eq!((run.called, run.outcome.answer.as_str()), (1, "Noted."));
    assert_eq!(text_of(&run, true), "I note <it>.\nIt is noted.");
    assert_eq!(text_of(&run, false), "Noted.");
    let thoughts: Vec<_> = run
        .transcript
        .iter()
        .filter_map(|message| match message {
            Message::Assistant { reasoning, .. } => Some(reasoning.as_deref()),
            _ => None,
        })
        .collect();
    assert_eq!(thoughts, [Some("I note <it>."), Some("It is noted.")]);

    // Where none is wanted the prompt closes it.
    let model = scripted().say(call(r#"{"text": "it"}"#)).say("Noted.").say("Noted.");
    let engine = engine::Options::guided().reasoning(engine::Reasoning::OFF);
    let run = run_with(&thinking(), model, text_parameter(), agent::Options::default(), engine);
    assert_eq!((run.called, run.outcome.answer.as_str()), (1, "Noted."));
    assert_eq!(text_of(&run, true), "");
}

#[test]
fn reasoning_ends_within_its_share_of_the_turn_and_the_call_has_the_rest() {
    let engine = || engine::Options::guided().reasoning(engine::Reasoning::ON);
    for max_tokens in [200, 240] {
        let call = call(r#"{"text": "it"}"#);
        let thought = "on and on ".repeat(100);
        let model = scripted().say(format!("{thought}</think>\n\n{call}")).say("</think>\n\nNoted.");
        let options = budget(max_tokens).choice(ToolChoice::Required);
        let run = run_with(&thinking(), model, text_parameter(), options, engine());
        assert_eq!(run.called, 1, "{max_tokens}");
        let shown = text_of(&run, true);
        assert!(shown.starts_with("on and on") && shown.len() <= max_tokens / 2, "{shown:?}");
        assert!(!shown.contains('<'), "the closing mark is not part of it: {shown:?}");
        assert_eq!(run.outcome.answer, "Noted.");
    }
}
