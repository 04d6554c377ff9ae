//! Loads a file through llama.cpp's C interface, since llama-cpp-2 cannot choose whether weights are repacked.
//!
//! Invariant: the result is the pointer that llama-cpp-2 would have made itself, owned by its type.
//!
//! At load, llama.cpp can copy weights into a layout of its own. On x86-64 it does so for few types. Of these, common files
//! use Q4_K. Measured on two cores with a 1.5 B model of it, in milliseconds:
//!
//! | | AVX2, as in the file | AVX2, repacked | AVX-512, as in the file | AVX-512, repacked |
//! |---|---|---|---|---|
//! | one token | 92 | 71 | 91 | 72 |
//! | four | 204 | 151 | 198 | 129 |
//! | sixteen | 481 | 402 | 350 | 329 |
//! | a token of a prompt | 15.6 | 15.2 | 9.2 | 11.7 |
//!
//! Repacking has two costs. The weights are read instead of mapped, since both would hold them twice; that takes half a
//! second and more for each gigabyte. From four tokens on, a batch gives other low bits than the same tokens one by one; with
//! weights as in the file, from eight on. A file with few weights of this type gains nothing, so it is mapped. On other
//! processors repacking is llama.cpp's fast path for most types, and stays on.

use std::ffi::{CString, c_void};
use std::path::Path;

use llama_cpp_2::llama_backend::LlamaBackend as LlamaCpp;
use llama_cpp_2::model::LlamaModel;

use crate::Load;
use crate::gguf::Weights;

/// How the weights of a model lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// As in the file; the file is mapped.
    Mapped,
    /// Some types are rearranged for this processor, and all weights are read.
    Repacked,
}

impl Layout {
    /// The faster layout for these weights on this processor.
    pub(crate) fn of(weights: Weights) -> Self {
        let gains = cfg!(target_arch = "x86_64") && weights.q4_k > weights.bytes / 2;
        if gains { Self::Repacked } else { Self::Mapped }
    }

    /// The most tokens of a batch whose logits have the bits of single tokens. On x86-64 llama.cpp's matrix kernels for several
    /// tokens take over at four in its own layout, and at eight in the file's. For other processors nothing is known, so
    /// this promises nothing.
    pub(crate) fn exact_len(self) -> usize {
        match self {
            _ if cfg!(not(target_arch = "x86_64")) => 1,
            Self::Mapped => 7,
            Self::Repacked => 3,
        }
    }

    /// The change of the difference of two logits by wider batches within a turn. None where wider batches gain less than it
    /// costs to confirm a choice. Measured with a 1.5 B model over 218 choices, between the likeliest token and the next:
    /// median 0.06, 99th percentile 0.24, maximum 0.28. Twice this bound would be safer, and would repeat three times as many
    /// choices. Weights as in the file allow batches of seven; wider ones gain little.
    pub(crate) fn noise(self) -> Option<f32> {
        match self {
            Self::Repacked if cfg!(target_arch = "x86_64") => Some(0.3),
            Self::Repacked | Self::Mapped => None,
        }
    }
}

/// Loads `path`. `progress` gets the part loaded so far, and returns whether to go on. None where llama.cpp gives up.
#[expect(unsafe_code, reason = "llama-cpp-2 has no setters for `use_extra_bufts` and `load_mode`")]
pub(crate) fn load_file(
    _running: &LlamaCpp,
    path: &Path,
    load: Load,
    layout: Layout,
    progress: &mut dyn FnMut(f32) -> bool,
) -> Option<LlamaModel> {
    unsafe extern "C" fn report(part: f32, data: *mut c_void) -> bool {
        // SAFETY: `data` is the `progress` below, borrowed for as long as the load that calls this lasts.
        let progress = unsafe { &mut *data.cast::<&mut dyn FnMut(f32) -> bool>() };
        progress(part)
    }

    let path = CString::new(path.to_str()?).ok()?;
    let mut progress = progress;
    // SAFETY: llama.cpp is running, which `_running` proves; the parameters are its own defaults with fields set to
    // values of their types; path and progress outlive the call, which keeps neither.
    let model = unsafe {
        let mut params = llama_cpp_sys_2::llama_model_default_params();
        params.vocab_only = load == Load::Vocabulary;
        params.use_extra_bufts = layout == Layout::Repacked || !cfg!(target_arch = "x86_64");
        if layout == Layout::Repacked {
            params.load_mode = llama_cpp_sys_2::LLAMA_LOAD_MODE_NONE;
        }
        params.progress_callback = Some(report);
        params.progress_callback_user_data = (&raw mut progress).cast();
        llama_cpp_sys_2::llama_model_load_from_file(path.as_ptr(), params)
    };
    let model = std::ptr::NonNull::new(model)?;
    // SAFETY: in the pinned llama-cpp-2, `LlamaModel` is a transparent wrapper of a non-null `llama_model` pointer
    // that it owns; this one is not null, was just made, and is given to no one else.
    Some(unsafe { std::mem::transmute::<std::ptr::NonNull<llama_cpp_sys_2::llama_model>, LlamaModel>(model) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_repacked_where_most_of_them_gain() {
        // The files of Qwen2.5-Coder as Q4_K_M: rows of the 0.5 B model are too short for blocks of 256 weights.
        let of = |q4_k, bytes| Layout::of(Weights { bytes, q4_k });
        assert_eq!(of(28_000_000, 491_000_000), Layout::Mapped);
        assert_eq!(of(0, 0), Layout::Mapped);
        if cfg!(target_arch = "x86_64") {
            assert_eq!(of(666_000_000, 1_117_000_000), Layout::Repacked);
            assert!(Layout::Repacked.exact_len() < Layout::Mapped.exact_len());
        }
    }
}
