//! Third step: what the model answers: whether it tells of results, repeats requests, refuses what a tool could do, or makes several
//! calls where one is asked for.

use std::num::NonZeroUsize;

use toolgate_agent::Hints;
use toolgate_chat::{Message, ToolChoice, Transcript};
use toolgate_engine::models::{Answers, Profile};
use toolgate_engine::{
    AnswerView, Beginning, Cancel, Engine, LocalEngine, Sampling, Thresholds, TurnRequest,
};
use toolgate_infer::Untrained;
use toolgate_llama::LlamaBackend;

use super::marks::options;
use super::{ANSWERING, Measured, Report, ViewTried, share};
use crate::decision::{State, Wanted};
use crate::host::Host;

/// Tokens of an answer, and of the beginning of one.
const ANSWER: usize = 96;
const BEGINNING: usize = 12;
/// Answers of each kind that are looked at.
const MOST: usize = 14;
/// Calls a turn at most, for a model that makes as many as are asked for.
const PARALLEL: u32 = 8;
/// The language of most results of the data.
const LANGUAGE: &str = "en";
/// The share of answers that tell of their result below which the results themselves are the better answer.
const TELLS: f64 = 0.4;
/// How much more of the answers from the whole conversation must tell of their result: of a dozen, one or two are chance.
const CLEARLY: f64 = 0.2;
/// The share of turns with a second call that nobody asked for, above which a turn has one call.
const TOO_MANY: f64 = 0.1;
/// Words that a refusal begins with, and how many answers must begin alike.
const WORDS: usize = 2;
const ALIKE: usize = 2;

/// What a profile starts from where no answer was looked at.
pub(super) fn start(report: &mut Report, profile: &mut Profile) {
    profile.defaults.answers = Some(Answers::Quoted);
    report.views.answer = "quoted".to_owned();
    profile.defaults.parallel = Some(1);
    report.parallel = Some(1);
}

pub(super) fn measure<H: Host>(
    measured: &Measured<'_, H>,
    report: &mut Report,
    profile: &mut Profile,
) -> anyhow::Result<()> {
    H::note("its answers");
    let untrained = Untrained::new(profile.untrained_tokens.iter().cloned())?;
    let demonstrations = profile.defaults.demonstrations.unwrap_or_default();
    let load = |view, thresholds| {
        let options = options(&untrained, demonstrations).answer_view(view).thresholds(thresholds);
        measured.load(options.tool_bias(0.0))
    };
    // Above 1: every turn is an answer.
    let never = Thresholds::guided().biased(f64::NEG_INFINITY);
    let compact = load(AnswerView::Compact, never)?;
    let short = tried(measured, &compact, "compact")?;
    let refusals = refusals(measured, &compact)?;
    drop(compact);
    let full = load(AnswerView::Full, never)?;
    let whole = tried(measured, &full, "full")?;
    drop(full);
    let (view, name) = match (short.told.max(whole.told) < TELLS, whole.told > short.told + CLEARLY) {
        (true, _) => (Answers::Results, "results"),
        (false, true) if whole.echoes <= short.echoes => (Answers::Full, "full"),
        // What an answer says nothing of is quoted behind it.
        _ => (Answers::Quoted, "quoted"),
    };
    profile.defaults.answers = Some(view);
    report.echoes = if view == Answers::Full { whole.echoes } else { short.echoes };
    report.views.answer = name.to_owned();
    report.views.tried = vec![short, whole];
    report.refusals = refusals;
    let calls = load(AnswerView::Compact, Thresholds::guided())?;
    let parallel = if several(measured, &calls)? > TOO_MANY { 1 } else { PARALLEL };
    profile.defaults.parallel = Some(parallel);
    report.parallel = Some(parallel);
    Ok(())
}

