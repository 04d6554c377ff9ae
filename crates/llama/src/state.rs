//! The state of a sequence as llama.cpp writes it. This module checks it before it is saved, and before llama.cpp reads it.
//!
//! Invariant: a state that passes [`check`] describes the tokens at positions 0 to `len` and no others, one sequence
//! each. llama.cpp checks the rest itself, against the shapes of its cache. A state that it refuses is not restored.

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

/// Whether a state has the layout of `len` tokens in a plain KV cache.
pub(crate) fn check(state: &[u8], len: usize) -> bool {
    cells(state).is_some_and(|cells| cells == len)
}

/// The number of cells in a state. The cells have to hold the positions from 0 on, each once. Where several sequences share
/// the cells of a context, they come in any order.
fn cells(state: &[u8]) -> Option<usize> {
    let mut rest = state;
    let mut next = || {
        let (number, behind) = rest.split_first_chunk::<4>()?;
        rest = behind;
        Some(u32::from_le_bytes(*number))
    };
    if next()? != MAGIC {
        return None;
    }
    let _sequence = next()?;
    let streams = next()?;
    // A sequence lies in one stream; the streams in front of it are empty.
    for _ in 0..streams.min(MOST_STREAMS) {
        let cells = next()?;
        if cells == 0 {
            continue;
        }
        let cells = usize::try_from(cells).ok()?;
        if cells > state.len() / CELL {
            return None;
        }
        let mut is_free = vec![true; cells];
        for _ in 0..cells {
            let (position, sequences, _sequence) = (next()?, next()?, next()?);
            let place = is_free.get_mut(usize::try_from(position).ok()?)?;
            if !std::mem::take(place) || sequences != 1 {
                return None;
            }
        }
        return Some(cells);
    }
    None
}

/// Bytes that describe a cell.
const CELL: usize = 12;
/// The most streams that a state may have: more than the sequences of any context of ours.
const MOST_STREAMS: u32 = 256;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

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

    #[test]
    fn the_pinned_version_is_the_manifest_s() {
        let manifest =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml")).unwrap();
        let pinned = format!("llama-cpp-sys-2 = {{ version = \"={LLAMA_CPP}\"");
        assert!(manifest.contains(&pinned), "Cargo.toml pins another version than {LLAMA_CPP}");
    }
}
