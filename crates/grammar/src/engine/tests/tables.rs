//! What particular grammars accept, refuse, force and complete.

use std::sync::Arc;

use super::super::{Automaton, Matcher, Vocabulary};
use super::{automaton, small_vocabulary};
use crate::gbnf::{TokenMatch, TokenName};
use crate::{Expr, Grammar, Kind, Limits, Place};

/// One rule, over single bytes.
fn of(root: Expr) -> Arc<Automaton> {
    let mut builder = Grammar::builder();
    let root = builder.rule("root", root);
    automaton(&builder.build(root).unwrap(), Arc::new(Vocabulary::bytes_only())).unwrap()
}

fn verdict(automaton: &Arc<Automaton>, text: &[u8]) -> Result<bool, usize> {
    let mut matcher = automaton.matcher();
    match matcher.accept_bytes(text) {
        Ok(()) => Ok(matcher.is_complete()),
        Err(error) => match error.place() {
            Some(Place::Offset(offset)) if error.kind() == Kind::Rejected => Err(*offset),
            _ => panic!("unexpected {error}"),
        },
    }
}

/// `whole` match, `open` are beginnings of matches, `wrong` go wrong at their last byte.
fn check(root: Expr, whole: &[&str], open: &[&str], wrong: &[&str]) {
    let automaton = of(root);
    for text in whole {
        assert_eq!(verdict(&automaton, text.as_bytes()), Ok(true), "{text:?} matches");
    }
    for text in open {
        assert_eq!(verdict(&automaton, text.as_bytes()), Ok(false), "{text:?} begins a match");
    }
    for text in wrong {
        let last = text.len() - text.chars().last().unwrap().len_utf8();
        let at = verdict(&automaton, text.as_bytes());
        assert!(at.is_err_and(|at| at >= last), "{text:?} goes wrong at {at:?}");
    }
}

fn literal(text: &str) -> Expr {
    Expr::literal(text)
}

#[test]
fn literals_sequences_and_choices() {
    check(literal("abc"), &["abc"], &["", "a", "ab"], &["b", "ax", "abcd"]);
    check(Expr::sequence([literal("a"), literal("b").optional()]), &["a", "ab"], &[""], &["b", "abb", "aa"]);
    check(
        Expr::choice([literal("ab"), literal("ac"), Expr::empty()]),
        &["", "ab", "ac"],
        &["a"],
        &["ad", "b"],
    );
    check(Expr::empty(), &[""], &[], &["a"]);
}

#[test]
fn classes_work_on_whole_characters() {
    check(Expr::class([('a', 'c'), ('é', 'ü')]), &["a", "c", "é", "ü"], &[""], &["d", "à", "aa"]);
    check(Expr::not_class([('a', 'z')]), &["A", "é", "€", "😀", "\n"], &[""], &["a", "z"]);
    check(Expr::Any, &["a", "\0", "\n", "\u{10ffff}"], &[""], &["ab"]);
    let any = of(Expr::Any);
    for (bytes, expected) in [
        (&b"\xf0\x9f"[..], Ok(false)),
        (b"\xc3\xa9", Ok(true)),
        (b"\xc0", Err(0)),
        (b"\x80", Err(0)),
        (b"\xe0\x80", Err(1)),
        (b"\xed\xa0", Err(1)),
        (b"\xf4\x90", Err(1)),
        (b"\xff", Err(0)),
    ] {
        assert_eq!(verdict(&any, bytes), expected, "{bytes:?}");
    }
}