/// Requests whose results are the answer, and what the model says of them.
fn tried<H: Host>(
    measured: &Measured<'_, H>,
    engine: &LocalEngine<LlamaBackend>,
    name: &str,
) -> anyhow::Result<ViewTried> {
    // A translation tells of a result in other words: the language of the results is asked in.
    let is_result =
        |wanted: &&Wanted| !wanted.call && wanted.state == State::AfterSuccess && wanted.language == LANGUAGE;
    let (clock, mut found) =
        (measured.clock(ANSWERING), ViewTried { name: name.to_owned(), ..ViewTried::default() });
    let (mut told, mut echoes) = (0, 0);
    for wanted in spread(measured, is_result) {
        let transcript = wanted.transcript();
        let text = answer(measured, engine, wanted, &transcript, ANSWER)?;
        let results: String = transcript
            .calls_of_run()
            .iter()
            .filter_map(|(_, reply)| reply.map(|reply| format!("{} ", reply.content)))
            .collect();
        found.answers += 1;
        told += usize::from(tells(&text, &results, &wanted.request));
        echoes += usize::from(repeats(&text, &wanted.request));
        if clock.tick().is_break() {
            break;
        }
    }
    (found.told, found.echoes) = (share(told, found.answers), share(echoes, found.answers));
    Ok(found)
}

/// Requests of a kind, from all sets.
fn spread<'d, H: Host>(
    measured: &'d Measured<'_, H>,
    is_it: impl Fn(&&'d Wanted) -> bool,
) -> impl Iterator<Item = &'d Wanted> {
    let all: Vec<&Wanted> = measured.data.requests.iter().filter(is_it).collect();
    let step = all.len().div_ceil(MOST).max(1);
    all.into_iter().step_by(step)
}

/// What the model answers, whatever it would rather call.
fn answer<H: Host>(
    measured: &Measured<'_, H>,
    engine: &LocalEngine<LlamaBackend>,
    wanted: &Wanted,
    transcript: &Transcript,
    tokens: usize,
) -> anyhow::Result<String> {
    let sampling = Sampling::default().max_tokens(tokens);
    let request = TurnRequest::new(transcript, measured.data.tools(&wanted.set), &sampling);
    let turn = engine.turn(&request, &Cancel::default(), &mut |_| {})?;
    Ok(turn.parsed.content.unwrap_or_default())
}

/// The share of requests that want a call which the model would begin to refuse, in the words in which it refuses what no tool can.
fn refusals<H: Host>(measured: &Measured<'_, H>, engine: &LocalEngine<LlamaBackend>) -> anyhow::Result<f64> {
    let (clock, sampling) = (measured.clock(ANSWERING), Sampling::default().max_tokens(BEGINNING));
    let mut begun = Vec::new();
    for request in measured.data.impossible.iter().take(MOST) {
        let transcript = Transcript::new().with(Message::User(request.clone()));
        let request = TurnRequest::new(&transcript, &[], &sampling);
        let turn = engine.turn(&request, &Cancel::default(), &mut |_| {})?;
        begun.push(beginning(&turn.parsed.content.unwrap_or_default()));
    }
    let often = |start: &String| begun.iter().filter(|other| *other == start).count() >= ALIKE;
    let (mut asked, mut refused) = (0, 0);
    for wanted in spread(measured, |wanted| wanted.call && wanted.state == State::First) {
        let text = answer(measured, engine, wanted, &wanted.transcript(), BEGINNING)?;
        let start = beginning(&text);
        asked += 1;
        refused += usize::from(begun.contains(&start) && often(&start));
        if clock.tick().is_break() {
            break;
        }
    }
    Ok(share(refused, asked))
}

/// The first words of a text; the first letters where words are not apart.
fn beginning(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().take(WORDS).collect();
    words.join(" ").chars().take(16).collect::<String>().to_lowercase()
}

