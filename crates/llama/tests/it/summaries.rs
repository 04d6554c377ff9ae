//! Models whose layers keep a summary of the tokens, alone or beside layers with attention: they go back to checkpoints.
//!
//! The files are written here: small models of four architectures, with random weights. What a memory gives back does not
//! depend on what the weights mean.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;

use toolgate_infer::{Backend, Cancel, KvCache, Numerics, Rows, Session};
use toolgate_llama::{ContextOptions, LlamaBackend, Model, ModelOptions};

use crate::gguf::Gguf;
use crate::support::distance;

const WIDTH: u64 = 32;
const HEADS: u32 = 4;
const INNER: u64 = 2 * WIDTH;
const STATE: u64 = 16;
const LAYERS: u64 = 3;
/// The tokens that layers with a window see.
const WINDOW: u32 = 64;
/// Three marks and the bytes.
const TOKENS: u64 = 3 + 256;

#[derive(Clone, Copy, Debug)]
enum Architecture {
    /// Recurrent layers alone.
    Mamba2,
    /// The same, beside one with attention.
    GraniteHybrid,
    /// Short convolutions, beside one with attention.
    Lfm2,
    /// The same, of which the one with attention sees the last tokens alone.
    Lfm2Windowed,
    /// Attention alone, with places in pictures: no summary, and states of another form.
    Qwen2Vl,
}

use Architecture::{GraniteHybrid, Lfm2, Lfm2Windowed, Mamba2, Qwen2Vl};

/// Those with a summary.
const ALL: [Architecture; 4] = [Mamba2, GraniteHybrid, Lfm2, Lfm2Windowed];

impl Architecture {
    fn name(self) -> &'static str {
        match self {
            Mamba2 => "mamba2",
            GraniteHybrid => "granitehybrid",
            Lfm2 | Lfm2Windowed => "lfm2",
            Qwen2Vl => "qwen2vl",
        }
    }

    fn write(self, directory: &Path) -> PathBuf {
        let mut file = Gguf::default();
        let name = self.name();
        file.text("general.architecture", name);
        let mut number = |key: &str, value: u32| file.number(&format!("{name}.{key}"), value);
        number("context_length", 4_096);
        number("embedding_length", WIDTH as u32);
        number("block_count", LAYERS as u32);
        number("feed_forward_length", 48);
        number("attention.head_count", HEADS);
        number("ssm.conv_kernel", 4);
        number("ssm.inner_size", INNER as u32);
        number("ssm.state_size", STATE as u32);
        number("ssm.time_step_rank", HEADS);
        number("ssm.group_count", 1);
        number("shortconv.l_cache", 3);
        if matches!(self, Lfm2Windowed) {
            number("attention.sliding_window", WINDOW);
        }
        // A layer without heads for keys and values is recurrent.
        let heads = if matches!(self, Qwen2Vl) { [2, 2, 2] } else { [0, 2, 0] };
        file.numbers(&format!("{name}.attention.head_count_kv"), &heads);
        file.integers(&format!("{name}.rope.dimension_sections"), &[1, 1, 2, 0]);
        file.float(&format!("{name}.attention.layer_norm_rms_epsilon"), 1e-5);
        vocabulary(&mut file);
        file.random("token_embd.weight", &[WIDTH, TOKENS]);
        let last = if name == "lfm2" { "token_embd_norm.weight" } else { "output_norm.weight" };
        file.constant(last, &[WIDTH], 1.0);
        for layer in 0..LAYERS {
            self.layer(&mut file, &format!("blk.{layer}"), layer != 1 && !matches!(self, Qwen2Vl));
        }
        file.write(&directory.join(format!("{self:?}.gguf")))
    }

    fn layer(self, file: &mut Gguf, layer: &str, is_recurrent: bool) {
        let name = |name: &str| format!("{layer}.{name}");
        file.constant(&name("attn_norm.weight"), &[WIDTH], 1.0);
        match (self, is_recurrent) {
            (Mamba2, _) | (GraniteHybrid, true) => {
                let convolved = INNER + 2 * STATE;
                file.random(&name("ssm_in.weight"), &[WIDTH, INNER + convolved + u64::from(HEADS)]);
                file.random(&name("ssm_conv1d.weight"), &[4, convolved]);
                file.random(&name("ssm_conv1d.bias"), &[convolved]);
                file.random(&name("ssm_dt.bias"), &[u64::from(HEADS)]);
                file.constant(&name("ssm_a"), &[1, u64::from(HEADS)], -0.5);
                file.constant(&name("ssm_d"), &[1, u64::from(HEADS)], 1.0);
                file.constant(&name("ssm_norm.weight"), &[INNER, 1], 1.0);
                file.random(&name("ssm_out.weight"), &[INNER, WIDTH]);
            }
            (Lfm2 | Lfm2Windowed, true) => {
                file.random(&name("shortconv.conv.weight"), &[3, WIDTH]);
                file.random(&name("shortconv.in_proj.weight"), &[WIDTH, 3 * WIDTH]);
                file.random(&name("shortconv.out_proj.weight"), &[WIDTH, WIDTH]);
            }
            (Qwen2Vl, _) | (_, false) => {
                let head = WIDTH / u64::from(HEADS);
                file.random(&name("attn_q.weight"), &[WIDTH, WIDTH]);
                file.random(&name("attn_k.weight"), &[WIDTH, 2 * head]);
                file.random(&name("attn_v.weight"), &[WIDTH, 2 * head]);
                file.random(&name("attn_output.weight"), &[WIDTH, WIDTH]);
                if self.name() == "lfm2" {
                    file.constant(&name("attn_q_norm.weight"), &[head], 1.0);
                    file.constant(&name("attn_k_norm.weight"), &[head], 1.0);
                }
            }
        }
        if !matches!(self, Mamba2) {
            file.constant(&name("ffn_norm.weight"), &[WIDTH], 1.0);
            file.random(&name("ffn_gate.weight"), &[WIDTH, 48]);
            file.random(&name("ffn_down.weight"), &[48, WIDTH]);
            file.random(&name("ffn_up.weight"), &[WIDTH, 48]);
        }
    }
}