#[test]
fn counts_are_exact_however_large() {
    let a = "a".repeat(5_000);
    let ab = Expr::choice([literal("a"), literal("b")]);
    check(ab.clone().repeat(0, Some(5_000)), &["", "abba", &a], &[], &[&(a.clone() + "b")]);
    check(ab.clone().repeat(4_999, Some(5_000)), &[&a, &a[1..]], &["", &a[2..]], &[&(a.clone() + "a")]);
    check(ab.clone().repeat(5_000, None), &[&a, &(a.clone() + "b")], &[&a[1..]], &["c"]);
    check(ab.clone().repeat(3, Some(3)), &["aba"], &["ab"], &["abab"]);
    check(ab.repeat(0, Some(0)), &[""], &[], &["a"]);
    let huge = literal("xy").repeat(1 << 32, Some((1 << 32) + 1));
    check(huge, &[], &["", "xyxy", "xyx"], &["xx"]);
    let nested = literal("a").repeat(2, Some(9)).repeat(10, Some(11)).repeat(1, Some(2));
    let a = |n: usize| "a".repeat(n);
    check(nested, &[&a(20), &a(99), &a(198)], &[&a(19)], &[&a(199)]);
}

#[test]
fn counts_of_ambiguous_bodies_are_exact() {
    let body = Expr::choice([literal("a"), literal("aa")]);
    let a = |n: usize| "a".repeat(n);
    check(body.clone().repeat(0, Some(300)), &["", &a(600)], &[], &[&a(601)]);
    check(body.repeat(30, Some(40)), &[&a(30), &a(80)], &[&a(29)], &[&a(81)]);
}

#[test]
fn what_can_be_empty_may_be_repeated() {
    check(Expr::empty().repeat(0, None).repeat(0, None), &[""], &[], &["a"]);
    check(literal("a").optional().repeat(0, None), &["", "aaa"], &[], &["b"]);
    check(literal("a").optional().repeat(12, Some(20)), &["", "a", &"a".repeat(20)], &[], &[&"a".repeat(21)]);
    check(
        literal("a").repeat(0, Some(3)).repeat(4, Some(4)),
        &["", &"a".repeat(12)],
        &[],
        &[&"a".repeat(13)],
    );
}

#[test]
fn rules_nest_and_recurse() {
    let mut builder = Grammar::builder();
    let value = builder.declare("value");
    let list = Expr::sequence([
        literal("["),
        Expr::sequence([
            Expr::Rule(value),
            Expr::sequence([literal(","), Expr::Rule(value)]).repeat(0, None),
        ])
        .optional(),
        literal("]"),
    ]);
    builder.define(value, Expr::choice([list, Expr::class([('0', '9')]).repeat(1, None)]));
    let automaton = automaton(&builder.build(value).unwrap(), Arc::new(Vocabulary::bytes_only())).unwrap();
    for (text, expected) in [
        ("[]", Ok(true)),
        ("[1,[23,[]],4]", Ok(true)),
        ("12", Ok(true)),
        ("[1,[2]", Ok(false)),
        ("[,", Err(1)),
        ("[1]]", Err(3)),
    ] {
        assert_eq!(verdict(&automaton, text.as_bytes()), expected, "{text}");
    }
    let deep = "[".repeat(20_000) + &"]".repeat(20_000);
    assert_eq!(verdict(&automaton, deep.as_bytes()), Ok(true));
    assert_eq!(verdict(&automaton, (deep + "]").as_bytes()), Err(40_000));
}

#[test]
fn right_recursion_needs_no_stack() {
    let mut builder = Grammar::builder();
    let word = builder.declare("word");
    builder.define(
        word,
        Expr::choice([Expr::sequence([Expr::class([('a', 'z')]), Expr::Rule(word)]), literal(".")]),
    );
    let automaton = automaton(&builder.build(word).unwrap(), Arc::new(Vocabulary::bytes_only())).unwrap();
    let mut matcher = automaton.matcher();
    matcher.accept_bytes("x".repeat(10_000).as_bytes()).unwrap();
    assert!(
        automaton.usage().configurations < 10 && automaton.usage().frames < 10,
        "{:?}",
        automaton.usage()
    );
    matcher.accept_bytes(b".").unwrap();
    assert!(matcher.is_finished().unwrap());
}

