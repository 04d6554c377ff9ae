//! A request that asks for a command to be run: "with a shell command", "use wc to count".

use toolgate_tools::Role;

use super::words::{demands_change, files_of, wants_command};
use super::{Advice, Fit, Hint, Situation};

pub(super) struct Commands;

impl Hint for Commands {
    fn name(&self) -> &'static str {
        "commands"
    }

    fn reason(&self) -> &'static str {
        "a small model reads a file that it was told to count the lines of with wc"
    }

    fn advise(&self, at: &Situation<'_>, advice: &mut Advice) {
        if !at.may_call {
            return;
        }
        let request = at.request();
        for (offer, fit) in at.offers.iter().zip(&mut advice.fits) {
            if !matches!(offer.role, Role::Commands(_)) {
                continue;
            }
            *fit = match wants_command(request) {
                true => Fit::Suits,
                // A change in a file that is named is an edit.
                false if demands_change(request) && files_of(request).next().is_some() => Fit::Clashes,
                false => Fit::Unknown,
            };
        }
    }
}
