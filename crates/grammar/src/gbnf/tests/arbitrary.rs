//! Arbitrary grammars in the normal form that the constructors make.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::gbnf::{Expr, Grammar, RuleId, TokenMatch, TokenName};

/// Characters that matter to the notation, and any others.
fn character() -> impl Strategy<Value = char> {
    prop_oneof![
        proptest::sample::select(r#"ab"\[]^-!<>(){}|*+?.#:= "#.chars().collect::<Vec<char>>()),
        proptest::sample::select(
            "\n\r\t\0\u{7F}\u{85}\u{300}\u{2028}\u{FEFF}é日😀\u{10FFFF}".chars().collect::<Vec<char>>()
        ),
        any::<char>(),
    ]
}

fn text() -> impl Strategy<Value = String> {
    vec(character(), 0..6).prop_map(String::from_iter)
}

fn ranges() -> impl Strategy<Value = Vec<(char, char)>> {
    vec(
        prop_oneof![
            character().prop_map(|c| (c, c)),
            (character(), character()).prop_map(|(a, b)| (a.min(b), a.max(b)))
        ],
        1..5,
    )
}

fn token() -> impl Strategy<Value = Expr> {
    let name = prop_oneof![
        any::<u32>().prop_map(TokenName::Id),
        text().prop_filter("a token has a text", |text| !text.is_empty()).prop_map(TokenName::Text),
        "<[a-z|]{0,5}>".prop_map(TokenName::Text),
    ];
    (any::<bool>(), name).prop_map(|(negated, name)| Expr::Token(TokenMatch { negated, name }))
}

fn bounds() -> impl Strategy<Value = (u64, Option<u64>)> {
    prop_oneof![
        Just((0, None)),
        Just((1, None)),
        Just((0, Some(1))),
        (0..4u64, 0..4u64).prop_map(|(min, more)| (min, Some(min + more))),
        (0..4u64).prop_map(|min| (min, None)),
        Just((5, Some(u64::MAX))),
    ]
}

/// An expression over `rules` rules, out of the given leaves.
fn expr(leaf: impl Strategy<Value = Expr> + 'static) -> impl Strategy<Value = Expr> {
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Expr::sequence),
            vec(inner.clone(), 1..5).prop_map(Expr::choice),
            (inner, bounds()).prop_map(|(item, (min, max))| item.repeat(min, max)),
        ]
    })
}

fn with_rules(leaf: fn(u32) -> BoxedStrategy<Expr>) -> impl Strategy<Value = Grammar> {
    (1..5u32).prop_flat_map(move |rules| {
        let bodies = vec(expr(leaf(rules)), rules as usize);
        (bodies, 0..rules, "[A-Za-z0-9-]{1,8}").prop_map(|(bodies, root, name)| {
            let mut builder = Grammar::builder();
            for body in bodies {
                builder.rule(&name, body);
            }
            builder.build(RuleId(root)).expect("all rules are defined")
        })
    })
}

/// Grammars with everything the notation has.
pub(super) fn any_grammar() -> impl Strategy<Value = Grammar> {
    with_rules(|rules| {
        prop_oneof![
            text().prop_map(Expr::literal),
            ranges().prop_map(Expr::class),
            ranges().prop_map(Expr::not_class),
            Just(Expr::Any),
            token(),
            (0..rules).prop_map(|id| Expr::Rule(RuleId(id))),
        ]
        .boxed()
    })
}

/// Small grammars over two letters, without tokens, for laws about what they match.
pub(super) fn small_grammar() -> impl Strategy<Value = Grammar> {
    with_rules(|rules| {
        prop_oneof![
            3 => "[ab]{0,2}".prop_map(Expr::literal),
            1 => Just(Expr::class([('a', 'b')])),
            1 => Just(Expr::not_class([('b', '\u{10FFFF}')])),
            1 => Just(Expr::not_class([('\0', '\u{10FFFF}')])),
            1 => Just(Expr::Any),
            3 => (0..rules).prop_map(|id| Expr::Rule(RuleId(id))),
        ]
        .boxed()
    })
}
