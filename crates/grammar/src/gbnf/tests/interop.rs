//! To the `gbnf` crate and back, and what it prints on the way.

use ::gbnf as foreign;
use foreign::{GrammarItem, NonTerminalSymbol, Production, ProductionItem, RepetitionType, TerminalSymbol};
use proptest::prelude::*;

use super::arbitrary::{any_grammar, small_grammar};
use crate::gbnf::{Grammar, ParseOptions};
use crate::{Kind, Limits};

fn root_of(grammar: &Grammar) -> String {
    grammar.rule(grammar.root()).unwrap().name.clone()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Its printer and ours write the same grammar, though not the same text.
    #[test]
    fn what_it_prints_is_gbnf_that_goes_there_and_back_unchanged(grammar in any_grammar()) {
        let tree = grammar.to_gbnf_crate();
        let options = ParseOptions { root: root_of(&grammar), ..ParseOptions::default() };
        let printed = Grammar::parse_with(&tree.to_string(), &options);
        let printed = printed.unwrap_or_else(|error| panic!("{tree}\n{}", error.report()));
        let taken = Grammar::from_gbnf_crate(&tree, &options.root, &Limits::default()).unwrap();
        prop_assert_eq!(&printed, &taken, "{}", tree);
        let again = taken.to_gbnf_crate();
        prop_assert_eq!(again.to_string(), tree.to_string());
    }

    /// Where no character needs another notation there, nothing changes on the way.
    #[test]
    fn plain_grammars_come_back_as_they_were(grammar in small_grammar()) {
        let plain = !grammar.to_gbnf().contains(['.', '^']);
        let taken = Grammar::from_gbnf_crate(&(&grammar).into(), &root_of(&grammar), &Limits::default()).unwrap();
        prop_assert!(!plain || taken == grammar, "{}\n{}", grammar, taken);
    }
}

fn rule(name: &str, items: Vec<ProductionItem>) -> GrammarItem {
    GrammarItem::Rule(foreign::Rule {
        lhs: NonTerminalSymbol { name: name.to_owned() },
        rhs: Production { items },
    })
}

fn terminal(value: &str) -> ProductionItem {
    ProductionItem::Terminal(TerminalSymbol { value: value.to_owned() }, RepetitionType::One)
}

fn tree(items: Vec<GrammarItem>) -> foreign::Grammar {
    foreign::Grammar { items, ..foreign::Grammar::default() }
}

#[test]
fn grammars_it_makes_from_schemas_are_taken() {
    let schema =
        r#"{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}"#;
    let tree = foreign::Grammar::from_json_schema(schema).unwrap();
    let grammar = Grammar::try_from(&tree).unwrap();
    let outcome = grammar.match_text(r#"{"name":"Ada","age":36}"#, &Limits::default()).unwrap();
    assert!(outcome.matched, "{}\n{grammar}", outcome.report());
    assert!(!grammar.match_text(r#"{"name":36,"age":"Ada"}"#, &Limits::default()).unwrap().matched);
}

#[test]
fn alternatives_between_other_items_are_read_as_they_are_printed() {
    let production = |text: &str| Production { items: vec![terminal(text)] };
    let choice = || ProductionItem::OneOf(vec![production("a"), production("b")]);
    let check = |items: Vec<ProductionItem>, expected: &str| {
        let tree = tree(vec![rule("root", items)]);
        let grammar = Grammar::try_from(&tree).unwrap();
        assert_eq!(grammar.to_gbnf(), format!("root ::= {expected}\n"));
        assert_eq!(Grammar::parse(&tree.to_string()).unwrap(), grammar);
    };
    check(vec![terminal("x"), choice(), terminal("c")], "\"x\" \"a\" | \"b\" \"c\"");
    let group =
        ProductionItem::Group(Box::new(Production { items: vec![choice()] }), RepetitionType::ZeroOrOne);
    check(vec![terminal("x"), group, terminal("c")], "\"x\" (\"a\" | \"b\")? \"c\"");
}

#[test]
fn terminals_hold_source_text_and_bare_quotes_are_quotes() {
    let grammar =
        Grammar::try_from(&tree(vec![rule("root", vec![terminal("say \\\"hi\\\" \"\\n")])])).unwrap();
    assert_eq!(grammar.to_gbnf(), "root ::= \"say \\\"hi\\\" \\\"\\n\"\n");
}

#[test]
fn trees_that_are_no_grammar_are_refused_with_the_rule() {
    let reference = |name: &str| {
        ProductionItem::NonTerminal(NonTerminalSymbol { name: name.to_owned() }, RepetitionType::One)
    };
    let set = foreign::CharacterSet {
        is_complement: false,
        items: vec![foreign::CharacterSetItem::Hex("zz".to_owned())],
    };
    let between =
        ProductionItem::Terminal(TerminalSymbol { value: "a".to_owned() }, RepetitionType::Between((3, 2)));
    let deep = (0..1_000).fold(terminal("a"), |item, _| {
        ProductionItem::Group(Box::new(Production { items: vec![item] }), RepetitionType::One)
    });
    let cases = [
        (Kind::Syntax, vec![rule("root", vec![terminal("C:\\dir")])]),
        (Kind::Syntax, vec![rule("root", vec![ProductionItem::CharacterSet(set, RepetitionType::One)])]),
        (Kind::Syntax, vec![rule("root", vec![between])]),
        (Kind::Syntax, vec![rule("root", vec![reference("<a> b")])]),
        (Kind::Syntax, vec![rule("root", vec![terminal("a")]), rule("a b", vec![terminal("a")])]),
        (Kind::Undefined, vec![rule("root", vec![reference("other")])]),
        (Kind::Undefined, vec![rule("root", vec![terminal("a")]), rule("root", vec![terminal("b")])]),
        (Kind::Undefined, vec![rule("start", vec![terminal("a")])]),
        (Kind::Limit, vec![rule("root", vec![deep])]),
    ];
    for (kind, items) in cases {
        let error = Grammar::try_from(&tree(items)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    assert!(
        Grammar::try_from(&tree(vec![rule("root", vec![reference("<think>"), terminal("C:\\\\dir")])]))
            .is_ok()
    );
}
