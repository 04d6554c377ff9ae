//! A call whose values the model makes up gives way to an answer, where the profile weighs that.

use toolgate::engine::{self, CallCheck, Cancel, DecisionModel, DecisionWeights, Engine, Fault, LocalEngine};
use toolgate::engine::{Sampling, Turn, TurnEvent, TurnRequest};
use toolgate_chat::{Dialogue, Message, Template, TemplateTokens, ToolCall, Transcript};
use toolgate_infer::scripted::Scripted;

use crate::agent::{TEMPLATE, call, registry, scripted};

const ABOUT_BREAD: &str = "How heavy is a loaf of bread?";

/// Any call but one with a value that is made up, which the model has a second thought of.
fn decision() -> DecisionModel {
    weighing(DecisionWeights { call: 0.1, invented: -100.0, ..DecisionWeights::default() })
}

fn weighing(first: DecisionWeights) -> DecisionModel {
    DecisionModel { first: Some(first), ..DecisionModel::default() }
}

/// A turn behind this request, what was told of it meanwhile, and its prompts.
struct Made {
    turn: Turn,
    told: Vec<TurnEvent>,
    prompts: Vec<String>,
}

impl Made {
    fn calls(&self) -> usize {
        self.turn.parsed.calls.len()
    }

    fn tells_of_a_call(&self) -> bool {
        self.told.iter().any(|event| {
            matches!(event, TurnEvent::CallStarted(_) | TurnEvent::Arguments(_) | TurnEvent::CallEnded)
        })
    }
}

fn made(model: Scripted, asked: &str, decision: DecisionModel, check: Option<&dyn CallCheck>) -> Made {
    let dialogue = Dialogue::derived(Template::new(TEMPLATE, TemplateTokens::default()).unwrap());
    let options = engine::Options::guided().decision(Some(decision));
    let engine = LocalEngine::new("scripted", model, dialogue, options);
    let transcript = Transcript::new().with(Message::User(asked.into()));
    let (specs, sampling, mut told) = (registry().specs(), Sampling::default(), Vec::new());
    let request = TurnRequest::new(&transcript, &specs, &sampling).check(check).likelihoods(Some(0));
    let turn = engine.turn(&request, &Cancel::default(), &mut |event| told.push(event)).unwrap();
    let prompts = told.iter().filter_map(|event| match event {
        TurnEvent::Prompted(tokens) => Some(engine.text_of(tokens)),
        _ => None,
    });
    Made { turn, prompts: prompts.collect(), told }
}

/// A model that asks for the weather in Oslo, or as well in Rome, and has an answer, too.
fn unsure() -> Scripted {
    scripted().say(call("get_weather", "Oslo")).or_say(call("get_weather", "Rome")).say("About a pound.")
}

#[test]
fn a_call_with_a_made_up_value_gives_way_to_an_answer() {
    let made = made(unsure(), ABOUT_BREAD, decision(), None);
    assert_eq!((made.calls(), made.turn.parsed.content.as_deref()), (0, Some("About a pound.")));
    let decided = made.turn.decision.as_ref().unwrap();
    assert!(!decided.call && decided.p_call < decided.threshold, "{decided:?}");
    assert!(!made.tells_of_a_call(), "nobody was told of it");
    let retries = made.told.iter().filter(|event| matches!(event, TurnEvent::Retry(_)));
    assert_eq!(retries.count(), 1, "the turn says why");
    let [decided, .., answered] = made.prompts.as_slice() else { panic!("{:?}", made.prompts) };
    assert!(decided.contains("get_weather") && !answered.contains("get_weather"), "{answered}");
    let likelihoods = made.told.iter().filter_map(|event| match event {
        TurnEvent::Likelihoods(tokens) => Some(tokens.len()),
        _ => None,
    });
    let answer = "About a pound.".len();
    assert_eq!(likelihoods.collect::<Vec<_>>(), [answer], "those of the answer alone, a token a byte");
}

#[test]
fn a_call_stays_whose_value_was_said_or_that_the_model_is_sure_of() {
    let stays = |model, asked, decision| made(model, asked, decision, None).calls() == 1;
    assert!(stays(unsure(), "How is the weather in Oslo?", decision()), "it was said");
    let sure = scripted().say(call("get_weather", "Oslo")).say("About a pound.");
    assert!(stays(sure, ABOUT_BREAD, decision()), "the model has no other value");
    let blind = weighing(DecisionWeights { call: 0.1, ..DecisionWeights::default() });
    assert!(stays(unsure(), ABOUT_BREAD, blind), "control: it is the weight");
}

#[test]
fn calls_that_cannot_give_way_are_told_while_they_are_written() {
    let sure = DecisionWeights { bias: 900.0, call: 0.1, invented: -100.0, ..DecisionWeights::default() };
    let sure = made(unsure(), ABOUT_BREAD, weighing(sure), None);
    assert_eq!((sure.calls(), sure.tells_of_a_call()), (1, true));
    let held = made(unsure(), "How is the weather in Oslo?", decision(), None);
    assert_eq!((held.calls(), held.tells_of_a_call()), (1, false));
}

/// Refuses Oslo.
struct NoOslo;

impl CallCheck for NoOslo {
    fn fault(&self, call: &ToolCall) -> Option<Fault> {
        let city = call.arguments.get("city").and_then(|city| city.as_str());
        (city == Some("Oslo")).then(|| Fault { pointer: "/city".into(), why: "not there".into() })
    }
}

#[test]
fn a_value_that_is_written_again_is_as_made_up_as_it_was_at_first() {
    let checked = |decision| made(unsure(), ABOUT_BREAD, decision, Some(&NoOslo)).turn.parsed;
    let kept = checked(DecisionModel::default());
    assert_eq!(kept.calls[0].arguments["city"], "Rome", "control: it is written again");
    assert_eq!(checked(decision()).content.as_deref(), Some("About a pound."));
}
