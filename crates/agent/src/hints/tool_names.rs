//! A request that has a word of a tool's name, which no call has taken up.

use super::{Advice, Fit, Hint, Situation};

pub(super) struct ToolNames;

impl Hint for ToolNames {
    fn name(&self) -> &'static str {
        "tool-names"
    }

    fn reason(&self) -> &'static str {
        "asked for the weather and the time, a small model asks for the weather twice"
    }

    fn advise(&self, at: &Situation<'_>, advice: &mut Advice) {
        if advice.pending.is_empty() {
            return;
        }
        let called = &at.memory.called;
        for (offer, fit) in at.offers.iter().zip(&mut advice.fits) {
            let name = offer.spec.name.as_str();
            *fit = match *fit {
                Fit::Unknown => advice.pending.fit(name, !called.is_empty()),
                Fit::Unnamed if called.contains(name) => Fit::Clashes,
                fit => fit,
            };
        }
    }
}
