//! The tokens of calls: what a turn's grammar forces and admits against what the template has, and what it lets in besides.
//!
//! Both laws are looked at on one walk: at each token of a turn as the template writes it.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use toolgate_chat::{Message, ParsedTurn, ToolCall, ToolChoice, ToolSpec, TurnRequest};
use toolgate_grammar::marks::Mark;
use toolgate_grammar::{Automaton, Grammar, Limits, Matcher, TokenId, TokenKind, Vocabulary};
use toolgate_infer::{Constraint, canonical};

use super::calls::{Draw, tools};
use super::pair::{Pair, Turn};
use super::{Cases, Law, Outcome};

/// Calls of a turn at most.
const MOST: usize = 3;

/// Turns of random calls, and answers and thoughts.
pub(crate) fn run(pair: &Pair, turns: usize, cases: &mut Cases<'_>) {
    let Ok(tools) = tools() else { return };
    for turn in 0..turns {
        let n = turn % MOST + 1;
        let calls = Draw::new(turn as u64).calls(n);
        let case = format!("{n} calls: {}", super::history::shown_calls(&calls));
        match walk_of(pair, &tools, &calls) {
            Ok(walk) => walk.run(pair, &case, cases),
            Err(outcome) => cases.add(Law::ForcedTokens, &case, outcome),
        }
    }
    if let Ok(grammar) = pair.dialogue.format().turn(&tools, &TurnRequest::default()) {
        let closes = grammar.reasoning.as_ref().map(|thought| thought.close.tokens().collect());
        for (case, grammar, text, marks) in [
            ("an answer", grammar.answer, "It is noon. Is it?", BTreeSet::new()),
            (
                "a thought",
                grammar.reasoning.map(|thought| thought.inside),
                "Hm, noon.",
                closes.unwrap_or_default(),
            ),
        ] {
            let Some(run) = grammar.and_then(|grammar| start(pair, &grammar)) else { continue };
            cases.add(Law::NoSpelledMarks, case, free_text(pair, run, &marks, text));
        }
    }
}

/// A walk along the tokens that a template has for calls.
struct Walk {
    run: Matcher,
    /// What stands in front.
    before: Vec<TokenId>,
    want: Vec<TokenId>,
}

fn start(pair: &Pair, grammar: &Grammar) -> Option<Matcher> {
    let vocabulary = pair.tokenizer.0.vocabulary().clone();
    Automaton::new(grammar, vocabulary, &Limits::default()).ok().map(|automaton| automaton.matcher())
}

fn walk_of(pair: &Pair, tools: &[ToolSpec], calls: &[ToolCall]) -> Result<Walk, Outcome> {
    let untested = |why: &str| Outcome::Untested(why.to_owned());
    if !pair.dialogue.knowledge().knows_results {
        return Err(untested("the template writes no calls"));
    }
    let said = Message::calls(calls.iter().cloned());
    let turn = pair.turn(said, tools).map_err(|_| untested("the template refuses such a turn"))?;
    let said = ParsedTurn { calls: calls.to_vec(), ..ParsedTurn::default() };
    if let Some(why) = pair.leaves_out(&said, tools) {
        return Err(Outcome::Untested(why));
    }
    let request =
        TurnRequest { choice: ToolChoice::Required, parallel: NonZeroUsize::new(calls.len()), first: None };
    let grammar = pair.dialogue.format().turn(tools, &request).ok().and_then(|turn| turn.call);
    let grammar = grammar.ok_or_else(|| untested("there is no grammar of such calls"))?;
    let run = start(pair, &grammar).ok_or_else(|| untested("the grammar is refused"))?;
    let written = pair.dialogue.format().write_calls(calls, tools);
    let span = span(pair, &turn, &written, calls)?;
    let (before, rest) = turn.tokens.split_at_checked(span.0).unwrap_or((&turn.tokens, &[]));
    let want = rest.get(..span.1 - span.0).unwrap_or(rest).to_vec();
    Ok(Walk { run, before: before.to_vec(), want })
}

