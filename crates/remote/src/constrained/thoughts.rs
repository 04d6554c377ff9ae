//! What the model of a server thinks before it speaks. It is as on this machine: a thought has its share of the turn's tokens, ends
//! with its closing mark, and none of it is content.

use toolgate_engine::stages::{ENOUGH, EVEN, OpenedBy};
use toolgate_engine::{Penalties, TurnEvent};
use toolgate_infer::StopReason;

use super::Thinking;
use super::making::Making;
use crate::Error;

impl Making<'_> {
    /// Thinks where the turn surely begins so.
    pub(super) fn reason(&mut self) -> Result<(), Error> {
        // Whoever has begun to answer has done with thinking.
        match self.plan.opening().filter(|_| self.request.goes_on_from().is_none()) {
            Some(opened) => self.think_here(opened),
            None => Ok(()),
        }
    }

    /// Whether the model may begin a thought where the turn is.
    pub(super) fn may_begin_thought(&self) -> bool {
        self.plan.by_itself && !self.thought_here && self.request.goes_on_from().is_none()
    }

    /// Thinks where the model begins an answer so.
    pub(super) fn think_by_itself(&mut self) -> Result<(), Error> {
        if !self.may_begin_thought() || self.thought_marks().is_none() {
            return Ok(());
        }
        let decided = self.decided(EVEN)?;
        if decided.p_think >= EVEN { self.think_here(OpenedBy::Model) } else { Ok(()) }
    }

    /// Writes a thought, up to its end.
    pub(super) fn think_here(&mut self, opened: OpenedBy) -> Result<(), Error> {
        let marks = self.thought_marks();
        let (open, close) = match (&self.plan.opened, opened, marks) {
            (Some(close), OpenedBy::Prompt, _) => (None, close.trim().to_owned()),
            (_, _, Some((open, close))) => (Some(open), close.trim().to_owned()),
            _ => return Ok(()),
        };
        self.behind_head = false;
        if self.plan.silent {
            self.note_thought(open, &format!("\n\n{close}"));
            return Ok(());
        }
        let most = self.plan.most(self.request.sampling.max_tokens);
        let mut sampling = self.request.sampling.clone().penalties(Penalties::default());
        sampling.max_tokens = most.saturating_sub(self.spent).max(1);
        let stops: Vec<String> = std::iter::once(close.clone()).chain(self.call_tokens()).collect();
        let here = self.here()?;
        let thinking = Thinking { open: open.as_deref(), close: &close, stops: &stops, sampling: &sampling };
        let events = &mut *self.events;
        let written = self.server.think(&here, &thinking, self.cancel, &mut |piece| {
            events(TurnEvent::Reasoning(piece.to_owned()));
        })?;
        let written = self.whole(written)?;
        self.reasoning_tokens += written.usage.written_tokens;
        self.spent += written.usage.written_tokens;
        let raw = written.reasoning;
        let end = match written.stop {
            Some(StopReason::MaxTokens) => {
                (self.events)(TurnEvent::Reasoning(ENOUGH.to_owned()));
                ENOUGH
            }
            _ if written.ended_by.as_ref() == Some(&close) || raw.ends_with('\n') => "",
            _ => "\n",
        };
        let text = format!("{raw}{end}");
        self.note_thought(open, &text);
        self.behind.push(close);
        self.add_thought(text.trim());
        Ok(())
    }

    /// Adds to what the model thought in this turn.
    pub(super) fn add_thought(&mut self, text: &str) {
        if !text.is_empty() {
            let earlier = self.thought.take().map(|earlier| format!("{earlier}\n\n")).unwrap_or_default();
            self.thought = Some(format!("{earlier}{text}"));
        }
    }

    /// Notes that a thought stands where the turn is.
    fn note_thought(&mut self, open: Option<String>, text: &str) {
        (self.thought_here, self.after_thought) = (true, true);
        self.behind.extend(open);
        self.behind.push(text.to_owned());
    }

    /// The marks of thoughts in the model's family.
    pub(super) fn thought_marks(&self) -> Option<(String, String)> {
        let marks = self.server.dialogue().format().thoughts();
        marks.map(|(open, close)| (open.text(), close.text()))
    }

    /// The marks of calls that are a token each: there a call ends a thought. Text that looks like a call may be thought of.
    fn call_tokens(&self) -> Vec<String> {
        let Some(server) = self.server.tokens() else { return Vec::new() };
        let marks = self.server.dialogue().format().openings_in_text();
        marks.into_iter().filter(|mark| server.is_token(mark.trim())).collect()
    }
}
