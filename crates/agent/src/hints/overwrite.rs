//! A call that would lose the text of a file is made only where the request wants all of it replaced.

use toolgate_tools::Objection;

use super::Hint;
use super::words::wants_whole;

pub(super) struct Overwrite;

impl Hint for Overwrite {
    fn name(&self) -> &'static str {
        "overwrite"
    }

    fn reason(&self) -> &'static str {
        "told to change a line, a small model writes the file anew with that line alone"
    }

    fn refuses(&self, objection: &Objection, request: &str) -> bool {
        !matches!(objection, Objection::LosesText(_)) || !wants_whole(request)
    }
}
