//! Sequences, alternatives and groups as they are read. Above `ast`; used by `parse`.
//!
//! Groups are flattened by leaving their contents where they are, so that no expression is moved more than twice however
//! deep it is nested.
//!
//! Invariant: what comes out is in the normal form of the constructors of [`Expr`].

use super::Expr;

/// What a quantifier would apply to, and what the next element makes of it.
#[derive(Clone, Copy)]
enum Last {
    /// The alternative has just begun.
    Nothing,
    /// The topmost item, of this height.
    Item(u32),
    /// A closed group, still loose on the stacks: its items from `items` on or its alternatives from `choices` on.
    /// Left loose, a group that is not repeated becomes part of its parent without being moved.
    Group { items: usize, choices: usize, height: u32 },
}

/// An open parenthesis, or the rule itself.
struct Frame {
    /// Offset of the parenthesis.
    open: usize,
    /// Where its current alternative begins in `Groups::items`.
    items: usize,
    /// Where its finished alternatives begin in `Groups::choices`.
    choices: usize,
    /// Whether it has a `|`.
    split: bool,
    /// Height of the tallest expression in it.
    height: u32,
    last: Last,
    /// Whether the last element was `""`, which takes no quantifier.
    after_empty: bool,
}

/// Why an element cannot stand where it does, with the offset that the error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotGrouped {
    /// It is nested deeper than the limit.
    TooDeep(usize),
    /// A quantifier behind `""`.
    EmptyRepeated(usize),
    /// A quantifier behind nothing.
    NothingToRepeat(usize),
    /// A closing parenthesis without an opening one.
    NeverOpened(usize),
}

/// The open groups of one rule at a time.
pub(super) struct Groups {
    depth: usize,
    /// How many alternatives may be moved in all: as many as the text has bytes.
    most_moved: usize,
    frames: Vec<Frame>,
    /// The items of all open alternatives, innermost last.
    items: Vec<Expr>,
    /// The finished alternatives of all open groups, innermost last.
    choices: Vec<Expr>,
    /// Steps taken so far.
    work: u64,
    /// Alternatives that had to be moved to flatten them all the same.
    moved: usize,
}

impl Groups {
    pub(super) fn new(depth: usize, most_moved: usize) -> Self {
        let (frames, items, choices) = (Vec::new(), Vec::new(), Vec::new());
        Self { depth, most_moved, frames, items, choices, work: 0, moved: 0 }
    }

    /// Begins the body of a rule.
    pub(super) fn begin(&mut self, at: usize) -> Result<(), NotGrouped> {
        self.frames.clear();
        self.open(at)
    }

    /// Where the innermost parenthesis stands that is not closed yet.
    pub(super) fn unclosed(&self) -> Option<usize> {
        self.frames.get(1..)?.last().map(|frame| frame.open)
    }

    /// Steps taken so far, all rules together.
    pub(super) fn work(&self) -> u64 {
        self.work
    }

    pub(super) fn open(&mut self, open: usize) -> Result<(), NotGrouped> {
        if self.frames.len() > self.depth {
            return Err(NotGrouped::TooDeep(open));
        }
        self.settle();
        self.frames.push(Frame {
            open,
            items: self.items.len(),
            choices: self.choices.len(),
            split: false,
            height: 0,
            last: Last::Nothing,
            after_empty: false,
        });
        Ok(())
    }

    pub(super) fn item(&mut self, item: Expr) {
        self.settle();
        self.items.push(item);
        self.set_last(Last::Item(1), 1);
    }