fn vocabulary(file: &mut Gguf) {
    let marks = ["<unk>", "<s>", "</s>"].map(str::to_owned);
    let texts: Vec<String> =
        marks.into_iter().chain((0..256).map(|byte| format!("<0x{byte:02X}>"))).collect();
    // Unknown, two of control, and bytes.
    let kinds: Vec<i32> = [2, 3, 3].into_iter().chain([6; 256]).collect();
    file.text("tokenizer.ggml.model", "llama");
    file.texts("tokenizer.ggml.tokens", &texts);
    file.floats("tokenizer.ggml.scores", &vec![0.0; texts.len()]);
    file.integers("tokenizer.ggml.token_type", &kinds);
    file.number("tokenizer.ggml.bos_token_id", 1);
    file.number("tokenizer.ggml.eos_token_id", 2);
    file.number("tokenizer.ggml.unknown_token_id", 0);
}

fn models() -> impl Iterator<Item = (Architecture, Model)> {
    ALL.into_iter().map(load)
}

fn load(architecture: Architecture) -> (Architecture, Model) {
    let directory = tempfile::tempdir().unwrap();
    let path = architecture.write(directory.path());
    (architecture, Model::load(&path, ModelOptions::default()).unwrap())
}

fn options() -> ContextOptions {
    ContextOptions { context: Some(2_048), batch: 16, threads: Some(1), ..ContextOptions::default() }
}

fn session(model: &Model) -> Session<LlamaBackend> {
    Session::new(model.backend(&options()).unwrap())
}

/// Tokens that depend on a seed alone.
fn tokens(seed: u32, len: usize) -> Vec<u32> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        3 + (state >> 16) % 256
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn set(session: &mut Session<LlamaBackend>, prompt: &[u32]) -> (usize, Vec<f32>) {
    let prefill = session.set_prompt(prompt, 0, &Cancel::default(), &mut |_| ()).unwrap();
    (prefill.cached_tokens, session.logits().unwrap().to_vec())
}

/// More than batches of other lengths change with these models, and far less than another text does.
const NEAR: f32 = 1e-2;

#[test]
fn a_prompt_comes_again_from_the_checkpoint_in_front_of_its_last_token() {
    for (architecture, model) in models() {
        let mut session = session(&model);
        let prompt = tokens(1, 150);
        let (_, first) = set(&mut session, &prompt);
        for token in tokens(2, 20) {
            session.eval(&[token], Rows::Last).unwrap();
        }
        let strange = distance(&first, session.logits().unwrap());
        assert!(strange > 10.0 * NEAR, "{architecture:?}: control: another text is {strange} away");
        let (cached, again) = set(&mut session, &prompt);
        assert!(cached == 149 && again == first, "{architecture:?}: {cached}");
        // In the turn of before another text came, of which the checkpoint knows nothing.
        let longer = [&prompt[..], &tokens(3, 30)].concat();
        let (cached, logits) = set(&mut session, &longer);
        assert!(cached >= 149, "{architecture:?}: {cached}");
        let (_, fresh) = set(&mut self::session(&model), &longer);
        assert!(distance(&logits, &fresh) < NEAR, "{architecture:?}: {}", distance(&logits, &fresh));
    }
}