#[test]
fn left_recursion_is_refused_by_the_names_of_its_rules() {
    let check = |define: &dyn Fn(&mut crate::GrammarBuilder, [crate::RuleId; 3]), expected: Option<&str>| {
        let mut builder = Grammar::builder();
        let ids = ["a", "b", "c"].map(|name| builder.declare(name));
        define(&mut builder, ids);
        let vocabulary = Arc::new(Vocabulary::bytes_only());
        match (automaton(&builder.build(ids[0]).unwrap(), vocabulary), expected) {
            (Ok(_), None) => {}
            (Err(error), Some(message)) => {
                assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Unsupported, message));
            }
            (result, _) => panic!("{result:?} is not {expected:?}"),
        }
    };
    check(
        &|g, [a, b, c]| {
            g.define(a, Expr::sequence([literal("x").optional(), Expr::Rule(b)]));
            g.define(b, Expr::sequence([Expr::Rule(c), Expr::Rule(a), literal("y")]).optional());
            g.define(c, literal("z").repeat(0, None));
        },
        Some("left recursion: a -> b -> a"),
    );
    // The near-twin: the rule between them must match something.
    check(
        &|g, [a, b, c]| {
            g.define(a, Expr::sequence([literal("x").optional(), Expr::Rule(b)]));
            g.define(b, Expr::sequence([Expr::Rule(c), Expr::Rule(a), literal("y")]).optional());
            g.define(c, literal("z").repeat(1, None));
        },
        None,
    );
    check(
        &|g, [a, b, c]| {
            g.define(a, Expr::choice([Expr::Rule(a), Expr::Rule(b), Expr::Rule(c)]).optional());
            g.define(b, literal("b"));
            g.define(c, literal("c"));
        },
        Some("left recursion: a -> a"),
    );
    check(
        &|g, [a, b, c]| {
            g.define(a, Expr::choice([literal("a"), Expr::Rule(b)]).repeat(20, Some(30)));
            g.define(b, Expr::choice([literal("b"), Expr::sequence([Expr::Rule(a), literal("x")])]));
            g.define(c, literal("c"));
        },
        Some("left recursion: a -> b -> a"),
    );
}

#[test]
fn what_matches_nothing_is_never_entered() {
    let nothing = Expr::Choice(Vec::new());
    let surrogates = Expr::Class(crate::gbnf::CharClass { negated: false, ranges: vec![(0xd800, 0xdfff)] });
    check(
        Expr::choice([literal("ab"), Expr::sequence([literal("ax"), nothing.clone()]), surrogates.clone()]),
        &["ab"],
        &["a"],
        &["ax", "\u{e000}"],
    );
    check(nothing.clone().optional(), &[""], &[], &["a"]);
    for root in [nothing.clone(), surrogates, Expr::sequence([literal("a"), nothing.repeat(1, None)])] {
        let mut builder = Grammar::builder();
        let root = builder.rule("root", root);
        let error = automaton(&builder.build(root).unwrap(), small_vocabulary()).unwrap_err();
        assert_eq!(error.kind(), Kind::Undefined, "{error}");
    }
}

#[test]
fn ambiguity_costs_a_set_and_not_a_stack_each() {
    // Every word of n letters has exponentially many derivations.
    let mut builder = Grammar::builder();
    let s = builder.declare("s");
    let pair = Expr::sequence([literal("a"), Expr::Rule(s).optional(), Expr::Rule(s).optional()]);
    builder.define(s, Expr::choice([pair, literal("a")]));
    let automaton = automaton(&builder.build(s).unwrap(), Arc::new(Vocabulary::bytes_only())).unwrap();
    assert_eq!(verdict(&automaton, "a".repeat(60).as_bytes()), Ok(true));
    assert_eq!(verdict(&automaton, ("a".repeat(60) + "b").as_bytes()), Err(60));
}

