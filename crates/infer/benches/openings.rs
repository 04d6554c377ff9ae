//! What it costs to ask, before each token of a text, whether the model would rather begin a call: a text of a hundred tokens, written
//! with and without that, over a vocabulary of 150,000 tokens. The model is scripted and nothing is guessed ahead, so that little else
//! takes the time.
#![allow(missing_docs, clippy::unwrap_used, reason = "a bench")]

use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use toolgate_infer::scripted::Scripted;
use toolgate_infer::{
    DecodeOptions, Drafting, Extent, Free, OpeningTexts, Openings, Sampler, Session, TokenKind, Vocabulary,
    Watch, decode,
};

/// Tokens of the text.
const TOKENS: usize = 100;

fn vocabulary() -> Arc<Vocabulary> {
    let bytes = (0..=255_u8).map(|byte| vec![byte]);
    let words = (0..150_000).map(|n| format!(" w{n}").into_bytes());
    let entries = bytes.chain(words).map(|bytes| (bytes, TokenKind::Text));
    Arc::new(Vocabulary::new(entries.chain([(b"<tool_call>".to_vec(), TokenKind::Special)])).unwrap())
}

fn text_with_openings(c: &mut Criterion) {
    let vocabulary = vocabulary();
    let texts = OpeningTexts { calls: &["<tool_call>"], extent: Extent::Whole, ..OpeningTexts::default() };
    let openings = Openings::of(&vocabulary, &texts);
    let mut group = c.benchmark_group("text");
    group.throughput(Throughput::Elements(TOKENS as u64)).sample_size(20);
    for (name, watch) in [("unwatched", None), ("watched", Some(Watch { openings, threshold: 0.5 }))] {
        let model = Scripted::new(vocabulary.clone()).on("", "a".repeat(TOKENS + 1));
        let mut session = Session::new(model);
        let options =
            DecodeOptions { max_tokens: TOKENS, watch, drafting: Drafting::Off, ..DecodeOptions::default() };
        group.bench_function(name, |b| {
            b.iter(|| {
                session.set_prompt_text("Say it: ").unwrap();
                let mut free = Free::new(vocabulary.clone());
                let show = &mut |_: toolgate_infer::Piece<'_>| ControlFlow::Continue(());
                black_box(decode(&mut session, &mut free, &mut Sampler::greedy(), &options, show).unwrap())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, text_with_openings);
criterion_main!(benches);
