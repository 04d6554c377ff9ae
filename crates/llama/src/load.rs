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

use toolgate_infer::Placement;

use crate::Load;
use crate::devices::Place;
use crate::gguf::Weights;

/// The experts of mixtures, by the names of their tensors: `LLM_FFN_EXPS_REGEX` in llama.cpp's common.h.
const EXPERTS: &std::ffi::CStr = c"\\.ffn_(up|down|gate|gate_up)_(ch|)exps";

/// How the weights of a model lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// As in the file; the file is mapped.
    Mapped,
    /// Some types are rearranged for this processor, and all weights are read.
    Repacked,
}

impl Layout {
    /// The faster layout for these weights on this processor. A graphics processor has layouts of its own.
    pub(crate) fn of(weights: Weights, place: &Place) -> Self {
        let is_processor = place.is_processor() && cfg!(target_arch = "x86_64");
        let gains = is_processor && weights.q4_k > weights.bytes / 2;
        if gains { Self::Repacked } else { Self::Mapped }
    }
}

/// Loads `path`, and tells what the model's memory has of a sequence. `progress` gets the part loaded so far, and returns whether to go
/// on. None where llama.cpp gives up.
#[expect(unsafe_code, reason = "llama-cpp-2 has no setters for `use_extra_bufts` and `load_mode`")]
pub(crate) fn load_file(
    _running: &LlamaCpp,
    path: &Path,
    load: Load,
    layout: Layout,
    place: &Place,
    placement: &Placement,
    progress: &mut dyn FnMut(f32) -> bool,
) -> Option<(LlamaModel, Memory)> {
    unsafe extern "C" fn report(part: f32, data: *mut c_void) -> bool {
        // SAFETY: `data` is the `progress` below, borrowed for as long as the load that calls this lasts.
        let progress = unsafe { &mut *data.cast::<&mut dyn FnMut(f32) -> bool>() };
        progress(part)
    }

    let path = CString::new(path.to_str()?).ok()?;
    let mut progress = progress;
    // SAFETY: llama.cpp is running, which `_running` proves; the parameters are its own defaults with fields set to
    // values of their types; the devices are llama.cpp's own, by their numbers, with a null behind them; the shares are as many as it
    // reads, and the overrides end with a null. Path, devices, shares, overrides and progress outlive the call, which keeps none of them.
    let model = unsafe {
        let mut params = llama_cpp_sys_2::llama_model_default_params();
        params.vocab_only = load == Load::Vocabulary;
        let mut devices: Vec<_> =
            place.gpus.iter().map(|gpu| llama_cpp_sys_2::ggml_backend_dev_get(gpu.index)).collect();
        devices.push(std::ptr::null_mut());
        params.devices = devices.as_mut_ptr();
        params.n_gpu_layers = place.layers;
        let mut shares = place.split.clone();
        if !shares.is_empty() {
            // llama.cpp reads as many as it can have devices.
            shares.resize(llama_cpp_sys_2::llama_max_devices().max(shares.len()), 0.0);
            params.tensor_split = shares.as_ptr();
        }
        let in_memory = llama_cpp_sys_2::llama_model_tensor_buft_override {
            pattern: EXPERTS.as_ptr(),
            buft: llama_cpp_sys_2::ggml_backend_cpu_buffer_type(),
        };
        let end = llama_cpp_sys_2::llama_model_tensor_buft_override {
            pattern: std::ptr::null(),
            buft: std::ptr::null_mut(),
        };
        let overrides = [in_memory, end];
        if place.cpu_moe {
            params.tensor_buft_overrides = overrides.as_ptr();
        }
        let is_processor = place.is_processor();
        params.use_extra_bufts =
            layout == Layout::Repacked || (is_processor && !cfg!(target_arch = "x86_64"));
        let is_read = layout == Layout::Repacked || placement.no_mmap;
        match (is_read, placement.mlock) {
            (false, false) => {}
            (false, true) => params.load_mode = llama_cpp_sys_2::LLAMA_LOAD_MODE_MMAP_MLOCK,
            (true, false) => params.load_mode = llama_cpp_sys_2::LLAMA_LOAD_MODE_NONE,
            (true, true) => params.load_mode = llama_cpp_sys_2::LLAMA_LOAD_MODE_MLOCK,
        }
        params.progress_callback = Some(report);
        params.progress_callback_user_data = (&raw mut progress).cast();
        llama_cpp_sys_2::llama_model_load_from_file(path.as_ptr(), params)
    };
    let model = std::ptr::NonNull::new(model)?;
    // SAFETY: in the pinned llama-cpp-2, `LlamaModel` is a transparent wrapper of a non-null `llama_model` pointer
    // that it owns; this one is not null, was just made, and is given to no one else. llama.cpp reads a number of it before.
    let (loaded, window, positions) = unsafe {
        let window = llama_cpp_sys_2::llama_model_n_swa(model.as_ptr());
        let positions = llama_cpp_sys_2::llama_model_rope_type(model.as_ptr());
        let model = std::mem::transmute::<std::ptr::NonNull<llama_cpp_sys_2::llama_model>, LlamaModel>(model);
        (model, window, positions)
    };
    let caches = match () {
        () if loaded.is_recurrent() => 0,
        () if window > 0 => 2,
        () => 1,
    };
    let has_places = [llama_cpp_sys_2::LLAMA_ROPE_TYPE_MROPE, llama_cpp_sys_2::LLAMA_ROPE_TYPE_IMROPE]
        .contains(&positions);
    let memory = Memory { caches, has_summary: loaded.is_recurrent() || loaded.is_hybrid(), has_places };
    Some((loaded, memory))
}

/// What the memory of a model has of the tokens of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Caches of keys and values: two where some layers see the last tokens alone, none where all layers are recurrent.
    pub(crate) caches: usize,
    /// Whether recurrent layers keep a summary. It cannot be cut: there are checkpoints to go back to.
    pub(crate) has_summary: bool,
    /// Whether the cells of caches have a place in a picture beside their position (Qwen2-VL, Qwen3.5).
    pub(crate) has_places: bool,
}

impl Memory {
    /// Whether it has keys and values of each token, and nothing else. Otherwise a saved state cannot be cut anywhere.
    pub(crate) fn has_all(self) -> bool {
        self.caches == 1 && !self.has_summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_repacked_where_most_of_them_gain() {
        // The files of Qwen2.5-Coder as Q4_K_M: rows of the 0.5 B model are too short for blocks of 256 weights.
        let of = |q4_k, bytes| Layout::of(Weights { bytes, q4_k, ..Weights::default() }, &Place::default());
        assert_eq!(of(28_000_000, 491_000_000), Layout::Mapped);
        assert_eq!(of(0, 0), Layout::Mapped);
        if cfg!(target_arch = "x86_64") {
            assert_eq!(of(666_000_000, 1_117_000_000), Layout::Repacked);
        }
    }
}
