//! The state of a sequence as llama.cpp writes it. This module checks it before it is saved, and before llama.cpp reads it.
//!
//! Invariant: a state that has a [`floor`] describes the tokens at positions 0 to `len` and no others, one sequence
//! each. llama.cpp checks the rest itself, against the shapes of its cache. A state that it refuses is not restored.

use std::ops::Range;

use crate::load::Memory;

/// The first number of a state.
const MAGIC: u32 = 0xaf14_3cd8;

/// The pinned llama.cpp, as `llama-cpp-sys-2` numbers it. Another version may compute or write states differently.
pub(crate) const LLAMA_CPP: &str = "0.1.161";

/// The processor and the build, in the words of llama.cpp. A state of another processor or build is not used.
#[expect(unsafe_code, reason = "llama-cpp-2 has no name for it")]
pub(crate) fn system() -> String {
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    // llama.cpp looks for devices here, and says what it finds: its log has to be led off first.
    let _running = crate::model::llama_cpp();
    let _alone = LOCK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // SAFETY: the function takes nothing and returns a string with a terminator that lives as long as the process;
    // it is written anew by each call, so it is copied at once, and calls are kept apart by the lock.
    let text = unsafe { std::ffi::CStr::from_ptr(llama_cpp_sys_2::llama_print_system_info()) };
    text.to_string_lossy().trim().to_owned()
}

/// The fewest tokens that a sequence can be cut to behind this state of `len` tokens. None if it is the state of no such sequence.
///
/// The state of a model with a window has two caches. The first is for layers that see all tokens, the second for those that see the last
/// ones alone. llama.cpp leaves out of the second what is behind the window. What is left is enough to evaluate the last token again.
/// The summary of recurrent layers comes last. It cannot be cut.
pub(crate) fn floor(state: &[u8], len: usize, memory: Memory) -> Option<usize> {
    let mut state = Reader::of(state)?;
    let mut floor = 0;
    for cache in 0..memory.caches {
        let is_last = cache + 1 == memory.caches && !memory.has_summary;
        let positions = state.cache(!is_last, memory)?;
        match cache {
            0 if positions != (0..len) => return None,
            0 => {}
            _ if positions.end != len => return None,
            _ => floor = if positions.start == 0 { 0 } else { len.saturating_sub(1) },
        }
    }
    if memory.has_summary {
        state.summary(len)?;
        floor = len;
    }
    Some(floor)
}

/// Whether this is a checkpoint of `len` tokens: the summary of recurrent layers, behind the cache of layers that have a window, without
/// that of layers that see all tokens.
pub(crate) fn is_checkpoint(state: &[u8], len: usize, memory: Memory) -> bool {
    let read = |mut state: Reader<'_>| {
        if memory.caches == 2 && state.cache(true, memory)?.end != len {
            return None;
        }
        state.summary(len)
    };
    Reader::of(state).and_then(read).is_some()
}

/// The length of a checkpoint in tokens, and its state.
pub(crate) type Checkpoint<'s> = (usize, &'s [u8]);

/// A state with recurrent layers, and the last checkpoint in front of its end, as one.
pub(crate) fn with_checkpoint(state: &[u8], checkpoint: Option<Checkpoint<'_>>) -> Vec<u8> {
    let (len, checkpoint) = checkpoint.unwrap_or_default();
    let numbers = [state.len() as u64, len as u64].map(u64::to_le_bytes).concat();
    [&numbers, state, checkpoint].concat()
}

/// What [`with_checkpoint`] made one; none where it did not.
pub(crate) fn parts(saved: &[u8]) -> Option<(&[u8], Option<Checkpoint<'_>>)> {
    let mut reader = Reader(saved);
    let (bytes, len) = (usize::try_from(reader.long()?).ok()?, usize::try_from(reader.long()?).ok()?);
    let (state, checkpoint) = reader.0.split_at_checked(bytes)?;
    Some((state, (len > 0).then_some((len, checkpoint))))
}

/// What is left to be read of a state.
struct Reader<'s>(&'s [u8]);

impl<'s> Reader<'s> {
    /// What is behind the beginning of a state.
    fn of(state: &'s [u8]) -> Option<Self> {
        let mut state = Self(state);
        let (magic, _sequence) = (state.number()?, state.number()?);
        (magic == MAGIC).then_some(state)
    }

