//! `KEYWORDS.md` is the table the compiler classifies by; `UPDATE_KEYWORDS=1` writes it anew.

use std::fmt::Write;
use std::path::Path;

use toolgate_grammar::schema::{KeywordRule, format_rules, keyword_rules};

const OPENING: &str = "\
# Keywords

What becomes of each JSON Schema keyword, from the table the compiler classifies by. The contract of a schema
(`toolgate schema compile FILE --report text`) lists every keyword with its JSON pointer and its class:

- **enforced**: the grammar admits no violation;
- **checked**: the grammar may let a violation pass, the finished value is validated;
- **annotation**: says nothing of validity. So is every keyword that is not listed here.

A keyword that is enforced is listed as checked, with the reason, where the note says so, where it stands under a
checked keyword, and where an automaton or the number of combinations would grow past its limit. A keyword whose value
has the wrong form, a reference that leads nowhere, and a schema that nothing can match are refused.

A grammar has one spelling of most things, so an instance is first written in its order (`compile::render`): declared
keys in declared order, undeclared ones after them. A declared key is written at most once, and never as an undeclared
one. A grammar does not remember undeclared keys, so one of them may be written twice. Readers of JSON keep the last;
it obeys what holds for its name, and only `minProperties` can be missed by that, which is then listed as checked.

Numbers end: integers without a bound after 64 digits, fractions after 24, multiples after 19. Larger and smaller
numbers are written with an exponent where the schema takes fractions. A bound holds both for the digits and for the
float they are read as.

A host may register keywords of its own (`SchemaOptions::extensions`), which say what texts a string may be. They are
enforced, and checked where there are too many texts.
";

fn table(out: &mut String, title: &str, first: &str, rules: &[KeywordRule]) {
    write!(out, "\n## {title}\n\n| {first} | class | note |\n|---|---|---|\n").unwrap();
    for rule in rules {
        writeln!(out, "| `{}` | {} | {} |", rule.keyword, rule.class.as_str(), rule.note).unwrap();
    }
}

#[test]
fn the_committed_table_is_the_compilers() {
    let mut text = OPENING.to_owned();
    table(&mut text, "Keywords", "keyword", keyword_rules());
    table(&mut text, "Formats", "`format`", &format_rules());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("KEYWORDS.md");
    if std::env::var_os("UPDATE_KEYWORDS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "KEYWORDS.md is not what the compiler does; UPDATE_KEYWORDS=1 writes it");
}
