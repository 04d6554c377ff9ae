//! Shortest matches and class members, against the same computed by hand.

use crate::gbnf::analysis::{Classes, Flat, costs, members};
use crate::gbnf::{CharClass, Grammar};

#[test]
fn shortest_matches() {
    for (text, expected) in [
        ("root ::= \"abc\"", Some(3)),
        ("root ::= \"abc\" | \"\"", Some(0)),
        ("root ::= [a-z] . \"日本\"", Some(4)),
        ("root ::= \"ab\"{3,} \"c\"*", Some(6)),
        ("root ::= \"(\" root \")\" | \"x\"", Some(1)),
        ("root ::= a a\na ::= \"b\" a | b\nb ::= \"xy\"?\n", Some(0)),
        ("root ::= a{18446744073709551615}\na ::= \"aa\"", Some(u64::MAX)),
        ("root ::= root", None),
        ("root ::= [^\\x00-\\U0010FFFF]", None),
        ("root ::= [^\\x00-\\U0010FFFF]{0,3}", Some(0)),
    ] {
        let grammar = Grammar::parse(text).unwrap();
        let flat = Flat::new(&grammar);
        let costs = costs(&flat, Classes::AsWritten);
        let body = flat.body(grammar.root()).unwrap() as usize;
        assert_eq!(costs[body].map(|cost| cost.chars), expected, "{text}");
    }
}

#[test]
fn class_members_are_merged_cut_and_negated() {
    let check = |negated: bool, ranges: &[(u32, u32)], expected: &[(u32, u32)]| {
        assert_eq!(members(&CharClass { negated, ranges: ranges.to_vec() }), expected);
    };
    check(false, &[(5, 9), (0, 4), (8, 12)], &[(0, 12)]);
    check(false, &[(9, 5)], &[]);
    check(true, &[(9, 5)], &[(0, 0xD7FF), (0xE000, 0x10FFFF)]);
    check(true, &[(0, 0x10FFFF)], &[]);
    check(false, &[(0xD7FF, 0xE000)], &[(0xD7FF, 0xD7FF), (0xE000, 0xE000)]);
    check(false, &[(0xD800, 0xDFFF)], &[]);
    check(true, &[(1, 0xD7FF), (0xE000, 0x10FFFE)], &[(0, 0), (0x10FFFF, 0x10FFFF)]);
    check(false, &[(0x10FFFF, u32::MAX)], &[(0x10FFFF, 0x10FFFF)]);
}
