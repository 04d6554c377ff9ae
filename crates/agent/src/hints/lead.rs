//! The one file to which what was found leads: a short text names it, or it is alone in a directory that the request asks more about.

use toolgate_tools::Role;

use super::{Advice, Hint, Situation};

pub(super) struct Lead;

impl Hint for Lead {
    fn name(&self) -> &'static str {
        "lead"
    }

    fn reason(&self) -> &'static str {
        "a small model that is told \"see safe/blue.txt\" answers with the name of the file, and does not read it"
    }

    fn advise(&self, at: &Situation<'_>, advice: &mut Advice) {
        if !at.may_call {
            return;
        }
        let mut places = at.offers.iter().filter_map(|offer| match &offer.role {
            Role::Paths(path) => Some(&path.places),
            _ => None,
        });
        advice.lead = places.find_map(|places| at.said().lead(&at.seen(places).readable.files));
    }
}
