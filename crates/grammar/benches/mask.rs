//! What constraining costs per token: masks on first and later visits, the check of one token, and the start.
//!
//! The vocabulary is generated, 150,000 tokens that resemble a byte-level BPE one, so that the numbers can be
//! repeated without any model; ratios to other engines are measured elsewhere, on real vocabularies.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs, reason = "bench")]

use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use toolgate_grammar::{
    Automaton, Expr, Grammar, GrammarBuilder, Limits, Matcher, RuleId, TokenId, TokenKind, Vocabulary,
};

const TOKENS: usize = 150_000;

fn vocabulary() -> Arc<Vocabulary> {
    let mut seen: BTreeSet<Vec<u8>> = BTreeSet::new();
    let mut texts: Vec<Vec<u8>> = Vec::new();
    let mut add = |text: Vec<u8>| {
        if seen.insert(text.clone()) {
            texts.push(text);
        }
        texts.len()
    };
    for byte in 0..=u8::MAX {
        add(vec![byte]);
    }
    for length in 2..=48 {
        for unit in [" ", "\n", "\t", "-", "=", "*", "#", "_"] {
            add(unit.repeat(length).into_bytes());
        }
    }
    for first in "\"'{}[]():;,.<>/\\|&!?+=*-_#$%@^~` \n".chars() {
        for second in "\"'{}[]():;,.<>/\\|&!?+=*-_#$%@^~` \n".chars() {
            add(format!("{first}{second}").into_bytes());
            for third in "\"{}[],: \n".chars() {
                add(format!("{first}{second}{third}").into_bytes());
            }
        }
    }
    for number in 0..1_000 {
        add(number.to_string().into_bytes());
    }
    // A linear congruential generator: the same vocabulary everywhere, without a dependency.
    let mut state = 42u64;
    let mut next = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let syllables = [
        "er", "in", "at", "on", "en", "re", "st", "al", "or", "it", "is", "an", "le", "ar", "de", "ti", "se",
        "co", "ro", "th", "ing", "ion", "ent", "pro", "con", "ver", "able", "get", "set", "name", "file",
        "path", "list", "data", "type", "é", "ü", "ла", "ни", "的", "在", "中",
    ];
    loop {
        let mut word = String::new();
        for _ in 0..=next(4) {
            word.push_str(syllables.get(next(syllables.len())).unwrap());
            if next(6) == 0 {
                word.push(char::from(b'a' + next(26) as u8));
            }
        }
        if next(4) == 0 {
            word = word.get(..1).map_or(word.clone(), |first| first.to_uppercase() + word.get(1..).unwrap());
        }
        match next(12) {
            0..=4 => word.insert(0, ' '),
            5 => word.insert(0, ['"', '_', '.', '/', '('].into_iter().nth(next(5)).unwrap()),
            6 if next(3) == 0 => word.push_str(["\"", "\",", "\":", "(", ".\n"].get(next(5)).unwrap()),
            _ => {}
        }
        if add(word.into_bytes()) >= TOKENS {
            break;
        }
    }
    let tokens = texts.into_iter().map(|text| (text, TokenKind::Text));
    let end = (b"<end>".to_vec(), TokenKind::EndOfGeneration);
    Arc::new(Vocabulary::new(tokens.chain([end])).unwrap())
}

/// `n` tools of three to five parameters in one call grammar, the way a compiled tool set looks.
fn tools(n: usize) -> Grammar {
    let mut grammar = Grammar::builder();
    let (string, integer) = (string_rule(&mut grammar), integer_rule(&mut grammar));
    let boolean = grammar.rule("boolean", Expr::choice([Expr::literal("true"), Expr::literal("false")]));
    let bounded = Expr::sequence([
        Expr::literal("\""),
        Expr::not_class([('\0', '\u{1f}'), ('"', '"'), ('\\', '\\')]).repeat(1, Some(60)),
        Expr::literal("\""),
    ]);
    let bounded = grammar.rule("bounded", bounded);
    let list = Expr::sequence([
        Expr::literal("["),
        Expr::sequence([
            Expr::Rule(string),
            Expr::sequence([Expr::literal(", "), Expr::Rule(string)]).repeat(0, Some(9)),
        ])
        .optional(),
        Expr::literal("]"),
    ]);
    let list = grammar.rule("list", list);
    let kinds = [string, bounded, integer, boolean, list];
    let calls: Vec<Expr> = (0..n)
        .map(|tool| {
            let mut members =
                vec![Expr::literal(format!("{{\"name\": \"tool_{tool}\", \"arguments\": {{\"path\": "))];
            members.push(Expr::Rule(string));
            for parameter in 0..2 + tool % 3 {
                let kind = kinds.iter().cycle().nth(tool + parameter).copied().unwrap();
                let key = Expr::literal(format!(", \"parameter_{parameter}\": "));
                members.push(Expr::sequence([key, Expr::Rule(kind)]).optional());
            }
            members.push(Expr::literal("}}"));
            Expr::Rule(grammar.rule(&format!("call-{tool}"), Expr::sequence(members)))
        })
        .collect();
    let call = grammar.rule("call", Expr::choice(calls));
    let turn =
        Expr::sequence([Expr::literal("<tool_call>\n"), Expr::Rule(call), Expr::literal("\n</tool_call>")]);
    let root = grammar.rule("root", turn.repeat(1, Some(8)));
    grammar.build(root).unwrap()
}