#[test]
fn tokens_are_matched_whole_and_specials_never_by_text() {
    let token = |negated, name| Expr::Token(TokenMatch { negated, name });
    let vocabulary = small_vocabulary();
    let special = vocabulary.special("<s>").unwrap();
    let end = vocabulary.special("<eos>").unwrap();
    let tokens = |root: Expr| {
        let mut builder = Grammar::builder();
        let root = builder.rule("root", root);
        let automaton = automaton(&builder.build(root).unwrap(), vocabulary.clone()).unwrap();
        automaton.matcher().mask().unwrap().iter().collect::<Vec<_>>()
    };
    assert_eq!(tokens(token(false, TokenName::Text("<s>".into()))), [special]);
    assert_eq!(tokens(token(false, TokenName::Id(4))), [4]);
    assert_eq!(tokens(token(false, TokenName::Text("<eos>".into()))), [end]);
    assert_eq!(tokens(literal("<s>")), [0_u32; 0]);
    // Everything but the empty token 15, the end token and the unused one.
    let all: Vec<u32> = (0..=special).filter(|t| *t != 15).collect();
    let without = |token: u32| all.iter().copied().filter(|t| *t != token).collect::<Vec<_>>();
    assert_eq!(tokens(token(true, TokenName::Text("<s>".into()))), without(special));
    assert_eq!(tokens(token(true, TokenName::Id(0))), without(0));
    let both = Expr::choice([token(true, TokenName::Id(0)), token(true, TokenName::Id(1))]);
    assert_eq!(tokens(both), all);
    assert_eq!(tokens(literal("a")), [0]);
    let mut builder = Grammar::builder();
    let root = builder.rule("root", token(false, TokenName::Text("<none>".into())));
    let error = automaton(&builder.build(root).unwrap(), vocabulary.clone()).unwrap_err();
    assert_eq!(error.to_string(), "the vocabulary has no token <none>");
}

#[test]
fn end_tokens_are_allowed_exactly_when_the_text_is_whole() {
    let automaton = of(literal("a").repeat(1, Some(2)));
    let mut matcher = automaton.matcher();
    let end = 256;
    assert!(!matcher.allows(end).unwrap() && !matcher.mask().unwrap().contains(end));
    assert_eq!(matcher.accept(end).unwrap_err().kind(), Kind::Rejected);
    matcher.accept(u32::from(b'a')).unwrap();
    assert!(matcher.is_complete() && !matcher.is_finished().unwrap());
    assert!(matcher.allows(end).unwrap() && matcher.mask().unwrap().contains(end));
    matcher.accept(end).unwrap();
    assert!(matcher.is_complete() && matcher.is_finished().unwrap() && matcher.mask().unwrap().is_empty());
    matcher.rollback(1).unwrap();
    matcher.accept(u32::from(b'a')).unwrap();
    assert!(matcher.is_finished().unwrap());
    assert_eq!(matcher.mask().unwrap().iter().collect::<Vec<_>>(), [end]);
}

#[test]
fn forced_text_stops_at_a_choice_an_end_and_the_limit() {
    let forced = |root: Expr, after: &str| {
        let mut matcher = of(root).matcher();
        matcher.accept_bytes(after.as_bytes()).unwrap();
        String::from_utf8(matcher.forced().unwrap()).unwrap()
    };
    let call = || {
        Expr::sequence([
            literal("{\"name\": \""),
            Expr::choice([literal("read_file"), literal("read_all")]),
            literal("\"}"),
            literal("!").optional(),
        ])
    };
    assert_eq!(forced(call(), ""), "{\"name\": \"read_");
    assert_eq!(forced(call(), "{\"name\": \"read_a"), "ll\"}");
    assert_eq!(forced(call(), "{\"name\": \"read_all\"}"), "");
    assert_eq!(forced(literal("é").repeat(2, Some(3)), ""), "éé");
    assert_eq!(forced(literal("ab").repeat(1 << 40, None), "").len(), Limits::default().forced_bytes);
}

