//! llama.cpp behind [`toolgate_infer::Backend`]: the only package that names llama-cpp-2.
//!
//! ```text
//! GGUF file ─ gguf::check ─▶ Model::load ─▶ Model { vocabulary, templates, metadata }
//!                                             ├─ Model::backend ─▶ LlamaBackend (context and KV cache)
//!                                             ├─ Model::backends ─▶ several slots of one context, evaluated in one batch
//!                                             └─ LlamaGrammar (llama.cpp's own grammar sampler, as a reference)
//! ```
//!
//! This package checks files before llama.cpp sees them: llama.cpp's own messages go to a log, and some of its failures
//! abort the process. The log goes to `tracing` (target `llama-cpp-2`). It is silent without a subscriber.
//!
//! ```no_run
//! use toolgate_infer::{DecodeOptions, Free, Sampler, Session, decode};
//! use toolgate_llama::{ContextOptions, Model, ModelOptions};
//!
//! let model = Model::load("qwen2.5-coder-0.5b.gguf", ModelOptions::default())?;
//! let mut session = Session::new(model.backend(&ContextOptions::default())?);
//! session.set_prompt_text("<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n")?;
//! let mut free = Free::new(model.vocabulary().clone());
//! let options = DecodeOptions::default();
//! let decoded = decode(&mut session, &mut free, &mut Sampler::greedy(), &options, &mut |_| std::ops::ControlFlow::Continue(()))?;
//! assert!(decoded.stop.is_whole());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adapter;
mod backend;
mod cells;
mod context;
mod costs;
mod devices;
mod error;
mod gguf;
mod grammar;
mod kernels;
mod load;
mod marks;
mod memory;
mod model;
mod processor;
mod scheduler;
mod state;
mod texts;
mod threads;
mod tokenizer;

pub use backend::LlamaBackend;
pub use context::ContextOptions;
pub use devices::{DeviceKind, FoundDevice, choose_device, device_features, devices};
pub use error::{Error, Kind};
pub use grammar::LlamaGrammar;
pub use model::{Load, Model, ModelOptions};
pub use processor::{Instructions, instructions, machine};
pub use threads::physical_cores;
pub use tokenizer::Tokenizer;
pub use toolgate_infer::{
    Adapter, Attention, CacheType, Device, FlashAttention, GpuLayers, Numerics, Placement, RopeScaling,
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
