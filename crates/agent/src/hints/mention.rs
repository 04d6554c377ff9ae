//! What a request names of what is there: the tools that take it are likelier than those that do not.

use toolgate_tools::{PathKind, Role};

use super::said::Named;
use super::words::has_ending;
use super::{Advice, Fit, Hint, Situation};

pub(super) struct Mention;

impl Hint for Mention {
    fn name(&self) -> &'static str {
        "mention"
    }

    fn reason(&self) -> &'static str {
        "asked what is in a file, a small model lists its folder"
    }

    fn advise(&self, at: &Situation<'_>, advice: &mut Advice) {
        if !at.may_call {
            return;
        }
        let mentions = at.mentions(&advice.pending);
        for (offer, fit) in at.offers.iter().zip(&mut advice.fits) {
            let Role::Paths(path) = &offer.role else { continue };
            let seen = at.seen(&path.places);
            let named = mentions.named(&seen);
            advice.directories.extend(named.directories.iter().cloned());
            let nothing_there = seen.readable.files.is_empty() && seen.readable.open.is_empty();
            let was_called = at.memory.called.contains(offer.spec.name.as_str());
            *fit = match path.takes {
                PathKind::Editable if nothing_there => Fit::Clashes,
                takes => fit_of(takes, &named, mentions.said.is_begun(), was_called),
            };
        }
    }
}

/// How a tool that takes such paths goes with what a user named. Once calls were made, what is missing is to be made. A name that was found
/// nowhere may be a new one then: it is looked for only where this tool was called for another.
fn fit_of(takes: PathKind, named: &Named, is_begun: bool, was_called: bool) -> Fit {
    let is_missing = !named.missing.is_empty();
    // What stands in files is looked for in them.
    let is_sought = named.identifier && !named.file && !is_missing && !is_begun;
    match takes {
        PathKind::Entries | PathKind::Directories if named.file => Fit::Clashes,
        PathKind::Entries if named.directory || (named.identifier && (was_called || !is_begun)) => Fit::Suits,
        PathKind::Directories if named.directory && named.identifier => Fit::Unnamed,
        PathKind::Directories if named.directory => Fit::Suits,
        // Named as files are, it is no directory.
        PathKind::Directories if named.missing.iter().any(|path| has_ending(path)) => Fit::Clashes,
        PathKind::Files | PathKind::Editable | PathKind::Writable if named.file => Fit::Suits,
        PathKind::Files | PathKind::Editable | PathKind::Directories if is_sought => Fit::Clashes,
        PathKind::Writable if is_missing => Fit::Suits,
        // A file that is not there is asked for by its name, too.
        PathKind::Files | PathKind::Editable if is_missing && !is_begun => Fit::Suits,
        PathKind::Files | PathKind::Editable | PathKind::Writable if named.directory => Fit::Clashes,
        _ => Fit::Unnamed,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_tools::ToolResult;

    use super::super::Hints;
    use super::super::scene::{Scene, hits};
    use super::*;

    #[test]
    fn a_name_that_no_call_took_up_is_looked_for_where_another_one_was() {
        let files = &["plan.txt"];
        let asked = |request| {
            Scene::asked(request).with_files("view", PathKind::Files, files).with_files(
                "seek",
                PathKind::Entries,
                files,
            )
        };
        let prior_of_seek = |scene: &Scene| Hints::auto().advice(&scene.at()).prior().last().copied();
        let request = "In plan.txt OldLimit is to be called NewLimit.";
        let path = json!({"path": "plan.txt"});
        let read = asked(request).called("view", &path, ToolResult::ok("OldLimit = 3".to_owned()));
        assert_eq!(prior_of_seek(&read), Some(0.0), "it may be a new name");
        let request = "Where is OldLimit set, and where is NewLimit?";
        assert_eq!(prior_of_seek(&asked(request)), Some(1.0));
        let found = hits(&[("plan.txt", "OldLimit = 3")], false);
        let sought = asked(request).called("seek", &json!({"query": "OldLimit"}), found);
        assert_eq!(prior_of_seek(&sought), Some(1.0));
    }
}
