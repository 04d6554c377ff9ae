//! Inline code within reasoning: what stands between backticks on one line is said, not meant.

use super::source::Cursor;

/// Characters of a line that are looked at for the end of code.
const LINE: usize = 1024;

/// Whether what stands from one place to another is within backticks. Where they hold more than that, they may be two strays on
/// either side of an end; they are code, then, only if one of the other `ends` still comes.
pub(crate) fn holds(start: Cursor<'_, '_>, end: Cursor<'_, '_>, ends: &[&str]) -> bool {
    let Some((ticks, since)) = open_ticks(start.line_so_far()) else { return false };
    let mut at = end;
    let mut left = LINE;
    loop {
        let between = at.take_while(|c| {
            left = left.saturating_sub(1);
            left > 0 && c != '`' && c != '\n'
        });
        if !at.sees("`") {
            return false;
        }
        if at.take_while(|c| c == '`').len() == ticks {
            let is_tight = since == 0 && between.is_empty() && at.place() == end.place() + ticks;
            return is_tight || ends.is_empty() || ends.iter().any(|end| at.find(end).is_some());
        }
    }
}

/// The backticks that are open at the end of a line, and what stands behind them.
fn open_ticks(line: &str) -> Option<(usize, usize)> {
    let mut open = None;
    let mut rest = line;
    while let Some(at) = rest.find('`') {
        rest = rest.get(at..)?;
        let behind = rest.trim_start_matches('`');
        let ticks = rest.len() - behind.len();
        rest = behind;
        open = match open {
            None => Some((ticks, behind.len())),
            Some((opened, _)) if opened == ticks => None,
            still => still,
        };
    }
    open
}
