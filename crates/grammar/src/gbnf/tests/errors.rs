//! Every refusal says where and what to do; the near-twin beside it is read.

use std::fmt::Write;

use crate::Kind;
use crate::gbnf::Grammar;

/// Texts that are refused, each with a near-twin that is not.
const SYNTAX: &[(&str, &str)] = &[
    ("root ::= \"abc", "root ::= \"abc\""),
    ("root ::= \"a\\qb\"", "root ::= \"a\\nb\""),
    ("root ::= \"\\d+\"", "root ::= \"\\\\d+\""),
    ("root ::= \"a\\/b\"", "root ::= \"a/b\""),
    ("root ::= [\\^a]", "root ::= [\\x5Ea]"),
    ("root ::= \"\\x4\"", "root ::= \"\\x41\""),
    ("root ::= \"\\uD83D\\uDE00\"", "root ::= \"\\U0001F600\""),
    ("root ::= [\\U00110000]", "root ::= [\\U0010FFFF]"),
    ("root ::= [a-z", "root ::= [a-z]"),
    ("root ::= [a-", "root ::= [a-]"),
    ("root ::= [9-0]", "root ::= [0-9]"),
    ("root ::= [^a\\]-[]", "root ::= [^a\\[-\\]]"),
    ("root ::= (\"a\" | (\"b\"", "root ::= (\"a\" | (\"b\"))"),
    ("root ::= \"a\")", "root ::= (\"a\")"),
    ("root ::= *", "root ::= \"*\""),
    ("root ::= \"a\" | +", "root ::= \"a\" | \"+\""),
    ("root ::= \"\"*", "root ::= ()*"),
    ("root ::= \"a\" []+", "root ::= \"a\"+"),
    ("root ::= \"a\"{,3}", "root ::= \"a\"{0,3}"),
    ("root ::= \"a\"{3,2}", "root ::= \"a\"{2,3}"),
    ("root ::= \"a\"{3", "root ::= \"a\"{3}"),
    ("root ::= \"a\"{3;4}", "root ::= \"a\"{3,4}"),
    ("root ::= 'a'", "root ::= \"a\""),
    ("root ::= \"a\", \"b\"", "root ::= \"a\" \"b\""),
    ("root ::= \"a\";\n", "root ::= \"a\"\n"),
    ("root ::= /a+/", "root ::= \"a\"+"),
    ("root ::= \"a\"\n  | \"b\"", "root ::= \"a\" |\n  \"b\""),
    ("root ::= \"a\"\n  \"b\"", "root ::= (\"a\"\n  \"b\")"),
    ("root = \"a\"", "root ::= \"a\""),
    ("root: \"a\"", "root ::= \"a\""),
    ("<root> ::= \"a\"", "root ::= \"a\""),
    ("// a comment\nroot ::= \"a\"", "# a comment\nroot ::= \"a\""),
    ("root ::=\nempty ::= \"\"", "root ::= \"\"\nempty ::= \"\""),
    ("root ::= <think", "root ::= <think>"),
    ("root ::= <[x]>", "root ::= <[1]>"),
    ("root ::= <[4294967296]>", "root ::= <[4294967295]>"),
    ("root ::= <\"[x]\"", "root ::= <\"[x]\">"),
    ("root ::= <\"\">", "root ::= <\"x\">"),
    ("root ::= !\"a\"", "root ::= !<a>"),
    ("root ::= \"a\" \\n", "root ::= \"a\" \"\\n\""),
    ("root ::= \"a\"]", "root ::= \"a\" \"]\""),
    ("\tröot ::= \"a\"", "\troot ::= \"a\""),
];

const UNDEFINED: &[(&str, &str)] = &[
    ("root ::= identifer\nidentifier ::= [a-z]+", "root ::= identifier\nidentifier ::= [a-z]+"),
    ("root ::= a | b | c\na ::= \"a\"", "root ::= a | a | a\na ::= \"a\""),
    ("root ::= \"a\"\nx ::= \"x\"\nroot ::= \"b\"", "root ::= \"a\"\nx ::= \"x\"\nboot ::= \"b\""),
    ("rot ::= \"a\"", "root ::= \"a\""),
    ("", "root ::="),
];

const LIMITS: &[(&str, &str)] =
    &[("root ::= \"a\"{99999999999999999999}", "root ::= \"a\"{9999999999999999999}")];

#[test]
fn every_refusal_says_where_and_its_near_twin_is_read() {
    let mut reports = String::new();
    for (kind, cases) in [(Kind::Syntax, SYNTAX), (Kind::Undefined, UNDEFINED), (Kind::Limit, LIMITS)] {
        for (refused, accepted) in cases {
            let error = Grammar::parse(refused).expect_err(refused);
            assert_eq!(error.kind(), kind, "{refused}: {error}");
            // A root that is missing is missing nowhere in particular.
            let nowhere = ["", "rot ::= \"a\""].contains(refused);
            assert_eq!(error.place().is_none(), nowhere, "{refused}: {error}");
            assert!(!error.to_string().ends_with('.') && !error.to_string().starts_with(char::is_uppercase));
            if let Err(error) = Grammar::parse(accepted) {
                panic!("{accepted}: {}", error.report());
            }
            writeln!(reports, "{}\n", error.report()).unwrap();
        }
    }
    insta::assert_snapshot!(reports);
}
