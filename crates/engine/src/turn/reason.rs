//! What a model thinks before it calls or answers, where its template begins a turn with that.
//!
//! Invariant: reasoning ends with its closing mark, within its share of the turn's tokens, and none of it is content.

use std::ops::ControlFlow;

use toolgate_grammar::marks::Mark;
use toolgate_grammar::{Automaton, Expr, Grammar, Limits};
use toolgate_infer::{Backend, DecodeOptions, Piece, Rows, StopReason, decode};

use crate::turn::local::{LocalEngine, State};
use crate::turn::making::Making;
use crate::{Constraint, TurnEvent};
use crate::{Error, Kind};

/// What stands between the end of reasoning and what follows.
const BREAK: &str = "\n\n";

impl<B: Backend + Send> LocalEngine<B> {
    /// What ends the reasoning that turns begin with, where the model is to write it.
    fn closing(&self) -> Option<&str> {
        let wanted = self.options.reasoning && self.options.constraint != Constraint::None;
        self.dialogue.knowledge().opens_reasoning.as_deref().filter(|_| wanted)
    }

    /// Whether turns begin with reasoning.
    pub(crate) fn reasons(&self) -> bool {
        self.closing().is_some()
    }
}

impl<B: Backend + Send> Making<'_, B> {
    /// Writes the reasoning after a prompt that began it; what follows is then decided and written as without it.
    pub(crate) fn reason(&mut self, state: &mut State<B>) -> Result<(), Error> {
        let engine = self.engine;
        let Some(close) = engine.closing() else { return Ok(()) };
        if self.begun().is_some() {
            // Whoever has begun to answer has done with thinking.
            return Ok(());
        }
        let mark = engine.dialogue.format().mark(close.trim());
        let automaton = Automaton::new(&thought(&mark)?, engine.vocabulary.clone(), &Limits::default())?;
        let options = self.decode_options();
        let options = DecodeOptions {
            max_tokens: options.max_tokens.min(state.session.room()) / 2,
            stop_texts: vec![mark.text()],
            ..options
        };
        let (mut sampler, events) = (self.sampler()?, &mut *self.events);
        let show = &mut |piece: Piece<'_>| {
            events(TurnEvent::Reasoning(piece.text.to_owned()));
            ControlFlow::Continue(())
        };
        let decoded = decode(&mut state.session, &mut automaton.matcher(), &mut sampler, &options, show)?;
        let decoded = self.counted(decoded, None)?;
        if decoded.stop == StopReason::Cancelled {
            return Err(Error::new(Kind::Cancelled, "cancelled while the model reasoned"));
        }
        self.thought = Some(decoded.text.trim().to_owned());
        self.spent = decoded.tokens.len();
        self.stats.reasoning_tokens += self.spent;
        // The last tokens were not evaluated yet; where the model did not write the closing mark it is added.
        let held = state.session.tokens().len().saturating_sub(decoded.start);
        let mut rest: Vec<_> = decoded.tokens.iter().skip(held).map(|token| token.token).collect();
        let ending = match decoded.stop {
            StopReason::StopText(_) => Mark::of_text(BREAK),
            _ => engine.dialogue.format().mark(&format!("\n{close}{BREAK}")),
        };
        rest.extend(state.session.backend().tokenize_mark(&ending)?);
        self.stats.decode_calls += state.session.eval(&rest, Rows::Last)?;
        Ok(())
    }
}

/// The grammar of a thought: any text, and the mark that ends it where that holds a token, which text does not.
fn thought(close: &Mark) -> Result<Grammar, Error> {
    let end = if close.has_tokens() { close.expr() } else { Expr::empty() };
    let mut builder = Grammar::builder();
    let root = builder.rule("root", Expr::sequence([Expr::Any.repeat(0, None), end]));
    Ok(builder.build(root)?)
}