    /// The cell of a summary of `len` tokens: its position is that of the last one.
    fn summary(&mut self, len: usize) -> Option<()> {
        let (cells, position, sequences) = (self.number()?, self.number()?, self.number()?);
        let is_last = usize::try_from(position).ok()?.checked_add(1)? == len;
        (cells == 1 && sequences == 0 && is_last).then_some(())
    }

    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*number))
    }

    fn long(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn skip(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    /// The positions of a cache. With `whole` it reads to the end of the cache, else only as far as the positions.
    fn cache(&mut self, whole: bool, memory: Memory) -> Option<Range<usize>> {
        // A sequence lies in one stream; the others are empty.
        let streams = self.number()?.min(MOST_STREAMS);
        let mut positions = None;
        for _ in 0..streams {
            let cells = self.number()?;
            if cells == 0 {
                continue;
            }
            if positions.is_some() {
                return None;
            }
            positions = Some(self.positions(cells, memory)?);
            if !whole {
                break;
            }
            self.values(cells)?;
        }
        positions
    }

    /// The positions of so many cells, one after the other without a gap. Where several sequences share the cells of a context, they
    /// come in any order.
    fn positions(&mut self, cells: u32, memory: Memory) -> Option<Range<usize>> {
        let cells = usize::try_from(cells).ok()?;
        if cells > self.0.len() / CELL {
            return None;
        }
        let mut found = Vec::with_capacity(cells);
        for _ in 0..cells {
            let (position, sequences) = (self.number()?, self.number()?);
            if memory.has_places {
                self.skip(PLACE)?;
            }
            let _sequence = self.number()?;
            if sequences != 1 {
                return None;
            }
            found.push(usize::try_from(position).ok()?);
        }
        found.sort_unstable();
        let first = *found.first()?;
        let is_whole = found.iter().enumerate().all(|(at, &position)| position == first + at);
        is_whole.then_some(first..first + cells)
    }

    /// Skips the keys and values of so many cells.
    fn values(&mut self, cells: u32) -> Option<()> {
        let (are_turned, layers) = (self.number()?, self.number()?);
        let (_turned_keys, _turned_values) = (self.number()?, self.number()?);
        for _ in 0..layers {
            let (_type, row) = (self.number()?, self.long()?);
            self.skip(row.checked_mul(cells.into())?)?;
        }
        for _ in 0..layers {
            let _type = self.number()?;
            let row = match are_turned {
                0 => self.long()?,
                _ => u64::from(self.number()?).checked_mul(self.number()?.into())?,
            };
            self.skip(row.checked_mul(cells.into())?)?;
        }
        Some(())
    }
}

/// Bytes that describe a cell.
const CELL: usize = 12;
/// Bytes of a cell's place in a picture, and its token.
const PLACE: u64 = 12;
/// The most streams that a state may have: more than the sequences of any context of ours.
const MOST_STREAMS: u32 = 256;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const ALL: Memory = Memory { caches: 1, has_summary: false, has_places: false };
    const WINDOW: Memory = Memory { caches: 2, has_summary: false, has_places: false };
    const RECURRENT: Memory = Memory { caches: 0, has_summary: true, has_places: false };
    const HYBRID: Memory = Memory { caches: 1, has_summary: true, has_places: false };

    fn check(state: &[u8], len: usize) -> bool {
        floor(state, len, ALL) == Some(0)
    }

    fn state(streams: &[&[(u32, u32)]]) -> Vec<u8> {
        let mut numbers = vec![MAGIC, 0, u32::try_from(streams.len()).unwrap()];
        for cells in streams {
            numbers.push(u32::try_from(cells.len()).unwrap());
            numbers.extend(cells.iter().flat_map(|&(position, sequences)| [position, sequences, 0]));
        }
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn cells_of_all_positions_are_let_through_and_others_are_not() {
        assert!(check(&state(&[&[(0, 1), (1, 1), (2, 1)], &[]]), 3));
        assert!(check(&state(&[&[], &[(0, 1)]]), 1));
        assert!(!check(&state(&[&[(0, 1), (1, 1)]]), 3), "fewer than said");
        assert!(check(&state(&[&[(1, 1), (2, 1), (0, 1)]]), 3), "as they lie among those of others");
        assert!(!check(&state(&[&[(1, 1), (1, 1)]]), 2), "one twice");
        assert!(!check(&state(&[&[(1, 1), (2, 1)]]), 2), "one is missing");
        let huge = [MAGIC, 0, 1, u32::MAX].map(u32::to_le_bytes).concat();
        assert!(!check(&huge, u32::MAX as usize), "more than there are");
        assert!(!check(&state(&[&[(0, 2)]]), 1), "of two sequences");
        assert!(!check(&state(&[&[], &[]]), 0), "of none");
        let whole = state(&[&[(0, 1), (1, 1)]]);
        for len in 0..whole.len() {
            assert!(!check(whole.get(..len).unwrap(), 2), "cut to {len} bytes");
        }
    }

    /// A cache of one layer with two bytes a key and four a value, for sequence 1 of 2.
    fn cache(positions: std::ops::Range<u32>, are_turned: bool) -> Vec<u8> {
        let cells = u32::try_from(positions.len()).unwrap();
        let mut numbers = vec![2, 0, cells];
        numbers.extend(positions.flat_map(|position| [position, 1, 0]));
        numbers.extend([u32::from(are_turned), 1, 0, 0]);
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        bytes.extend([1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(vec![7; 2 * cells as usize]);
        bytes.extend([1, 0, 0, 0]);
        bytes.extend(if are_turned { [2, 0, 0, 0, 2, 0, 0, 0] } else { [4, 0, 0, 0, 0, 0, 0, 0] });
        bytes.extend(vec![9; 4 * cells as usize]);
        bytes
    }

    #[test]
    fn a_window_is_the_end_of_the_sequence() {
        let beginning = [MAGIC, 0].map(u32::to_le_bytes).concat();
        for turned in [false, true] {
            let windowed = |window: std::ops::Range<u32>| {
                let state = [beginning.clone(), cache(0..6, turned), cache(window, turned)].concat();
                floor(&state, 6, WINDOW)
            };
            assert_eq!((windowed(0..6), windowed(2..6), windowed(5..6)), (Some(0), Some(5), Some(5)));
            assert_eq!((windowed(2..5), windowed(3..7)), (None, None), "it ends elsewhere");
            let state = [beginning.clone(), cache(0..6, turned), cache(2..6, turned)].concat();
            assert_eq!((floor(&state, 5, WINDOW), floor(&state, 7, WINDOW)), (None, None));
            let only = [beginning.clone(), cache(0..6, turned)].concat();
            assert_eq!((floor(&only, 6, WINDOW), floor(&only, 6, ALL)), (None, Some(0)));
            for len in 0..only.len() + 12 + 48 {
                assert_eq!(floor(state.get(..len).unwrap(), 6, WINDOW), None, "cut to {len} bytes");
            }
        }
    }

    #[test]
    fn cells_may_have_places_beside_their_positions() {
        let mut state = [MAGIC, 0, 1, 2].map(u32::to_le_bytes).concat();
        for position in [0_u32, 1] {
            state.extend([position, 1, 9, 9, u32::MAX, 0].map(u32::to_le_bytes).concat());
        }
        let places = Memory { has_places: true, ..ALL };
        assert_eq!((floor(&state, 2, places), floor(&state, 2, ALL)), (Some(0), None));
        assert_eq!(floor(state.get(..state.len() - 1).unwrap(), 2, places), None);
    }

    #[test]
    fn a_summary_is_that_of_the_last_token() {
        let beginning = [MAGIC, 0].map(u32::to_le_bytes).concat();
        let summary = |cells: u32, position: u32| [cells, position, 0].map(u32::to_le_bytes).concat();
        let alone = |cells, position| [beginning.clone(), summary(cells, position)].concat();
        assert_eq!(
            (floor(&alone(1, 5), 6, RECURRENT), is_checkpoint(&alone(1, 5), 6, RECURRENT)),
            (Some(6), true)
        );
        for (cells, position) in [(1, 4), (1, 6), (0, 5), (2, 5)] {
            assert_eq!(floor(&alone(cells, position), 6, RECURRENT), None, "{cells}, {position}");
        }
        let hybrid = |position| [beginning.clone(), cache(0..6, false), summary(1, position)].concat();
        assert_eq!((floor(&hybrid(5), 6, HYBRID), floor(&hybrid(3), 6, HYBRID)), (Some(6), None));
        let windowed = [beginning.clone(), cache(2..6, false), summary(1, 5)].concat();
        let both = Memory { caches: 2, has_summary: true, has_places: false };
        let checks = [6, 5].map(|len| is_checkpoint(&windowed, len, both));
        assert_eq!((checks, is_checkpoint(&alone(1, 5), 6, both)), ([true, false], false));
        for len in 0..hybrid(5).len() {
            assert_eq!(floor(hybrid(5).get(..len).unwrap(), 6, HYBRID), None, "cut to {len} bytes");
        }
    }

    #[test]
    fn a_state_and_its_checkpoint_are_saved_as_one() {
        let whole = with_checkpoint(b"state", Some((3, b"earlier")));
        assert_eq!(parts(&whole), Some((&b"state"[..], Some((3, &b"earlier"[..])))));
        assert_eq!(parts(&with_checkpoint(b"state", None)), Some((&b"state"[..], None)));
        assert_eq!((parts(&[1; 16]), parts(b"short")), (None, None));
    }

    #[test]
    fn the_pinned_version_is_the_manifest_s() {
        let manifest =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml")).unwrap();
        let pinned = format!("llama-cpp-sys-2 = {{ version = \"={LLAMA_CPP}\"");
        assert!(manifest.contains(&pinned), "Cargo.toml pins another version than {LLAMA_CPP}");
    }
}