/// The share of turns with more than one call, where one is asked for.
fn several<H: Host>(measured: &Measured<'_, H>, engine: &LocalEngine<LlamaBackend>) -> anyhow::Result<f64> {
    let (clock, sampling) = (measured.clock(ANSWERING), Sampling::default().max_tokens(2 * ANSWER));
    let (mut asked, mut more) = (0, 0);
    for wanted in spread(measured, |wanted| wanted.call && wanted.state == State::First) {
        let transcript = wanted.transcript();
        let request = TurnRequest::new(&transcript, measured.data.tools(&wanted.set), &sampling)
            .choice(ToolChoice::Required)
            .parallel(NonZeroUsize::new(2));
        let turn = engine.turn(&request, &Cancel::default(), &mut |_| {})?;
        asked += 1;
        more += usize::from(turn.parsed.calls.len() > 1);
        if clock.tick().is_break() {
            break;
        }
    }
    Ok(share(more, asked))
}

/// Whether an answer has something of the results that the request does not have: a word or a number, or two letters in a row where
/// words are not apart. One with tags of its own imitates what it was shown, and is no answer.
fn tells(answer: &str, results: &str, request: &str) -> bool {
    if has_tags(answer) && !has_tags(results) && !has_tags(request) {
        return false;
    }
    let (answer, request) = (answer.to_lowercase(), request.to_lowercase());
    let news = results.to_lowercase();
    let mut words = news.split(|c: char| !c.is_alphanumeric()).filter(|word| !request.contains(word));
    words.any(|word| match word.is_ascii() {
        true => is_telling(word) && is_word_of(word, &answer),
        false => {
            let letters: Vec<char> = word.chars().collect();
            letters.windows(2).any(|pair| {
                let pair: String = pair.iter().collect();
                answer.contains(&pair) && !request.contains(&pair)
            })
        }
    })
}

fn has_tags(text: &str) -> bool {
    let opens = |(at, _): (usize, &str)| {
        let next = text.get(at + 1..).and_then(|rest| rest.chars().next());
        next.is_some_and(|next| next.is_alphabetic() || next == '/' || next == '|')
    };
    text.match_indices('<').any(opens)
}

/// A number, or a word that is no particle.
fn is_telling(word: &str) -> bool {
    word.len() >= 4 || word.bytes().any(|byte| byte.is_ascii_digit())
}

fn is_word_of(word: &str, text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|other| other == word)
}

/// Whether an answer repeats the request, as the hint tells it.
fn repeats(answer: &str, request: &str) -> bool {
    Hints::echoes().beginning(request, answer, true) == Beginning::Found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_tells_of_a_result_what_the_request_does_not_say() {
        let result = "Shelf 7, 40 screws";
        assert!(tells("There are 40 of them.", result, "How many screws do we have?"));
        assert!(!tells("We have screws.", result, "How many screws do we have?"), "that was asked");
        assert!(!tells("", result, "How many screws?") && !tells("Yes, on a shelf nearby", "ok", "Is it?"));
        assert!(!tells("<tool_answer> There are 40 of them.", result, "How many screws do we have?"));
        assert!(
            tells("It has 40 < 50", result, "How many screws?")
                && tells("<b>x9</b>", "<b>x9</b>", "What is it?")
        );
        assert!(tells("明天有小雨", "小雨，12 度", "明天天气怎么样"));
        assert!(!tells("明天天气", "小雨", "明天天气怎么样"));
    }

    #[test]
    fn answers_begin_alike_by_their_first_words() {
        assert_eq!(beginning("I'm sorry, but I cannot"), beginning("I'm sorry, but as an AI"));
        assert_ne!(beginning("I'm sorry"), beginning("The answer"));
        assert!(repeats("Read a.txt and tell me the first name", "Read a.txt and tell me the first name."));
    }

    #[test]
    fn without_answers_the_view_is_the_one_that_leaves_nothing_out() {
        let model = tempfile::NamedTempFile::new().map(|file| Profile::of(file.path()));
        let Ok(Ok(mut profile)) = model else { return assert!(model.is_ok()) };
        start(&mut Report::default(), &mut profile);
        assert_eq!((profile.defaults.answers, profile.defaults.parallel), (Some(Answers::Quoted), Some(1)));
    }
}
