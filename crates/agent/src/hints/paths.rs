//! Paths that a call may be given: those that are there, and those that a user wrote. Another one the tool would refuse.

use std::collections::HashSet;

use toolgate_tools::{Choices, PathArgument, PathKind, Role, held_to};

use super::words::plain;
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
    let among = |paths: &[&[String]], open: &[String], others: &[String]| {
        let paths = paths.concat();
        // With no file there and none named, every path is as wrong as any other.
        let is_known = !(paths.is_empty() && open.is_empty() && named.missing.is_empty());
        // Nothing comes of a file that is not there; a directory has no ending that would tell its name from a word.
        let choices = match path.takes {
            PathKind::Files => said.with_named_paths(paths, open),
            _ => said.with_paths(paths, open),
        };
        is_known.then(|| without(choices, others))
    };
    match path.takes {
        // Where all of the workspace may be written, a new path may be any, unless the user gave it.
        PathKind::Writable if seen.places.can_write_everywhere() => said.places(&named, &all.directories),
        PathKind::Writable => {
            let outline = seen.writable();
            among(&[&outline.files], &[outline.open.as_slice(), &outline.directories].concat(), &[])
        }
        PathKind::Editable => among(&[&seen.writable().files], &seen.writable().open, &all.directories),
        PathKind::Files => match advice.lead.as_ref().filter(|lead| said.is_begun() && said.is_only(lead)) {
            Some(lead) => Some(Choices::Among { texts: vec![lead.clone()], beginnings: Vec::new() }),
            None => among(&[&all.files], &all.open, &all.directories),
        },
        PathKind::Directories => among(&[&all.directories], &all.open, &all.files),
        PathKind::Entries => among(&[&all.files, &all.directories], &all.open, &[]),
    }
}

/// The same without what is there, but is of another kind: a file, for a tool that lists directories.
fn without(choices: Choices, others: &[String]) -> Choices {
    let others: HashSet<&str> = others.iter().map(String::as_str).collect();
    match choices {
        Choices::Among { mut texts, beginnings } => {
            texts.retain(|text| !others.contains(plain(text)));
            Choices::Among { texts, beginnings }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::scene::Scene;
    use super::super::{Advice, Hints};
    use super::*;

    /// The paths that a tool may be given, in a folder with `notes/` and `notes/a.txt`.
    fn held(request: &str, takes: PathKind) -> String {
        let scene = Scene::asked(request).with_tree("look", takes, &["notes/a.txt"], &[".", "notes"]);
        let Advice { specs, .. } = Hints::auto().advice(&scene.at());
        specs.first().map_or_else(String::new, |spec| json!(spec.closed_parameters()).to_string())
    }

    #[test]
    fn what_is_there_but_of_another_kind_is_no_path_for_a_tool() {
        let request = "Change notes/a.txt, and look at ./notes/ and at gone/b.txt";
        let (lists, reads) = (held(request, PathKind::Directories), held(request, PathKind::Files));
        assert!(lists.contains("\"notes\"") && !lists.contains("notes/a.txt"), "{lists}");
        assert!(reads.contains("\"notes/a.txt\"") && !reads.contains("notes/\""), "{reads}");
        for held in [lists, reads, held(request, PathKind::Entries)] {
            assert!(held.contains("gone/b.txt"), "what is not there can be said: {held}");
        }
    }
}
