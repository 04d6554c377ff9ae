//! What a model thinks before it speaks: a thought that the prompt opened, or one that the model begins by itself.
//!
//! Invariant: a thought ends with its closing mark, within its share of the turn's tokens, and none of it is content.

use std::ops::ControlFlow;

use toolgate_grammar::marks::Mark;
use toolgate_grammar::{Automaton, Expr, Grammar, Limits, TokenId};
use toolgate_infer::{Backend, DecodeOptions, Decoded, Piece, Rows, StopReason, Watch, decode};

use crate::profile::policy::EVEN;
use crate::turn::local::State;
use crate::turn::making::Making;
use crate::turn::reasoning_plan::{ENOUGH, MOST_BLANKS, OpenedBy};
use crate::{Error, Kind, TurnEvent};

impl<B: Backend + Send> Making<'_, B> {
    /// Thinks where the turn surely begins so: behind a prompt that opened a thought, or where one was asked for.
    pub(crate) fn reason(&mut self, state: &mut State<B>) -> Result<(), Error> {
        if self.begun().is_some() {
            // Whoever has begun to answer has done with thinking.
            return Ok(());
        }
        match self.plan.opening() {
            Some(opened) => self.think(state, opened),
            None => Ok(()),
        }
    }

    /// Whether the model may begin a thought here by itself.
    pub(crate) fn may_begin_thought(&self) -> bool {
        self.plan.by_itself && !self.thought_here && self.begun().is_none()
    }

    /// Writes a thought, up to its end. What follows is then decided and written as without it.
    pub(crate) fn think(&mut self, state: &mut State<B>, opened: OpenedBy) -> Result<(), Error> {
        let format = self.engine.dialogue.format();
        let marks = format.thoughts();
        let close = match (&self.plan.opened, opened) {
            (Some(close), OpenedBy::Prompt) => format.mark(close.trim()),
            _ => {
                let Some((open, close)) = marks else { return Ok(()) };
                self.write_mark(state, &open)?;
                close
            }
        };
        (self.thought_here, self.after_thought) = (true, true);
        self.behind_head = false;
        if self.plan.silent {
            return self.write_mark(state, &format.mark(&format!("\n\n{}", close.text())));
        }
        let ending =
            state.session.backend().tokenize_mark(&format.mark(&format!("{ENOUGH}{}", close.text())))?;
        let decoded = self.thought_to(state, &close, ending.len())?;
        let mut text = decoded.text.trim().to_owned();
        self.evaluate_rest(state, &decoded)?;
        // Where the model did not write the closing mark it is added.
        match decoded.stop {
            StopReason::StopText(_) => {}
            StopReason::MaxTokens => {
                (self.events)(TurnEvent::Reasoning(ENOUGH.to_owned()));
                text = format!("{text}{}", ENOUGH.trim_end());
                self.write(state, &ending)?;
            }
            _ => self.write_mark(state, &format.mark(&format!("\n{}", close.text())))?,
        }
        self.spent += decoded.tokens.len();
        self.stats.reasoning_tokens += decoded.tokens.len();
        match &mut self.thought {
            // It closed the thought that the prompt opened, and had none.
            _ if text.is_empty() => {}
            Some(earlier) => {
                earlier.push_str("\n\n");
                earlier.push_str(&text);
            }
            none => *none = Some(text),
        }
        Ok(())
    }

    /// The text of a thought, up to its closing mark, its last token, or a call that the model begins without that. Some of its
    /// tokens are for its ending.
    fn thought_to(&mut self, state: &mut State<B>, close: &Mark, ending: usize) -> Result<Decoded, Error> {
        let engine = self.engine;
        let options = self.decode_options();
        let most = self.plan.most(self.request.sampling.max_tokens).saturating_sub(self.spent + ending);
        let in_thought = engine.openings.in_thought();
        let watch = Watch { openings: in_thought.clone(), threshold: EVEN };
        let options = DecodeOptions {
            max_tokens: options.max_tokens.min(most).min(state.session.room() / 2),
            stop_texts: vec![close.text().trim().to_owned()],
            watch: (!in_thought.is_empty()).then_some(watch),
            ..options
        };
        let (mut sampler, events) = (self.sampler()?, &mut *self.events);
        let show = &mut |piece: Piece<'_>| {
            events(TurnEvent::Reasoning(piece.text.to_owned()));
            ControlFlow::Continue(())
        };
        let automaton = Automaton::new(&thought(close)?, engine.vocabulary.clone(), &Limits::default())?;
        let decoded = decode(&mut state.session, &mut automaton.matcher(), &mut sampler, &options, show)?;
        let decoded = self.counted(decoded, None)?;
        if decoded.stop == StopReason::Cancelled {
            return Err(Error::new(Kind::Cancelled, "cancelled while the model reasoned"));
        }
        Ok(decoded)
    }

    /// Writes a mark for the model.
    pub(crate) fn write_mark(&mut self, state: &mut State<B>, mark: &Mark) -> Result<(), Error> {
        let tokens = state.session.backend().tokenize_mark(mark)?;
        self.write(state, &tokens)
    }

    fn write(&mut self, state: &mut State<B>, tokens: &[TokenId]) -> Result<(), Error> {
        self.stats.decode_calls += state.session.eval(tokens, Rows::Last)?;
        self.stats.forced_tokens += tokens.len();
        self.spent += tokens.len();
        Ok(())
    }

    /// Passes over the white space that the model writes behind a thought, so that what it begins there can be seen.
    pub(crate) fn pass_blanks(&mut self, state: &mut State<B>) -> Result<(), Error> {
        if !std::mem::take(&mut self.after_thought) {
            return Ok(());
        }
        for _ in 0..MOST_BLANKS {
            let logits = state.session.logits()?;
            let best = logits.iter().zip(0_u32..).filter(|(logit, _)| logit.is_finite());
            let Some((_, token)) = best.max_by(|(a, _), (b, _)| a.total_cmp(b)) else { return Ok(()) };
            let bytes = self.engine.vocabulary.bytes(token);
            let is_blank = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_whitespace);
            if !is_blank || state.session.room() <= 1 {
                return Ok(());
            }
            self.stats.decode_calls += state.session.eval(&[token], Rows::Last)?;
            self.stats.sampled_tokens += 1;
        }
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
