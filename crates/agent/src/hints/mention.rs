//! What a request names of what is there: the tools that take it are likelier than those that do not.

use toolgate_tools::{PathKind, Role};

use super::said::{Named, Said};
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
            *fit = match path.takes {
                PathKind::Editable if nothing_there => Fit::Clashes,
                takes => fit_of(takes, &named, &mentions.said, seen.places.can_write()),
            };
        }
    }
}

/// How a tool that takes such paths goes with what a user named; once calls were made, what is missing is to be made.
fn fit_of(takes: PathKind, named: &Named, said: &Said, writes: bool) -> Fit {
    let (is_missing, is_begun) = (!named.missing.is_empty(), said.is_begun());
    match takes {
        // The file is what is asked for.
        PathKind::Entries if named.which && !named.file && !is_begun => Fit::Suits,
        PathKind::Files | PathKind::Directories if named.which && !named.file && !is_begun => Fit::Clashes,
        PathKind::Editable if named.whole => Fit::Clashes,
        // Where the name stands has to be found first.
        PathKind::Editable if named.identifier && !named.file && !is_missing && !is_begun => Fit::Clashes,
        // Who names a file and asks what it says has it read.
        // What is left is to be made.
        PathKind::Entries | PathKind::Directories
            if is_missing && is_begun && named.makes && !(named.file || named.directory) =>
        {
            Fit::Clashes
        }
        PathKind::Entries if named.file && !named.searches => Fit::Clashes,
        PathKind::Entries if named.file => Fit::Unnamed,
        // How many there are of something in a directory is seen there.
        PathKind::Entries if named.directory && named.counts && !named.identifier && !is_begun => {
            Fit::Clashes
        }
        PathKind::Entries if named.directory || named.identifier => Fit::Suits,
        PathKind::Directories if named.file => Fit::Clashes,
        // What stands in files is looked for in them.
        PathKind::Directories if named.directory && named.identifier => Fit::Unnamed,
        PathKind::Directories if named.directory => Fit::Suits,
        // Named as files are, it is no directory.
        PathKind::Directories if named.missing.iter().any(|path| has_ending(path)) => Fit::Clashes,
        // What is added to takes nothing away.
        PathKind::Writable if named.file && named.adds => Fit::Clashes,
        PathKind::Files | PathKind::Editable | PathKind::Writable if named.file => Fit::Suits,
        // What stands in files is looked for in them.
        PathKind::Files | PathKind::Directories if named.identifier && !is_missing && !is_begun => {
            Fit::Clashes
        }
        // What is to be changed but is not there is no file to be made, and neither is what is only to be looked at.
        PathKind::Writable if is_missing && named.changes && !is_begun => Fit::Clashes,
        PathKind::Writable if is_missing && named.looks && !named.makes => Fit::Unnamed,
        PathKind::Writable if is_missing => Fit::Suits,
        PathKind::Editable if is_missing && !is_begun && !named.changes => Fit::Unnamed,
        PathKind::Files if is_missing && !is_begun && writes && !named.looks => Fit::Unnamed,
        // A file that is not there is asked for by its name, too.
        PathKind::Files | PathKind::Editable if is_missing && !is_begun => Fit::Suits,
        PathKind::Files | PathKind::Editable | PathKind::Writable if named.directory => Fit::Clashes,
        _ => Fit::Unnamed,
    }
}
