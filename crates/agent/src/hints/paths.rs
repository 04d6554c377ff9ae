//! Paths that a call may be given: those that are there, and those that a user wrote. Another one the tool would refuse.

use toolgate_tools::{Choices, PathArgument, PathKind, Role, held_to};

use super::{Advice, Hint, Situation};

pub(super) struct Paths;

impl Hint for Paths {
    fn name(&self) -> &'static str {
        "paths"
    }

    fn reason(&self) -> &'static str {
        "a small model makes paths up, or spells those that are there in another way"
    }

    fn advise(&self, at: &Situation<'_>, advice: &mut Advice) {
        if !(at.may_call && at.constrains) {
            return;
        }
        for (at_tool, offer) in at.offers.iter().enumerate() {
            let Role::Paths(path) = &offer.role else { continue };
            let Some(choices) = choices(at, advice, path) else { continue };
            if let Some(spec) = advice.specs.get_mut(at_tool) {
                *spec = held_to(spec.clone(), &[(path.parameter, choices)]);
            }
        }
    }
}

/// What is left of a path; none where it may be any.
fn choices(at: &Situation<'_>, advice: &Advice, path: &PathArgument) -> Option<Choices> {
    let mentions = at.mentions(&advice.pending);
    let (said, seen) = (&mentions.said, at.seen(&path.places));
    let (all, named) = (&seen.readable, mentions.named(&seen));
    let among = |paths: &[&[String]], open: &[String]| {
        let paths = paths.concat();
        // With no file there and none named, every path is as wrong as any other.
        let is_known = !(paths.is_empty() && open.is_empty() && named.missing.is_empty());
        // Nothing comes of a file that is not there; a directory has no ending that would tell its name from a word.
        let choices = match path.takes {
            PathKind::Files => said.with_named_paths(paths, open),
            _ => said.with_paths(paths, open),
        };
        is_known.then_some(choices)
    };
    match path.takes {
        // Where all of the workspace may be written, a new path may be any, unless the user gave it.
        PathKind::Writable if seen.places.can_write_everywhere() => said.places(&named, &all.directories),
        PathKind::Writable => {
            let outline = seen.writable();
            among(&[&outline.files], &[outline.open.as_slice(), &outline.directories].concat())
        }
        PathKind::Editable => among(&[&seen.writable().files], &seen.writable().open),
        PathKind::Files => match advice.lead.as_ref().filter(|lead| said.is_begun() && said.is_only(lead)) {
            Some(lead) => Some(Choices::Among { texts: vec![lead.clone()], beginnings: Vec::new() }),
            None => among(&[&all.files], &all.open),
        },
        PathKind::Directories => among(&[&all.directories], &all.open),
        PathKind::Entries => among(&[&all.files, &all.directories], &all.open),
    }
}
