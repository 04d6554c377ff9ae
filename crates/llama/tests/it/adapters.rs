//! Adapters and scaled positions, with the smallest model: what they change, and what is refused before llama.cpp sees it.

use std::path::{Path, PathBuf};

use toolgate_infer::{Backend, Session};
use toolgate_llama::{
    Adapter, Attention, ContextOptions, Device, Kind, Model, ModelOptions, Placement, RopeScaling,
};

use crate::support::{distance, file};

const PROMPT: &str = "<|im_start|>user\nName a colour.<|im_end|>\n<|im_start|>assistant\n";
/// The width of the model, which is that of the weights that the adapter adds to.
const WIDTH: usize = 576;
const RANK: usize = 2;

/// What an adapter's file says.
struct File<'a> {
    kind: &'a str,
    architecture: &'a str,
    /// The type number of `adapter.lora.alpha`, and its bytes: 6 is F32.
    alpha: (u32, Vec<u8>),
    width: usize,
    /// The third size of its matrices.
    depth: usize,
    /// The type number of its matrices: 0 is F32.
    matrices: u32,
    /// The weights that it adds to.
    weight: &'a str,
    /// What the second matrix is filled with.
    second: f32,
}

impl Default for File<'_> {
    fn default() -> Self {
        let alpha = (6, 2.0_f32.to_le_bytes().to_vec());
        Self {
            kind: "adapter",
            architecture: "llama",
            alpha,
            width: WIDTH,
            depth: 1,
            matrices: 0,
            weight: "blk.0.attn_q.weight",
            second: 0.5,
        }
    }
}

impl File<'_> {
    /// Writes it as a GGUF (<https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>).
    fn write(&self, directory: &Path, name: &str) -> PathBuf {
        fn text(out: &mut Vec<u8>, text: &str) {
            out.extend((text.len() as u64).to_le_bytes());
            out.extend(text.as_bytes());
        }
        const STRING: u32 = 8;
        let mut out = b"GGUF".to_vec();
        out.extend(3_u32.to_le_bytes());
        out.extend(2_u64.to_le_bytes());
        out.extend(4_u64.to_le_bytes());
        for (key, value) in [
            ("general.type", self.kind),
            ("general.architecture", self.architecture),
            ("adapter.type", "lora"),
        ] {
            text(&mut out, key);
            out.extend(STRING.to_le_bytes());
            text(&mut out, value);
        }
        text(&mut out, "adapter.lora.alpha");
        out.extend(self.alpha.0.to_le_bytes());
        out.extend(&self.alpha.1);
        let numbers = self.width * RANK * self.depth;
        for (name, sizes, offset) in
            [("a", [self.width, RANK, self.depth], 0), ("b", [RANK, self.width, self.depth], numbers * 4)]
        {
            text(&mut out, &format!("{}.lora_{name}", self.weight));
            out.extend(3_u32.to_le_bytes());
            sizes.iter().for_each(|size| out.extend((*size as u64).to_le_bytes()));
            out.extend(self.matrices.to_le_bytes());
            out.extend((offset as u64).to_le_bytes());
        }
        out.resize(out.len().div_ceil(32) * 32, 0);
        for at in 0..numbers {
            out.extend(((at % 7) as f32 / 7.0 - 0.4).to_le_bytes());
        }
        for at in 0..numbers {
            out.extend((self.second * ((at % 5) as f32 / 5.0 - 0.4)).to_le_bytes());
        }
        let path = directory.join(name);
        std::fs::write(&path, out).unwrap();
        path
    }
}

fn load(adapter: Option<Adapter>) -> Option<Result<Model, toolgate_llama::Error>> {
    let placement = Placement { device: Device::Cpu, adapter, ..Placement::default() };
    let options = ModelOptions { placement, ..ModelOptions::default() };
    Some(Model::load(file("smollm2-135m")?, options))
}

fn with(path: &Path, scale: f32) -> Option<Model> {
    Some(load(Some(Adapter { path: path.to_owned(), scale }))?.unwrap())
}