#[test]
fn completions_are_shortest() {
    let complete = |root: Expr, after: &str| {
        let mut matcher = of(root).matcher();
        matcher.accept_bytes(after.as_bytes()).unwrap();
        let bytes = matcher.completion().unwrap();
        matcher.accept_bytes(&bytes).unwrap();
        assert!(matcher.is_complete());
        String::from_utf8(bytes).unwrap()
    };
    let digits = || Expr::class([('0', '9')]);
    let object = || {
        Expr::sequence([
            literal("{\"n\":"),
            Expr::choice([digits().repeat(3, Some(40)), literal("null"), literal("[12]")]),
            literal("}"),
        ])
    };
    assert_eq!(complete(object(), ""), "{\"n\":000}");
    assert_eq!(complete(object(), "{\"n\":n"), "ull}");
    assert_eq!(complete(object(), "{\"n\":1234"), "}");
    assert_eq!(complete(digits().repeat(12, Some(20)), "123"), "000000000");
    assert_eq!(complete(digits().repeat(0, None), "123"), "");
    let mut far = of(digits().repeat(1 << 32, None)).matcher();
    assert_eq!(far.completion().unwrap_err().kind(), Kind::Limit);
}

#[test]
fn a_refused_step_changes_nothing() {
    let mut matcher = of(literal("abc")).matcher();
    matcher.accept_bytes(b"a").unwrap();
    let error = matcher.accept_bytes(b"bx").unwrap_err();
    assert_eq!((error.kind(), error.place()), (Kind::Rejected, Some(&Place::Offset(1))));
    assert_eq!(matcher.accept(u32::from(b'z')).unwrap_err().kind(), Kind::Rejected);
    assert_eq!(matcher.accept(9_999).unwrap_err().kind(), Kind::Rejected);
    assert_eq!(matcher.steps(), 1);
    assert_eq!(matcher.rollback(2).unwrap_err().kind(), Kind::Limit);
    matcher.accept_bytes(b"bc").unwrap();
    assert!(matcher.is_complete());
}

/// A run that needs more configurations than its tables hold goes on in fresh ones.
#[test]
fn memory_stays_bounded_and_runs_go_on() {
    let mut builder = Grammar::builder();
    let digit = Expr::class([('0', '9')]);
    let root = builder.rule("root", Expr::sequence([digit.repeat(0, Some(100_000)), literal("!")]));
    let grammar = builder.build(root).unwrap();
    let limits = Limits { configurations: 100, ..Limits::default() };
    let vocabulary = Arc::new(Vocabulary::bytes_only());
    let automaton = Automaton::new(&grammar, vocabulary, &limits).unwrap();
    let mut matcher: Matcher = automaton.matcher();
    let mut other = automaton.matcher();
    other.accept_bytes(b"12").unwrap();
    for n in 0..3_000 {
        matcher.accept(u32::from(b'0') + n % 10).unwrap();
        assert_eq!(matcher.mask().unwrap().count(), 11);
        assert!(automaton.usage().configurations <= 100);
    }
    assert_eq!(matcher.steps(), 3_000);
    matcher.rollback(20).unwrap();
    assert_eq!(matcher.steps(), 2_980);
    assert_eq!(matcher.rollback(2_900).unwrap_err().kind(), Kind::Limit);
    other.rollback(1).unwrap();
    for mut matcher in [matcher, other] {
        matcher.accept_bytes(b"3!").unwrap();
        assert!(matcher.is_finished().unwrap());
    }
}

