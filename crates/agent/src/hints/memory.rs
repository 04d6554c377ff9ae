//! A request that tells something for later, or asks for what was told earlier.

use toolgate_tools::Role;

use super::words::{wants_kept, wants_recalled};
use super::{Advice, Fit, Hint, Situation};

pub(super) struct MemoryWords;

impl Hint for MemoryWords {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn reason(&self) -> &'static str {
        "a small model recalls what it is told to keep, and keeps what it is asked about"
    }

    fn advise(&self, at: &Situation<'_>, advice: &mut Advice) {
        if !at.may_call {
            return;
        }
        let (kept, recalled) = (wants_kept(at.request()), wants_recalled(at.request()));
        let of = |suits: bool, clashes: bool| match (suits, clashes) {
            (true, _) => Fit::Suits,
            (_, true) => Fit::Clashes,
            _ => Fit::Unknown,
        };
        for (offer, fit) in at.offers.iter().zip(&mut advice.fits) {
            match offer.role {
                Role::Keeps => *fit = of(kept, recalled),
                Role::Recalls => *fit = of(recalled, kept),
                _ => {}
            }
        }
    }
}
