//! Loads a file through llama.cpp's C interface, for the one parameter llama-cpp-2 does not offer: no repacking.
//!
//! Invariant: what comes out is the pointer llama-cpp-2 would have made itself, owned by its type.
//!
//! At load, llama.cpp copies weights into a layout of its own for wide batches. On x86-64 that layout gains nothing
//! over its newer tiled kernels (measured on AVX2: 24 ms a prompt token with and without for a 0.5 B model, 59 and 52
//! for 1.5 B), costs a second copy of the weights in memory, and makes a batch of four or more tokens give other
//! low bits than the same tokens one by one. Elsewhere it is the fast path, and stays.

use std::ffi::{CString, c_void};
use std::path::Path;

use llama_cpp_2::llama_backend::LlamaBackend as LlamaCpp;
use llama_cpp_2::model::LlamaModel;

use crate::Load;

/// Loads `path`; `progress` gets the part loaded so far and says whether to go on. None where llama.cpp gives up.
#[expect(unsafe_code, reason = "llama-cpp-2 has no setter for `use_extra_bufts`")]
pub(crate) fn load_file(
    _running: &LlamaCpp,
    path: &Path,
    load: Load,
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
        params.use_extra_bufts = !cfg!(target_arch = "x86_64");
        params.progress_callback = Some(report);
        params.progress_callback_user_data = (&raw mut progress).cast();
        llama_cpp_sys_2::llama_model_load_from_file(path.as_ptr(), params)
    };
    let model = std::ptr::NonNull::new(model)?;
    // SAFETY: in the pinned llama-cpp-2, `LlamaModel` is a transparent wrapper of a non-null `llama_model` pointer
    // that it owns; this one is not null, was just made, and is given to no one else.
    Some(unsafe { std::mem::transmute::<std::ptr::NonNull<llama_cpp_sys_2::llama_model>, LlamaModel>(model) })
}