/// Where the calls stand in a turn, in tokens.
fn span(pair: &Pair, turn: &Turn, written: &Mark, calls: &[ToolCall]) -> Result<(usize, usize), Outcome> {
    let whole = written.text();
    let found = turn.text.rfind(&whole).map(|at| (at, whole.as_str()));
    let (at, text) = found.or_else(|| shown(pair, turn, &whole, calls)).ok_or_else(|| Outcome::Fails {
        want: pair.text(turn.tokens.get(turn.start..).unwrap_or_default()),
        got: whole.clone(),
    })?;
    let vocabulary = pair.tokenizer.0.vocabulary();
    // Tokenizers that put a space in front of a text have more bytes than it.
    let whole: usize = turn.tokens.iter().map(|&token| vocabulary.bytes(token).len()).sum();
    let more = whole.saturating_sub(turn.text.len());
    let (mut bytes, mut start, mut end) = (0, None, None);
    for (i, &token) in turn.tokens.iter().enumerate() {
        if bytes == at + more {
            start = Some(i);
        }
        bytes += vocabulary.bytes(token).len();
        if bytes == at + more + text.len() {
            end = Some(i + 1);
        }
    }
    match (start, end) {
        (Some(start), Some(end)) => Ok((start, end)),
        _ => Err(Outcome::Fails {
            want: pair.shown(turn.tokens.get(turn.start..).unwrap_or_default()),
            got: format!("a token crosses the edge of {text:?}"),
        }),
    }
}

/// The calls as the template shows them, where it writes a value in another way than we do: from what opens them to what ends
/// the turn.
fn shown<'t>(pair: &Pair, turn: &'t Turn, written: &str, calls: &[ToolCall]) -> Option<(usize, &'t str)> {
    let name = calls.first()?.name.as_str();
    let opening = written.get(..written.find(name)? + name.len())?;
    let start: usize = pair.text(turn.tokens.get(..turn.start)?).len().min(turn.text.len());
    // The tokens before a turn may be longer than its text by a blank that the tokenizer puts there.
    let start = (0..start).rev().find(|&at| turn.text.is_char_boundary(at)).unwrap_or(0);
    let at = start + turn.text.get(start..)?.find(opening)?;
    let vocabulary = pair.tokenizer.0.vocabulary();
    let own = turn.tokens.get(turn.start..)?;
    let is_end = |token: &TokenId| vocabulary.kind(*token) == TokenKind::EndOfGeneration;
    let end = own.iter().position(is_end).map_or(0, |at| pair.text(own.get(at..).unwrap_or_default()).len());
    let text = turn.text.get(at..turn.text.len().checked_sub(end)?)?;
    let ends = written.trim_end().chars().next_back()?;
    let text = text.get(..text.rfind(ends)? + ends.len_utf8())?;
    Some((at, text))
}

impl Walk {
    fn run(mut self, pair: &Pair, case: &str, cases: &mut Cases<'_>) {
        let marks = marks(pair);
        let mut at = 0;
        let fails = |want: &[TokenId], got: String| Outcome::Fails { want: pair.shown(want), got };
        while let Some(rest) = self.want.get(at..).filter(|rest| !rest.is_empty()) {
            cases.add(Law::NoSpelledMarks, case, looked_at(pair, &mut self.run, &marks, rest));
            let held: Vec<TokenId> = self.before.iter().chain(self.want.iter().take(at)).copied().collect();
            let forced = forced(pair, &mut self.run, &held);
            if !rest.starts_with(&forced) && !forced.starts_with(rest) {
                let got = format!("forced: {}", pair.shown(&forced));
                return cases.add(Law::ForcedTokens, case, fails(rest, got));
            }
            for &token in rest.iter().take(forced.len().max(1)) {
                if self.run.accept(token).is_err() {
                    let got = format!("{} is refused", pair.shown(&[token]));
                    return cases.add(Law::ForcedTokens, case, fails(rest, got));
                }
                at += 1;
            }
        }
        let outcome = match self.run.is_complete() {
            true => Outcome::Holds,
            false => fails(&[], "the grammar wants more".to_owned()),
        };
        cases.add(Law::ForcedTokens, case, outcome);
    }
}

