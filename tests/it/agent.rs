//! The loop from end to end on the scripted backend: what the model wants to write is in the test.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake};

use serde::Deserialize;
use toolgate::Kind;
use toolgate::agent::{self, Agent, Approval, ContextPolicy, Event, Final, StopReason};
use toolgate::engine::{
    self, AnswerView, Cancel, Constraint, Engine, LocalEngine, Sampling, Thresholds, TurnEvent, TurnRequest,
};
use toolgate::tools::{Registry, Status, typed};
use toolgate_chat::{
    Demonstrations, Dialogue, Message, Template, TemplateTokens, ToolCall, ToolChoice, ToolName, ToolReply,
    Transcript,
};
use toolgate_infer::Vocabulary;
use toolgate_infer::scripted::Scripted;

/// A template of the Hermes family.
pub(crate) const TEMPLATE: &str = r#"
{%- for m in messages %}
{%- if m.role == "tool" %}<user><tool_response>{{ m.content }}</tool_response>
{%- elif m.tool_calls %}<assistant>{% for c in m.tool_calls %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}
{%- else %}<{{ m.role }}>{{ m.content }}{% endif %}
{%- if loop.first and tools %}<tools>{{ tools | tojson }}</tools> calls go into <tool_call></tool_call>{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<assistant>{% endif %}"#;

#[derive(Deserialize, schemars::JsonSchema)]
struct City {
    city: String,
}

pub(crate) fn registry() -> Registry {
    let mut registry = Registry::new();
    let weather = typed("get_weather", "The weather in a city.", |city: City| {
        if city.city == "Atlantis" {
            Err("no such city".to_owned())
        } else {
            Ok(format!("rain in {}", city.city))
        }
    });
    registry.add(weather.unwrap().read_only()).unwrap();
    let book = typed("book", "Book a trip to a city.", |city: City| {
        Ok::<_, String>(format!("booked {}", city.city))
    });
    registry.add(book.unwrap()).unwrap();
    registry
}

pub(crate) fn call(name: &str, city: &str) -> String {
    format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {{\"city\": \"{city}\"}}}}\n</tool_call>")
}

/// A model that takes every request for one that asks for a change.
pub(crate) fn scripted() -> Scripted {
    Scripted::new(Arc::new(Vocabulary::bytes_only())).context(16_384).on("\nKind:", " change")
}

struct Run {
    outcome: Final,
    events: Vec<Event>,
    transcript: Transcript,
}

fn engine_of(model: Scripted, options: engine::Options) -> Arc<impl Engine> {
    let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    Arc::new(LocalEngine::new("scripted", model, dialogue, options))
}

fn run(model: Scripted, options: agent::Options, engine: engine::Options) -> Result<Run, toolgate::Error> {
    let agent = Agent::new(engine_of(model, engine), registry(), options);
    let mut transcript = Transcript::new().with(Message::User("How is the weather in Oslo?".into()));
    let mut events = Vec::new();
    let outcome = agent.run(&mut transcript, &Cancel::default(), &mut |event| events.push(event))?;
    Ok(Run { outcome, events, transcript })
}

fn outcome(model: Scripted) -> Final {
    run(model, agent::Options::default(), engine::Options::guided()).unwrap().outcome
}

fn calls(outcome: &Final) -> Vec<(&str, Status)> {
    outcome.calls.iter().map(|call| (call.name.as_str(), call.status)).collect()
}

#[test]
fn a_call_runs_and_its_result_leads_to_the_answer() {
    let model = scripted().say(call("get_weather", "Oslo")).say("It rains in Oslo.").say("It rains in Oslo.");
    let run = run(model, agent::Options::default(), engine::Options::guided()).unwrap();
    assert_eq!(run.outcome.answer, "It rains in Oslo.");
    assert_eq!(run.outcome.stop_reason, StopReason::Final);
    assert_eq!(run.outcome.iterations, 2);
    assert_eq!(calls(&run.outcome), [("get_weather", Status::Ok)]);
    let replies = run.transcript.iter().filter(|message| matches!(message, Message::Tool(_))).count();
    assert_eq!(replies, 1);
    let text: String = run
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Text { delta } => Some(delta.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(text, "It rains in Oslo.");
    assert!(run.outcome.stats.forced_tokens > 0, "the frame of a call is forced: {:?}", run.outcome.stats);
}

#[test]
fn an_answer_at_once_makes_no_call() {
    let outcome = outcome(scripted().say("Hello.").say("Hello."));
    assert_eq!((outcome.answer.as_str(), outcome.iterations), ("Hello.", 1));
    assert!(outcome.calls.is_empty());
}

#[test]
fn a_call_in_another_dialect_is_written_in_the_family_s_form() {
    let fence = "```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n```";
    let model = scripted().say(fence).say("Rain.").say("Rain.");
    let run = run(model, agent::Options::default(), engine::Options::guided()).unwrap();
    assert_eq!(calls(&run.outcome), [("get_weather", Status::Ok)]);
    assert_eq!(run.outcome.calls[0].arguments["city"], "Oslo");
}

#[test]
fn a_call_leaked_without_a_constraint_runs_and_is_shown_back_in_the_family_s_form() {
    for leak in [
        "```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n```",
        "<tools>{'tool': 'get_weather', 'parameters': {'city': 'Oslo'}}</tools>",
    ] {
        let proper = "<assistant>".to_owned() + &call("get_weather", "Oslo");
        let model = scripted().on(proper, "It rains.").on("How is", format!("Let me look.\n{leak}"));
        let engine = engine::Options::guided().constraint(Constraint::None);
        let run = run(model, agent::Options::default(), engine).unwrap();
        assert_eq!(calls(&run.outcome), [("get_weather", Status::Ok)]);
        assert_eq!(run.outcome.answer, "It rains.");
        let text: String = run
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Text { delta } => Some(delta.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(text, "Let me look.\nIt rains.");
    }
    // The control: what is no call stays the answer.
    let engine = engine::Options::guided().constraint(Constraint::None);
    let run =
        run(scripted().say("```json\n{\"city\": \"Oslo\"}\n```"), agent::Options::default(), engine).unwrap();
    assert!(run.outcome.calls.is_empty());
    assert!(run.outcome.answer.starts_with("```json"), "{}", run.outcome.answer);
}

#[test]
fn a_settled_call_is_not_made_again_and_the_turn_becomes_an_answer() {
    let again = call("get_weather", "Oslo");
    let model = scripted().say(again.clone()).say(again).say("Rain.").say("Rain.");
    let run = run(model, agent::Options::default(), engine::Options::guided()).unwrap();
    assert_eq!(calls(&run.outcome), [("get_weather", Status::Ok)]);
    assert_eq!(run.outcome.answer, "Rain.");
    assert!(run.events.iter().any(|event| matches!(event, Event::Retry { .. })));
}

#[test]
fn failures_are_results_and_the_run_goes_on() {
    let model = scripted()
        .say(call("get_weather", "Atlantis"))
        .say(call("get_weather", "Oslo"))
        .say("Rain in Oslo.")
        .say("Rain in Oslo.");
    let outcome = outcome(model);
    assert_eq!(calls(&outcome), [("get_weather", Status::Failed), ("get_weather", Status::Ok)]);
    assert_eq!(outcome.answer, "Rain in Oslo.");
}

#[test]
fn the_last_iteration_is_an_answer() {
    let model = scripted().say(call("get_weather", "Oslo")).say("Out of turns.");
    let options = agent::Options::default().max_iterations(2);
    let run = run(model, options, engine::Options::guided()).unwrap();
    assert_eq!(run.outcome.stop_reason, StopReason::MaxIterations);
    assert_eq!(run.outcome.answer, "Out of turns.");
    assert_eq!(calls(&run.outcome).len(), 1);
}

#[test]
fn a_required_call_is_made_even_by_a_model_that_wants_to_chat() {
    let model =
        scripted().say("I would rather chat about \"Oslo\"}}, as one does.").say("Booked.").say("Booked.");
    let options = agent::Options::default().choice(ToolChoice::Only(vec![ToolName::new("book").unwrap()]));
    let run = run(model, options, engine::Options::guided()).unwrap();
    assert_eq!(run.outcome.calls[0].name, "book");

    let one = agent::Options::default().choice(ToolChoice::Required).max_iterations(1);
    let error = self::run(scripted(), one, engine::Options::guided()).err().unwrap();
    assert_eq!(error.kind(), Kind::Input);
}

#[test]
fn the_answer_view_holds_the_result_but_no_tools() {
    for (view, sees_tools) in [(AnswerView::Compact, false), (AnswerView::Full, true)] {
        // The script for the answer turn is chosen by what its prompt shows.
        let model = scripted()
            .on("<tool_response>", "I see the whole conversation.")
            .on("rain in Oslo", "I see the result alone.")
            .on("How is the weather in Oslo?<assistant>", call("get_weather", "Oslo"));
        let engine = engine::Options::guided().answer_view(view);
        let answer = run(model, agent::Options::default(), engine).unwrap().outcome.answer;
        assert_eq!(answer.contains("whole conversation"), sees_tools, "{view:?}: {answer}");
    }
}

#[test]
fn a_led_model_that_may_not_call_is_shown_no_tools() {
    for (view, sees_tools) in [(AnswerView::Compact, false), (AnswerView::Full, true)] {
        let model = scripted().on("<tools>", "I see tools.").on("", "I see none.");
        let engine = engine::Options::guided().answer_view(view);
        let options = agent::Options::default().choice(ToolChoice::None);
        let answer = run(model, options, engine).unwrap().outcome.answer;
        assert_eq!(answer == "I see tools.", sees_tools, "{view:?}: {answer}");
    }
}

#[test]
fn a_result_too_long_for_the_context_is_cut_and_a_task_too_long_is_an_error() {
    let mut registry = Registry::new();
    let long = typed("read_log", "The log.", |_: City| Ok::<_, String>("line of the log\n".repeat(2_000)));
    registry.add(long.unwrap().read_only()).unwrap();
    let dialogue = || Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
        .context(8_000)
        .say(call("read_log", "Oslo"))
        .on("cut to fit", "The log is long.");
    let engine = LocalEngine::new("scripted", model, dialogue(), engine::Options::guided());
    let agent = Agent::new(Arc::new(engine), registry, agent::Options::default());
    let outcome = agent.ask("What does the log say?").unwrap();
    assert_eq!(outcome.answer, "The log is long.");
    let error = agent.ask(&"word ".repeat(3_000)).err().unwrap();
    assert_eq!(error.kind(), Kind::Overflow);
    assert!(error.to_string().contains("context of 8000 tokens"), "{error}");
    assert!(error.to_string().contains("load the model with --context "), "{error}");
}

#[test]
fn a_conversation_too_long_is_shown_in_part_or_summarized_or_an_error_as_the_caller_has_it() {
    let conversation = || {
        let filler = "and so on ".repeat(900);
        Transcript::new()
            .with(Message::User(format!("Where do we meet? {filler}")))
            .with(Message::answer("At the mill."))
            .with(Message::User("And when?".into()))
    };
    let run = |policy: ContextPolicy| {
        let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
            .context(8_000)
            .on("Summarize this conversation", "They meet at the mill.")
            .on("They meet at the mill.", "At noon.")
            .on("And when?", "I do not know where.");
        let options = agent::Options::default().context_policy(policy);
        let agent = Agent::new(engine_of(model, engine::Options::default()), Registry::new(), options);
        let (mut transcript, mut summaries) = (conversation(), Vec::new());
        let outcome = agent.run(&mut transcript, &Cancel::default(), &mut |event| {
            if let Event::Summarized { messages, summary } = event {
                summaries.push((messages, summary));
            }
        });
        (outcome.map(|outcome| outcome.answer), transcript, summaries)
    };
    let (answer, transcript, summaries) = run(ContextPolicy::Trim);
    assert_eq!((answer.unwrap().as_str(), summaries), ("I do not know where.", vec![]));
    assert_eq!(transcript.messages()[..3], *conversation().messages(), "the caller's stays as it was");
    let (answer, transcript, summaries) = run(ContextPolicy::Summarize);
    assert_eq!((answer.unwrap().as_str(), transcript.len()), ("At noon.", 2));
    assert_eq!(summaries, [(2, "They meet at the mill.".to_owned())]);
    assert!(transcript.question().unwrap().ends_with("And when?"));
    let (answer, transcript, _) = run(ContextPolicy::Error);
    assert_eq!(answer.unwrap_err().kind(), Kind::Overflow);
    assert_eq!(transcript.messages(), conversation().messages());
}

/// Runs a future to its end on this thread: the least an executor can be.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_run_beside_its_caller_tells_the_same_events_and_leaves_the_same() {
    let script = || scripted().say(call("get_weather", "Oslo")).say("Rain.").say("Rain.");
    let before = run(script(), agent::Options::default(), engine::Options::guided()).unwrap();
    let transcript = Transcript::new().with(Message::User("How is the weather in Oslo?".into()));
    let agent =
        Agent::new(engine_of(script(), engine::Options::guided()), registry(), agent::Options::default());
    let mut beside = agent.start(transcript).unwrap();
    let (told, finished) = block_on(async {
        let mut told = Vec::new();
        while let Some(event) = beside.next().await {
            told.push(event);
        }
        (told, beside.finish().await)
    });
    let kinds = |events: &[Event]| events.iter().map(std::mem::discriminant).collect::<Vec<_>>();
    assert_eq!(kinds(&told), kinds(&before.events));
    assert_eq!(finished.outcome.unwrap().answer, before.outcome.answer);
    assert_eq!(finished.transcript.len(), before.transcript.len());
}

#[test]
fn a_run_beside_its_caller_ends_when_nobody_waits_for_it() {
    let gate = Arc::new(Barrier::new(2));
    let called = Arc::new(AtomicUsize::new(0));
    let mut registry = Registry::new();
    let (inside, count) = (gate.clone(), called.clone());
    // The first call waits in its middle until the run was dropped.
    let wait = typed("wait", "Wait for a city.", move |city: City| {
        if count.fetch_add(1, Ordering::SeqCst) == 0 {
            inside.wait();
            inside.wait();
        }
        Ok::<_, String>(city.city)
    });
    registry.add(wait.unwrap()).unwrap();
    let model = scripted().say(call("wait", "Oslo")).say(call("wait", "Rome")).say("Done.").say("Done.");
    let engine = engine_of(model, engine::Options::guided());
    let agent = Agent::new(engine.clone(), registry, agent::Options::default());
    let transcript = Transcript::new().with(Message::User("Wait for Oslo, then for Rome.".into()));
    let run = agent.start(transcript).unwrap();
    gate.wait();
    drop(run);
    gate.wait();
    drop(agent);
    // The thread gives the engine back when the run has ended.
    while Arc::strong_count(&engine) > 1 {
        std::thread::yield_now();
    }
    assert_eq!(called.load(Ordering::SeqCst), 1, "the second call was not made");
}

#[test]
fn a_cancelled_run_ends_in_order() {
    let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    let model = scripted().say(call("get_weather", "Oslo")).say("never said");
    let engine = LocalEngine::new("scripted", model, dialogue, engine::Options::guided());
    let agent = Agent::new(Arc::new(engine), registry(), agent::Options::default());
    let mut transcript = Transcript::new().with(Message::User("Oslo?".into()));
    let cancel = Cancel::default();
    let asked = cancel.clone();
    let outcome = agent
        .run(&mut transcript, &cancel, &mut |event| {
            if matches!(event, Event::ToolCall { .. }) {
                asked.cancel();
            }
        })
        .unwrap();
    assert_eq!(outcome.stop_reason, StopReason::Cancelled);
    assert_eq!(calls(&outcome), [("get_weather", Status::Denied)]);
    assert!(matches!(transcript.last(), Some(Message::Tool(_))), "what was done is kept");
}

/// A tool that changes something and asks first.
struct Ask;
impl toolgate::tools::Tool for Ask {
    fn spec(&self) -> &toolgate_chat::ToolSpec {
        static SPEC: std::sync::OnceLock<toolgate_chat::ToolSpec> = std::sync::OnceLock::new();
        SPEC.get_or_init(|| toolgate_chat::ToolSpec::of::<City>("burn", "Burns a city.").unwrap())
    }
    fn effect(&self) -> toolgate::tools::Effect {
        toolgate::tools::Effect::Changes
    }
    fn needs_approval(&self) -> bool {
        true
    }
    fn call(&self, _: &toolgate::tools::Args) -> toolgate::tools::ToolResult {
        toolgate::tools::ToolResult::ok("burnt")
    }
}

#[test]
fn a_write_that_is_not_approved_is_denied() {
    for (approval, status) in [
        (agent::Options::default().approval, Status::Denied),
        (Approval::Never, Status::Denied),
        (Approval::Auto, Status::Ok),
        (Approval::Ask(Arc::new(|call| call.arguments["city"] == "Rome")), Status::Denied),
        (Approval::Ask(Arc::new(|call| call.arguments["city"] == "Oslo")), Status::Ok),
    ] {
        let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
        let model = scripted().say(call("burn", "Oslo")).say("Done.").say("Done.");
        let engine = LocalEngine::new("scripted", model, dialogue, engine::Options::guided());
        let mut registry = Registry::new();
        registry.add(Ask).unwrap();
        let agent = Agent::new(Arc::new(engine), registry, agent::Options::default().approval(approval));
        assert_eq!(calls(&agent.ask("burn it").unwrap()), [("burn", status)]);
    }
}

#[test]
fn a_call_that_was_not_allowed_is_not_asked_for_again() {
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let approval = Approval::Ask(Arc::new(move |_| {
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        false
    }));
    let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    let model = scripted().say(call("burn", "Oslo")).say(call("burn", "Oslo")).say("It was not allowed.");
    let engine = LocalEngine::new("scripted", model, dialogue, engine::Options::guided());
    let mut registry = Registry::new();
    registry.add(Ask).unwrap();
    let agent = Agent::new(Arc::new(engine), registry, agent::Options::default().approval(approval));
    let outcome = agent.ask("burn it").unwrap();
    assert_eq!(calls(&outcome), [("burn", Status::Denied)]);
    assert_eq!(
        (outcome.answer.as_str(), asked.load(std::sync::atomic::Ordering::Relaxed)),
        ("It was not allowed.", 1)
    );
}

/// The outcome of a request for two cities: the model has one result and would answer.
fn of_two_cities(model: Scripted, while_pending: f64) -> Final {
    let thresholds = Thresholds { first: 0.0, after_success: 2.0, while_pending, ..Thresholds::default() };
    let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    let options = engine::Options::guided().thresholds(thresholds);
    let engine = LocalEngine::new("scripted", model, dialogue, options);
    Agent::new(Arc::new(engine), registry(), agent::Options::default())
        .ask("How is the weather in Oslo and in Rome?")
        .unwrap()
}

#[test]
fn what_the_request_names_and_no_call_has_taken_up_is_called_for() {
    let model = || scripted().say(call("get_weather", "Oslo")).say(call("get_weather", "Rome")).say("Rain.");
    let cities = |outcome: &Final| -> Vec<String> {
        outcome.calls.iter().map(|call| call.arguments["city"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(cities(&of_two_cities(model(), 0.0)), ["Oslo", "Rome"]);
    assert_eq!(cities(&of_two_cities(model(), 2.0)), ["Oslo"], "control: it is the threshold that goes on");
}

#[test]
fn while_something_is_open_a_call_is_not_repeated_but_written_in_another_way() {
    let again = scripted().say(call("get_weather", "Oslo")).say(call("get_weather", "Oslo"));
    let outcome = of_two_cities(again, 0.0);
    assert!(outcome.calls.len() >= 2, "{:?}", outcome.calls);
    assert_ne!(outcome.calls[0].arguments, outcome.calls[1].arguments);
}

#[test]
fn a_model_too_small_to_retell_results_gives_them_as_they_are() {
    let model = || scripted().say(call("get_weather", "Oslo")).say("It never rains.").say("It never rains.");
    let options = engine::Options::guided().answer_view(AnswerView::Results);
    let run = run(model(), agent::Options::default(), options).unwrap();
    assert_eq!(run.outcome.answer, "get_weather:\n> rain in Oslo");
    let is_shown = |event: &Event| matches!(event, Event::Text { delta } if *delta == run.outcome.answer);
    assert!(run.events.iter().any(is_shown));
    assert_eq!(outcome(model()).answer, "It never rains.", "control: others retell");
}

#[test]
fn what_an_answer_says_nothing_of_follows_it() {
    let quoted = |answer: &'static str, answer_view| {
        let model = scripted().say(call("get_weather", "Oslo")).say(answer).say(answer);
        let options = engine::Options::guided().answer_view(answer_view);
        run(model, agent::Options::default(), options).unwrap()
    };
    let run = quoted("The weather in Oslo is as asked.", AnswerView::Quoted);
    assert_eq!(run.outcome.answer, "The weather in Oslo is as asked.\n\nget_weather:\n> rain in Oslo");
    let shown = run.events.iter().filter_map(|event| match event {
        Event::Text { delta } => Some(delta.as_str()),
        _ => None,
    });
    assert_eq!(shown.collect::<String>(), run.outcome.answer, "it is shown as it is told");
    assert_eq!(quoted("There is rain.", AnswerView::Quoted).outcome.answer, "There is rain.");
    assert_eq!(quoted("As asked.", AnswerView::Compact).outcome.answer, "As asked.", "control");
}

/// A call of the weather in Oslo, and the conversation up to its result.
fn told_of_oslo() -> (ToolCall, Transcript) {
    let made = ToolCall::new("get_weather", serde_json::Map::from_iter([("city".into(), "Oslo".into())]));
    let transcript = Transcript::new()
        .with(Message::User("How is the weather in Oslo?".into()))
        .with(Message::calls([made.clone()]))
        .with(Message::Tool(vec![ToolReply::ok(&made, "rain in Oslo")]));
    (made, transcript)
}

#[test]
fn the_answer_after_a_repeated_call_is_not_written_behind_the_examples() {
    let oslo = call("get_weather", "Oslo");
    let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    let thresholds = Thresholds { after_success: 0.0, ..Thresholds::default() };
    let options = engine::Options::guided().demonstrations(Demonstrations::Calls).thresholds(thresholds);
    let engine = LocalEngine::new("scripted", scripted().say(oslo).say("It rains."), dialogue, options);
    let (made, transcript) = told_of_oslo();
    let example = serde_json::json!({"city": "alpha"});
    let shown = |spec: toolgate_chat::ToolSpec| spec.with_example("How is it in alpha?", example.clone());
    let specs: Vec<_> = registry().specs().into_iter().map(shown).collect();
    let (sampling, completed) = (Sampling::default(), [made]);
    let request = TurnRequest::new(&transcript, &specs, &sampling).completed(&completed);
    let mut prompts = Vec::new();
    let turn = engine.turn(&request, &Cancel::default(), &mut |event| {
        if let TurnEvent::Prompted(tokens) = event {
            prompts.push(engine.text_of(&tokens));
        }
    });
    assert!(turn.unwrap().parsed.calls.is_empty());
    let [calls, answer] = prompts.as_slice() else { panic!("{prompts:?}") };
    assert!(calls.contains("alpha") && calls.contains("2 + 3"), "control: calls are: {calls}");
    assert!(!answer.contains("alpha") && !answer.contains("2 + 3"), "{answer}");
    assert!(answer.contains("rain in Oslo"), "{answer}");
}

#[test]
fn a_required_call_is_another_one_than_before_where_there_is_another_tool() {
    let (made, transcript) = told_of_oslo();
    let (all, sampling) = (registry().specs(), Sampling::default());
    let only: Vec<_> = all.iter().filter(|spec| spec.name.as_str() == made.name).cloned().collect();
    let completed = [made.clone()];
    let called = |specs: &[toolgate_chat::ToolSpec]| {
        let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
        let model = scripted().say(call("get_weather", "Oslo"));
        let engine = LocalEngine::new("scripted", model, dialogue, engine::Options::guided());
        let request = TurnRequest::new(&transcript, specs, &sampling)
            .completed(&completed)
            .choice(ToolChoice::Required);
        let turn = engine.turn(&request, &Cancel::default(), &mut |_| {}).unwrap();
        let [call] = turn.parsed.calls.as_slice() else { panic!("{:?}", turn.parsed) };
        call.clone()
    };
    assert!(called(&only).same_request(&made), "there is no other");
    assert_ne!(called(&all).name, made.name);
}

#[test]
fn demonstrations_stand_behind_the_system_prompt_whoever_wrote_it() {
    let thresholds = Thresholds { first: 0.5, ..Thresholds::default() };
    let options = engine::Options::guided().demonstrations(Demonstrations::Talk).thresholds(thresholds);
    let (specs, sampling) = (registry().specs(), Sampling::default());
    let decided = |transcript: &Transcript| {
        let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
        let model = scripted().say(call("get_weather", "Oslo"));
        let engine = LocalEngine::new("scripted", model, dialogue, options.clone());
        let mut prompts = Vec::new();
        let request = TurnRequest::new(transcript, &specs, &sampling);
        let turn = engine.turn(&request, &Cancel::default(), &mut |event| {
            if let TurnEvent::Prompted(tokens) = event {
                prompts.push(engine.text_of(&tokens));
            }
        });
        assert_eq!(turn.unwrap().parsed.calls.len(), 1);
        prompts.remove(0)
    };
    let asked = Message::User("How is the weather in Oslo?".into());
    let ours = decided(&Transcript::new().with(asked.clone()));
    let theirs = decided(&Transcript::new().with(Message::System("Be brief.".into())).with(asked));
    let demonstrations = &ours[ours.find("<user>").unwrap()..ours.rfind("<user>").unwrap()];
    assert!(demonstrations.contains("<assistant>"), "control: talk that was answered: {ours}");
    assert!(theirs.starts_with("<system>Be brief.") && theirs.contains(demonstrations), "{theirs}");
}

#[test]
fn an_answer_of_a_model_that_would_rather_call_is_written_without_the_tools() {
    let answered = |first: f64| {
        let thresholds = Thresholds { first, ..Thresholds::default() };
        let options = engine::Options::guided().demonstrations(Demonstrations::Talk).thresholds(thresholds);
        let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
        let model = scripted().say(call("get_weather", "Oslo")).say("Mostly rain.");
        let engine = LocalEngine::new("scripted", model, dialogue, options);
        let transcript = Transcript::new().with(Message::User("How is the weather in Oslo?".into()));
        let (specs, sampling, mut prompts) = (registry().specs(), Sampling::default(), Vec::new());
        let request = TurnRequest::new(&transcript, &specs, &sampling);
        let turn = engine.turn(&request, &Cancel::default(), &mut |event| {
            if let TurnEvent::Prompted(tokens) = event {
                prompts.push(engine.text_of(&tokens));
            }
        });
        (turn.unwrap().parsed, prompts)
    };
    // Its own probability of a call is nearly 1.
    let (parsed, prompts) = answered(1.0);
    assert_eq!((parsed.calls.len(), parsed.content.as_deref()), (0, Some("Mostly rain.")));
    let [decided, answer] = prompts.as_slice() else { panic!("{prompts:?}") };
    assert!(decided.contains("get_weather") && decided.contains("2 + 3"), "control: {decided}");
    assert!(!answer.contains("get_weather") && !answer.contains("2 + 3"), "{answer}");
    assert!(answer.contains("How is the weather in Oslo?"), "{answer}");
    assert_eq!(answered(0.5).0.calls.len(), 1, "control: it is the threshold that answers");
}

/// A model of which nothing was measured, which makes this call until something else is said.
fn repeating(model: Scripted) -> (Final, Transcript) {
    let call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
    let engine = engine_of(model.context(16_000).on("", call), engine::Options::default());
    let agent = Agent::new(engine, registry(), agent::Options::default());
    let mut transcript = Transcript::new().with(Message::User("How is the weather in Oslo?".into()));
    let outcome = agent.run(&mut transcript, &Cancel::default(), &mut |_| {}).unwrap();
    (outcome, transcript)
}

#[test]
fn a_model_without_a_profile_may_repeat_itself_until_a_result_says_that_nothing_changes() {
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only()));
    let (outcome, transcript) =
        repeating(model.on("not run: this very call was made", "It rains, as I was told."));
    assert_eq!(
        (outcome.answer.as_str(), outcome.stop_reason),
        ("It rains, as I was told.", StopReason::Final)
    );
    assert!(!matches!(transcript.messages().first(), Some(Message::System(_))), "nothing is put in front");
    let results: Vec<&str> = transcript
        .iter()
        .filter_map(|message| match message {
            Message::Tool(replies) => replies.first().map(|reply| reply.content.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(results.len(), 4);
    assert!(results[..3].iter().all(|result| *result == results[0]) && !results[0].contains("not run"));
    assert!(results[3].contains("made 3 times and nothing has changed since"), "{results:?}");
}

#[test]
fn a_model_that_does_not_heed_that_answers_from_its_results_alone() {
    let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
        .on("Failure of get_weather", "It was not possible.")
        .on("Result of get_weather", "It rains.");
    let (outcome, _) = repeating(model);
    assert_eq!((outcome.answer.as_str(), outcome.stop_reason), ("It rains.", StopReason::Loop));
    assert_eq!(outcome.calls.len(), 5, "three that were made, and two that were not");
}