/// Of what was found out, the tables keep what was used last: a run that comes again and again finds its masks, while
/// a long one goes through all the room there is.
#[test]
fn what_was_used_longest_ago_goes_first() {
    let mut builder = Grammar::builder();
    let line = Expr::sequence([Expr::class([('0', '9')]).repeat(0, Some(1 << 40)), literal("!")]);
    let root = builder.rule("root", Expr::choice([line, literal("often")]));
    let grammar = builder.build(root).unwrap();
    let limits = Limits { configurations: 200, ..Limits::default() };
    let automaton = Automaton::new(&grammar, Arc::new(Vocabulary::bytes_only()), &limits).unwrap();
    let mut long = automaton.matcher();
    let mut machine = automaton.machine();
    let mut renewals = 0;
    for _ in 0..2_000 {
        long.accept(u32::from(b'1')).unwrap();
        let now = automaton.machine();
        if !Arc::ptr_eq(&now, &machine) {
            let masks = now.in_use().iter().filter(|id| now.get(**id).unwrap().mask.get().is_some()).count();
            assert!(masks >= 5, "{masks} masks after renewal {renewals}");
            assert!(now.used().0 <= 120, "{now:?}");
            renewals += 1;
        }
        machine = now;
        let mut often = automaton.matcher();
        for byte in b"often" {
            assert!(often.mask().unwrap().contains(u32::from(*byte)));
            often.accept(u32::from(*byte)).unwrap();
        }
    }
    assert!(renewals > 5, "{renewals} renewals");
}

/// Ambiguity that grows with the text costs a bounded amount of work and memory, and ends in a limit.
#[test]
fn work_and_memory_of_growing_ambiguity_are_bounded() {
    let nested = format!("root ::= {}(\"a\" | \"aa\"){}", "(".repeat(80), "){2,4294967295}".repeat(80));
    let grammars = [
        "root ::= \"a\" root? root? root? root? | \"a\"",
        "root ::= . root*",
        &nested,
        "root ::= . root? . | .",
    ];
    for text in grammars {
        let grammar = Grammar::parse(text).unwrap();
        let limits = Limits { work: 100_000, ..Limits::default() };
        let automaton = Automaton::new(&grammar, Arc::new(Vocabulary::bytes_only()), &limits).unwrap();
        let mut matcher = automaton.matcher();
        let error = (0..100_000).find_map(|_| matcher.accept(u32::from(b'a')).err()).unwrap();
        assert_eq!(error.kind(), Kind::Limit, "{text}");
        assert!(error.to_string().contains("100000 steps"), "{error}");
        assert!(automaton.usage().bytes <= 64 << 20, "{:?}", automaton.usage());
        // The refused step has changed nothing, and what costs little is still to be had.
        let taken = matcher.steps();
        matcher.rollback(1).unwrap();
        matcher.accept(u32::from(b'a')).unwrap();
        assert_eq!(matcher.steps(), taken);
        let mut other = automaton.matcher();
        for _ in 0..20 {
            other.accept(u32::from(b'a')).unwrap();
        }
    }
}

#[test]
fn too_much_ambiguity_is_a_limit() {
    let mut builder = Grammar::builder();
    let words: Vec<Expr> =
        (0..64).map(|n| Expr::sequence([Expr::Any.repeat(n, Some(n)), literal("x")])).collect();
    let root = builder.rule("root", Expr::choice(words).repeat(0, None));
    let grammar = builder.build(root).unwrap();
    let vocabulary = Arc::new(Vocabulary::bytes_only());
    let run = |stacks: usize| {
        let limits = Limits { stacks, ..Limits::default() };
        let mut matcher = Automaton::new(&grammar, vocabulary.clone(), &limits).unwrap().matcher();
        matcher.accept_bytes(b"xaxaaaxaxaaaxax")
    };
    assert_eq!(run(16).unwrap_err().kind(), Kind::Limit);
    assert!(run(4_096).is_ok());
}

#[test]
fn matchers_on_several_threads_agree() {
    let automaton =
        of(Expr::choice([literal("ab"), Expr::class([('a', 'z')]).repeat(0, Some(500))]).repeat(0, None));
    let run = || {
        let mut matcher = automaton.matcher();
        (0..400u32)
            .map(|n| {
                matcher.accept(u32::from(b'a') + n * n % 26).unwrap();
                matcher.mask().unwrap().count()
            })
            .collect::<Vec<_>>()
    };
    let counts =
        std::thread::scope(|scope| [0; 4].map(|_| scope.spawn(run)).map(|thread| thread.join().unwrap()));
    assert!(counts.iter().all(|count| count == &counts[0]) && counts[0][0] == 27);
}