fn string_rule(grammar: &mut GrammarBuilder) -> RuleId {
    let hex = Expr::class([('0', '9'), ('a', 'f'), ('A', 'F')]);
    let escape = Expr::choice([
        Expr::class([
            ('"', '"'),
            ('\\', '\\'),
            ('/', '/'),
            ('b', 'b'),
            ('f', 'f'),
            ('n', 'n'),
            ('r', 'r'),
            ('t', 't'),
        ]),
        Expr::sequence([Expr::literal("u"), hex.repeat(4, Some(4))]),
    ]);
    let plain = Expr::not_class([('\0', '\u{1f}'), ('"', '"'), ('\\', '\\')]);
    let character = Expr::choice([plain, Expr::sequence([Expr::literal("\\"), escape])]);
    let string = Expr::sequence([Expr::literal("\""), character.repeat(0, None), Expr::literal("\"")]);
    grammar.rule("string", string)
}

fn integer_rule(grammar: &mut GrammarBuilder) -> RuleId {
    let digits = Expr::class([('0', '9')]).repeat(0, Some(17));
    let positive = Expr::sequence([Expr::class([('1', '9')]), digits]);
    let integer =
        Expr::choice([Expr::literal("0"), Expr::sequence([Expr::literal("-").optional(), positive])]);
    grammar.rule("integer", integer)
}

const CALL: &str = "<tool_call>\n{\"name\": \"tool_7\", \"arguments\": {\"path\": \"src/engine/data list.rs\", \
                    \"parameter_0\": 120}}\n</tool_call>";

/// The text as tokens, always the longest that fits.
fn tokens(vocabulary: &Vocabulary, text: &str) -> Vec<TokenId> {
    let mut tokens = Vec::new();
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let fits = |token: &TokenId| rest.starts_with(vocabulary.bytes(*token));
        let longest = vocabulary.beginning(rest.get(..1).unwrap()).into_iter().filter(fits);
        let token = longest.max_by_key(|&token| vocabulary.bytes(token).len()).unwrap();
        tokens.push(token);
        rest = rest.get(vocabulary.bytes(token).len()..).unwrap();
    }
    tokens
}

fn replay(matcher: &mut Matcher, trace: &[TokenId]) {
    for &token in trace {
        black_box(matcher.mask().unwrap());
        matcher.accept(token).unwrap();
    }
}

fn benches(criterion: &mut Criterion) {
    let vocabulary = vocabulary();
    let new =
        |grammar: &Grammar| Automaton::new(grammar, Arc::clone(&vocabulary), &Limits::default()).unwrap();
    let trace = tokens(&vocabulary, CALL);
    for n in [10, 100, 500] {
        let grammar = tools(n);
        let mut group = criterion.benchmark_group(format!("tools/{n}"));
        group.sample_size(20);
        group.bench_function("ready", |bench| {
            bench.iter(|| new(&grammar).matcher().mask().unwrap().clone());
        });
        group.bench_function(format!("trace of {} tokens, first visit", trace.len()), |bench| {
            bench.iter_batched(|| new(&grammar), |a| replay(&mut a.matcher(), &trace), BatchSize::LargeInput);
        });
        let automaton = new(&grammar);
        replay(&mut automaton.matcher(), &trace);
        group.bench_function(format!("trace of {} tokens, visited", trace.len()), |bench| {
            bench.iter(|| replay(&mut automaton.matcher(), &trace));
        });
        group.finish();
    }
    let automaton = new(&tools(100));
    let mut matcher = automaton.matcher();
    matcher.accept_bytes(CALL.split("data").next().unwrap().as_bytes()).unwrap();
    let (inside, outside) =
        (tokens(&vocabulary, " list")[0..1].to_vec(), tokens(&vocabulary, "\n")[0..1].to_vec());
    let mut group = criterion.benchmark_group("inside a string");
    group.bench_function("mask", |bench| bench.iter(|| black_box(matcher.mask().unwrap()).contains(0)));
    group.bench_function("check, allowed", |bench| bench.iter(|| matcher.allows(inside[0]).unwrap()));
    group.bench_function("check, refused", |bench| bench.iter(|| matcher.allows(outside[0]).unwrap()));
    group.bench_function("clone", |bench| bench.iter(|| matcher.clone()));
    group.finish();
}

criterion_group!(mask, benches);
criterion_main!(mask);