    /// An empty text adds nothing to its sequence, and what stands before it cannot be repeated any more.
    pub(super) fn empty(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.after_empty = true;
        }
    }

    fn set_last(&mut self, last: Last, height: u32) {
        if let Some(frame) = self.frames.last_mut() {
            frame.last = last;
            frame.height = frame.height.max(height);
            frame.after_empty = false;
        }
    }

    /// Makes one item of a loose group with alternatives, because something follows it.
    fn settle(&mut self) {
        if let Some(&Frame { last: Last::Group { choices, .. }, .. }) = self.frames.last()
            && choices < self.choices.len()
        {
            let alternatives: Vec<Expr> = self.choices.drain(choices..).collect();
            self.work += alternatives.len() as u64;
            self.items.push(Expr::Choice(alternatives));
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.last = Last::Nothing;
        }
    }

    /// Ends the alternative at a `|`.
    pub(super) fn split(&mut self) -> Result<(), NotGrouped> {
        self.end_alternative()?;
        if let Some(frame) = self.frames.last_mut() {
            (frame.split, frame.last, frame.after_empty) = (true, Last::Nothing, false);
        }
        Ok(())
    }

    fn end_alternative(&mut self) -> Result<(), NotGrouped> {
        let Some(&Frame { items, last, open, .. }) = self.frames.last() else { return Ok(()) };
        let loose = matches!(last, Last::Group { choices, .. } if choices < self.choices.len());
        if loose && items == self.items.len() {
            // The alternative is nothing but a group with alternatives: they become the parent's own.
            return Ok(());
        }
        self.settle();
        match self.sequence(items) {
            // As in `("a" | "b") () | "c"`: odd enough to be given a budget, which keeps the whole linear.
            Expr::Choice(inner) => {
                self.moved += inner.len();
                self.work += inner.len() as u64;
                if self.moved > self.most_moved {
                    return Err(NotGrouped::TooDeep(open));
                }
                self.choices.extend(inner);
            }
            alternative => self.choices.push(alternative),
        }
        Ok(())
    }

    /// The items from `from` on as one expression.
    fn sequence(&mut self, from: usize) -> Expr {
        self.work += self.items.len().saturating_sub(from) as u64;
        if self.items.len() == from + 1 {
            self.items.pop().unwrap_or_else(Expr::empty)
        } else {
            Expr::Sequence(self.items.drain(from..).collect())
        }
    }

    pub(super) fn close(&mut self, at: usize) -> Result<(), NotGrouped> {
        if self.frames.len() < 2 {
            return Err(NotGrouped::NeverOpened(at));
        }
        self.loosen()?;
        if let Some(frame) = self.frames.pop() {
            let height = frame.height + 1;
            if height as usize > self.depth {
                return Err(NotGrouped::TooDeep(frame.open));
            }
            self.set_last(Last::Group { items: frame.items, choices: frame.choices, height }, height);
        }
        Ok(())
    }

    /// Ends the innermost frame, so that either its items or its alternatives are loose, not both.
    fn loosen(&mut self) -> Result<(), NotGrouped> {
        let Some(&Frame { items, split, .. }) = self.frames.last() else { return Ok(()) };
        if split {
            self.end_alternative()?;
        } else if items < self.items.len() {
            self.settle();
        }
        Ok(())
    }

    pub(super) fn finish(&mut self) -> Result<Expr, NotGrouped> {
        self.loosen()?;
        self.frames.clear();
        if self.choices.is_empty() {
            Ok(self.sequence(0))
        } else {
            Ok(Expr::Choice(std::mem::take(&mut self.choices)))
        }
    }

    /// Makes a repetition of the last element.
    pub(super) fn repeat(&mut self, at: usize, min: u64, max: Option<u64>) -> Result<(), NotGrouped> {
        let Some(&Frame { last, after_empty, .. }) = self.frames.last() else { return Ok(()) };
        if after_empty {
            return Err(NotGrouped::EmptyRepeated(at));
        }
        let (item, height) = match last {
            Last::Nothing => return Err(NotGrouped::NothingToRepeat(at)),
            Last::Item(height) => (self.items.pop().unwrap_or_else(Expr::empty), height),
            Last::Group { choices, height, .. } if choices < self.choices.len() => {
                self.work += (self.choices.len() - choices) as u64;
                (Expr::Choice(self.choices.drain(choices..).collect()), height)
            }
            Last::Group { items, height, .. } => (self.sequence(items), height),
        };
        if height as usize >= self.depth {
            return Err(NotGrouped::TooDeep(at));
        }
        self.items.push(item.repeat(min, max));
        self.set_last(Last::Item(height + 1), height + 1);
        Ok(())
    }
}