/// The logits behind the prompt, and the key of saved states.
fn told(model: &Model, rope: Option<RopeScaling>) -> (Vec<f32>, Option<String>) {
    let attention = Attention { rope, ..Attention::default() };
    let options =
        ContextOptions { context: Some(256), threads: Some(1), attention, ..ContextOptions::default() };
    let mut session = Session::new(model.backend(&options).unwrap());
    session.set_prompt_text(PROMPT).unwrap();
    (session.logits().unwrap().to_vec(), session.backend().state_key())
}

#[test]
fn an_adapter_changes_logits_by_its_matrices_and_its_scale_alone() {
    let directory = tempfile::tempdir().unwrap();
    let zero = File { second: 0.0, ..File::default() }.write(directory.path(), "zero.gguf");
    let path = File::default().write(directory.path(), "adapter.gguf");
    let Some(plain) = load(None) else { return };
    let plain = told(&plain.unwrap(), None);
    let adapted = |path, scale| told(&with(path, scale).unwrap(), None);
    let (nothing, whole, half, off) =
        (adapted(&zero, 1.0), adapted(&path, 1.0), adapted(&path, 0.5), adapted(&path, 0.0));
    // The sizes of batches differ, and with them low bits.
    const LOW: f32 = 0.3;
    assert!(distance(&plain.0, &nothing.0) < LOW && distance(&plain.0, &off.0) < LOW);
    assert!(distance(&plain.0, &whole.0) > 1.0, "{}", distance(&plain.0, &whole.0));
    assert!(distance(&half.0, &whole.0) > LOW && distance(&half.0, &plain.0) > LOW);
    // States of one are not for another.
    let keys = [&plain, &nothing, &whole, &half, &off].map(|(_, key)| key.clone().unwrap());
    let different: std::collections::BTreeSet<_> = keys.iter().collect();
    assert_eq!(different.len(), keys.len(), "{keys:#?}");
}

#[test]
fn what_is_no_adapter_of_the_model_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, file: File<'_>| file.write(directory.path(), name);
    let cases = [
        (write("model.gguf", File { kind: "model", ..File::default() }), "not an adapter"),
        (
            write("other.gguf", File { architecture: "qwen2", ..File::default() }),
            "was not made for the model",
        ),
        (write("wide.gguf", File { width: 640, ..File::default() }), "was not made for the model"),
        (
            write("odd.gguf", File { matrices: 24, ..File::default() }),
            "is not of the types F32, F16, BF16 and Q8_0",
        ),
        // llama.cpp would abort on these. The last layer of this model shares the weights of the first.
        (
            write("tied.gguf", File { weight: "token_embd.weight", ..File::default() }),
            "has a shape that this model has no place for",
        ),
        (
            write("deep.gguf", File { depth: 2, ..File::default() }),
            "has a shape that this model has no place for",
        ),
        (
            write("text.gguf", File { alpha: (4, 2_u32.to_le_bytes().to_vec()), ..File::default() }),
            "adapter.lora.alpha has a value of the wrong type",
        ),
        (directory.path().join("none.gguf"), "no such adapter file"),
    ];
    for (path, expected) in cases {
        let adapter = Adapter { path: path.clone(), scale: 1.0 };
        let Some(loaded) = load(Some(adapter)) else { return };
        let error = loaded.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(error.path(), Some(path.as_path()));
        assert!(matches!(error.kind(), Kind::Invalid | Kind::NotFound), "{error:?}");
    }
}

#[test]
fn scaled_positions_reach_further_and_change_logits() {
    let Some(model) = load(None) else { return };
    let model = model.unwrap();
    let (plain, _) = told(&model, None);
    let (same, _) = told(&model, Some(RopeScaling::None));
    assert!(distance(&plain, &same) < 0.3, "the file has no scaling of its own");
    for scaling in [RopeScaling::Linear(4.0), RopeScaling::Yarn(4.0)] {
        let (scaled, key) = told(&model, Some(scaling));
        assert!(distance(&plain, &scaled) > 0.5, "{scaling}: {}", distance(&plain, &scaled));
        assert!(key.unwrap().contains("4.0"), "states of one are not for another");
        let attention = Attention { rope: Some(scaling), ..Attention::default() };
        let options = ContextOptions { context: Some(256), attention, ..ContextOptions::default() };
        let trained = model.backend(&options).unwrap().footprint().trained;
        assert_eq!(trained, Some(4 * model.trained_context()));
    }
}
