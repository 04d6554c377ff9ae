//! A call of a change that would fail, or do something else than it says, is written again behind a look at what it is about.

use super::Hint;

pub(super) struct Rewrite;

impl Hint for Rewrite {
    fn name(&self) -> &'static str {
        "rewrite"
    }

    fn reason(&self) -> &'static str {
        "asked to change a value, a small model guesses the line of a file that it has not read"
    }
}
