//! Decides whether a whole text goes on where the model wrote white space behind it.
//!
//! Small models write a line break behind a call whether another call follows or not. Under a grammar that admits only calls
//! there, the break would always become another call. So the model's own next token, without the grammar, decides.

use toolgate_grammar::{TokenId, TokenKind};

use super::Turn;
use crate::constraint::{Constraint, Follow, Forced};
use crate::decision::opening_mass;
use crate::forced::canonical;
use crate::openings::Openings;
use crate::{Backend, Error, Rows};

/// The texts that a whole text may go on with behind white space, and the least probability of them.
///
/// ```
/// use std::{ops::ControlFlow, sync::Arc};
/// use toolgate_grammar::{Automaton, Grammar, Limits};
/// use toolgate_infer::{DecodeOptions, Further, Openings, Sampler, Session, Vocabulary, decode, scripted::Scripted};
///
/// let vocabulary = Arc::new(Vocabulary::bytes_only());
/// let calls = Grammar::parse(r#"root ::= "f(" [a-z]+ ")" ("\n" "f(" [a-z]+ ")")*"#)?;
/// let mut run = Automaton::new(&calls, vocabulary.clone(), &Limits::default())?.matcher();
/// let further = Some(Further { openings: Openings::new(&vocabulary, &["f("]), threshold: 0.5 });
/// let options = DecodeOptions { further, ..DecodeOptions::default() };
/// let mut session = Session::new(Scripted::new(vocabulary).say("f(ab)\nThat is all."));
/// session.set_prompt_text("Call: ")?;
/// let turn = decode(&mut session, &mut run, &mut Sampler::greedy(), &options, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!(turn.text, "f(ab)", "behind the line break the model wants no further call");
/// # Ok::<(), toolgate_infer::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Further {
    /// Their beginnings.
    pub openings: Openings,
    /// The least probability of such a beginning with which the text goes on. With 0 it always goes on.
    pub threshold: f64,
}

impl<B: Backend> Turn<'_, B> {
    /// The tokens that end the turn in place of a drawn one that could go on; none where the turn goes on.
    pub(super) fn ending(&mut self, drawn: TokenId) -> Result<Option<Vec<TokenId>>, Error> {
        let options = self.options;
        let Some(further) = options.further.as_ref().filter(|further| further.threshold > 0.0) else {
            return Ok(None);
        };
        let vocabulary = self.session.vocabulary().clone();
        let bytes = vocabulary.bytes(drawn);
        let whole = bytes.trim_ascii_end();
        // Without room for the token the turn ends by itself.
        let is_asked = vocabulary.kind(drawn) == TokenKind::Text
            && whole.len() < bytes.len()
            && self.session.room() > self.pending.len();
        if !is_asked || !self.constraint.is_complete_after(whole)? {
            return Ok(None);
        }
        let mut mass = opening_mass(self.behind(drawn)?, &further.openings);
        if self.is_near(mass, further.threshold) {
            self.settle()?;
            mass = opening_mass(self.behind(drawn)?, &further.openings);
        }
        if mass >= further.threshold {
            return Ok(None);
        }
        // A token may hold the end of the text and white space. Then the end is written without the white space.
        let end = Forced { bytes: whole.to_vec(), follow: Follow::End };
        self.cut()?;
        canonical(self.session.backend(), &self.recent(), &end).map(Some)
    }

    /// The logits behind a token that may yet be taken: it is evaluated ahead, unless it is so already.
    fn behind(&mut self, token: TokenId) -> Result<&[f32], Error> {
        match self.row {
            Some(row) if self.ahead.front() == Some(&token) => self.session.row(row + 1),
            _ => {
                self.cut()?;
                let mut tokens = std::mem::take(&mut self.pending);
                // If the token is not taken, what is in front of it stays, also where memory cannot be cut.
                if !self.session.backend().cuts_anywhere() {
                    self.stats.decode_calls += self.session.eval_exact(&tokens, Rows::None)?;
                    tokens.clear();
                    self.checkpoint()?;
                }
                tokens.push(token);
                self.stats.decode_calls += self.session.eval(&tokens, Rows::Last)?;
                self.stats.drafted_tokens += 1;
                self.ahead = [token].into();
                self.session.logits()
            }
        }
    }
}