#[test]
fn what_is_cut_between_checkpoints_is_evaluated_again() {
    for (architecture, model) in models() {
        let mut session = session(&model);
        let prompt = tokens(4, 100);
        set(&mut session, &prompt);
        // In front of the only checkpoint nothing is left.
        assert_eq!(session.held(&prompt[..50]), 0, "{architecture:?}");
        session.truncate(50).unwrap();
        assert_eq!(session.tokens(), [0_u32; 0], "{architecture:?}");
        set(&mut session, &prompt);
        session.checkpoint().unwrap();
        let here = session.tokens().to_vec();
        session.eval(&tokens(5, 6), Rows::None).unwrap();
        let middle = session.tokens().to_vec();
        session.eval(&tokens(6, 6), Rows::None).unwrap();
        assert!(session.rewind(&middle, Rows::Last).unwrap() > 0, "behind the checkpoint");
        assert_eq!(session.tokens(), middle);
        let logits = session.logits().unwrap().to_vec();
        let (_, fresh) = set(&mut self::session(&model), &middle);
        assert!(distance(&logits, &fresh) < NEAR, "{architecture:?}: {}", distance(&logits, &fresh));
        assert_eq!(session.rewind(&here, Rows::None).unwrap(), 0, "{architecture:?}: at the checkpoint");
    }
}

#[test]
fn long_prompts_have_checkpoints_on_their_way() {
    let (_, model) = models().nth(1).unwrap();
    let mut session = session(&model);
    let prompt = tokens(7, 1_300);
    set(&mut session, &prompt);
    assert_eq!((session.held(&prompt[..1_200]), session.backend().kept(0, 1_200)), (1_024, 1_024));
    session.truncate(1_200).unwrap();
    assert_eq!(session.tokens().len(), 1_024);
    let other = [&prompt[..1_200], &tokens(8, 10)].concat();
    let (cached, logits) = set(&mut session, &other);
    let (_, fresh) = set(&mut self::session(&model), &other);
    assert!(cached == 1_024 && distance(&logits, &fresh) < NEAR);
}

#[test]
fn a_saved_state_gives_the_bits_and_can_be_cut_to_its_checkpoint() {
    for (architecture, model) in models().chain([load(Qwen2Vl)]) {
        let mut first = session(&model);
        let prompt = tokens(9, 120);
        let (_, whole) = set(&mut first, &prompt);
        let state = first.save().unwrap().unwrap();
        let next = tokens(10, 1);
        first.eval(&next, Rows::Last).unwrap();
        let mut later = session(&model);
        assert!(later.restore(&prompt, &state).unwrap(), "{architecture:?}");
        later.eval(&next, Rows::Last).unwrap();
        assert!(first.logits().unwrap() == later.logits().unwrap(), "{architecture:?}");
        assert!(later.restore(&prompt, &state).unwrap());
        let (cached, again) = set(&mut later, &prompt);
        assert!(cached == 119 && distance(&again, &whole) < NEAR, "{architecture:?}: {cached}");
        for len in [0, 7, 16, state.len() / 4] {
            assert!(!later.restore(&prompt, &state[..len]).unwrap(), "{architecture:?}: cut to {len} bytes");
            assert_eq!(later.tokens(), [0_u32; 0]);
        }
        assert!(!later.restore(&prompt[..119], &state).unwrap(), "{architecture:?}: of other tokens");
    }
}

#[test]
fn prompts_that_take_turns_are_evaluated_once() {
    for (architecture, model) in models() {
        let mut session = session(&model).keeping(KvCache::new(64 << 20));
        let prompts = [tokens(11, 100), tokens(12, 90), tokens(13, 80)];
        let first = prompts.each_ref().map(|prompt| set(&mut session, prompt).1);
        for round in 0..2 {
            for (prompt, expected) in prompts.iter().zip(&first) {
                let (cached, logits) = set(&mut session, prompt);
                let is_right = cached == prompt.len() - 1 && logits == *expected;
                assert!(is_right, "{architecture:?}, {round}: {cached}");
            }
        }
    }
}

#[test]
fn conversations_beside_each_other_get_their_own_logits() {
    for (architecture, model) in models() {
        let texts = [tokens(14, 130), tokens(15, 110)];
        let expected = texts.each_ref().map(|text| {
            let mut alone = session(&model);
            [&text[..60], text].map(|part| set(&mut alone, part).1)
        });
        let conversations = NonZeroUsize::new(2).unwrap();
        let backends = model.backends(&options(), conversations).unwrap();
        thread::scope(|scope| {
            for (backend, (text, expected)) in backends.into_iter().zip(texts.iter().zip(&expected)) {
                scope.spawn(move || {
                    let mut session = Session::new(backend);
                    for _ in 0..3 {
                        for (part, expected) in [&text[..60], text].into_iter().zip(expected) {
                            let (_, logits) = set(&mut session, part);
                            let far = distance(&logits, expected);
                            assert!(far < NEAR, "{architecture:?}, {}: {far}", part.len());
                            session.eval(&tokens(16, 3), Rows::None).unwrap();
                        }
                        session.end_turn();
                    }
                });
            }
        });
    }
}

#[test]
fn no_bits_are_promised_for_batches() {
    let (_, model) = models().next().unwrap();
    let backend = model.backend(&options()).unwrap();
    assert_eq!((backend.exact_batch_len(), backend.cuts_anywhere()), (1, false));
    let fast = ContextOptions { numerics: Numerics::Fast, ..options() };
    assert_eq!(model.backend(&fast).unwrap().exact_batch_len(), 16);
}