/// The tokens that have no alternative.
fn forced(pair: &Pair, run: &mut Matcher, held: &[TokenId]) -> Vec<TokenId> {
    if let Ok(Some(token)) = run.forced_token() {
        return vec![token];
    }
    let text = Constraint::forced(run).unwrap_or_default();
    if text.bytes.is_empty() {
        return Vec::new();
    }
    canonical(&pair.tokenizer, held, &text).unwrap_or_default()
}

/// The special tokens of the family's own marks.
fn marks(pair: &Pair) -> BTreeSet<TokenId> {
    let format = pair.dialogue.format();
    format.texts().iter().flat_map(|text| format.mark(text).tokens().collect::<Vec<_>>()).collect()
}

/// Whether a state admits no special token but a mark that is due there, and none of those in letters.
fn looked_at(pair: &Pair, run: &mut Matcher, marks: &BTreeSet<TokenId>, rest: &[TokenId]) -> Outcome {
    let vocabulary = pair.tokenizer.0.vocabulary().clone();
    let is_text = is_free(run);
    let Ok(mask) = run.mask().cloned() else { return Outcome::Untested("there is no mask".to_owned()) };
    for token in mask.iter().filter(|&token| is_special(&vocabulary, token)) {
        let is_end = vocabulary.kind(token) == TokenKind::EndOfGeneration && run.is_complete();
        // What ends a text is the only mark in it.
        let is_due = marks.contains(&token) && (!is_text || ends_text(pair, token));
        if !is_end && !is_due {
            return Outcome::Fails {
                want: format!("no special token but marks that are due, before {}", pair.shown(rest)),
                got: pair.shown(&[token]),
            };
        }
        let is_spelled = is_due && run.clone().accept_bytes(vocabulary.bytes(token)).is_ok();
        if is_spelled {
            return Outcome::Fails {
                want: format!("{} as a token alone", pair.shown(&[token])),
                got: "its letters are admitted".to_owned(),
            };
        }
    }
    Outcome::Holds
}

/// Whether a mark is part of what stands behind the text of a value.
fn ends_text(pair: &Pair, token: TokenId) -> bool {
    pair.dialogue.format().value_ends().iter().any(|mark| mark.tokens().any(|other| other == token))
}

/// Whether any text may come here.
fn is_free(run: &Matcher) -> bool {
    ["字", "Q7", "é!"].iter().all(|text| run.clone().accept_bytes(text.as_bytes()).is_ok())
}

/// Whether free text admits no special token but what ends it, at its beginning and behind each of its words.
fn free_text(pair: &Pair, mut run: Matcher, marks: &BTreeSet<TokenId>, text: &str) -> Outcome {
    let vocabulary = pair.tokenizer.0.vocabulary().clone();
    let head = pair.dialogue.format().mark(pair.dialogue.format().answer_head());
    if !head.is_empty() && run.takes(&head).unwrap_or(false) {
        // It was asked whether it does.
        let _ = run.accept_mark(&head);
    }
    for word in text.split_inclusive(' ') {
        let Ok(mask) = run.mask().cloned() else { return Outcome::Untested("there is no mask".to_owned()) };
        let wrong = mask.iter().find(|&token| {
            let is_end = vocabulary.kind(token) == TokenKind::EndOfGeneration && run.is_complete();
            is_special(&vocabulary, token) && !is_end && !marks.contains(&token)
        });
        if let Some(token) = wrong {
            let (want, got) = ("no special token in text".to_owned(), pair.shown(&[token]));
            return Outcome::Fails { want, got };
        }
        let spelled = marks.iter().find(|&&token| {
            mask.contains(token) && run.clone().accept_bytes(vocabulary.bytes(token)).is_ok()
        });
        if let Some(&token) = spelled {
            let want = format!("{} as a token alone", pair.shown(&[token]));
            return Outcome::Fails { want, got: "its letters are admitted".to_owned() };
        }
        if run.accept_bytes(word.as_bytes()).is_err() {
            return Outcome::Fails {
                want: format!("text such as {text:?}"),
                got: format!("{word:?} is refused"),
            };
        }
    }
    Outcome::Holds
}

fn is_special(vocabulary: &Vocabulary, token: TokenId) -> bool {
    matches!(vocabulary.kind(token), TokenKind::Special | TokenKind::EndOfGeneration)
}
