//! The rules every schema shares: strings, numbers, free values, and white space.
//!
//! Invariant: a rule found under a shared name is used only if it is the same rule, so that grammars built by
//! others cannot change what a schema means.

use crate::{Expr, GrammarBuilder, RuleId};

use super::decimals::PLACES;
use super::integers::integers;
use super::{Whitespace, sequence};

/// The shared rules of one grammar, made when first asked for.
#[derive(Debug)]
pub(super) struct Json {
    pub(super) whitespace: Whitespace,
    made: rustc_hash::FxHashMap<&'static str, RuleId>,
    ws: Option<RuleId>,
    value: Option<RuleId>,
}

impl Json {
    pub(super) fn new(whitespace: Whitespace) -> Self {
        Self { whitespace, made: rustc_hash::FxHashMap::default(), ws: None, value: None }
    }

    /// White space where JSON allows it beside brackets.
    pub(super) fn gap(&mut self, builder: &mut GrammarBuilder) -> Expr {
        match self.whitespace {
            Whitespace::Compact | Whitespace::Spaced | Whitespace::Flexible { max: 0 } => Expr::empty(),
            Whitespace::Flexible { max } => {
                let id = *self.ws.get_or_insert_with(|| {
                    let blank = Expr::class([(' ', ' '), ('\t', '\t'), ('\n', '\n'), ('\r', '\r')]);
                    rule(builder, &format!("json-ws-{max}"), blank.repeat(0, Some(u64::from(max))))
                });
                Expr::Rule(id)
            }
        }
    }

    /// A comma between elements.
    pub(super) fn comma(&mut self, builder: &mut GrammarBuilder) -> Expr {
        self.separator(builder, ",")
    }

    /// A colon after a key.
    pub(super) fn colon(&mut self, builder: &mut GrammarBuilder) -> Expr {
        self.separator(builder, ":")
    }

    fn separator(&mut self, builder: &mut GrammarBuilder, text: &str) -> Expr {
        match self.whitespace {
            Whitespace::Compact => Expr::literal(text),
            Whitespace::Spaced => Expr::literal(format!("{text} ")),
            Whitespace::Flexible { .. } => {
                let gap = self.gap(builder);
                sequence([gap.clone(), Expr::literal(text), gap])
            }
        }
    }

    fn made(
        &mut self,
        builder: &mut GrammarBuilder,
        name: &'static str,
        body: impl FnOnce(&mut Self, &mut GrammarBuilder) -> Expr,
    ) -> Expr {
        if let Some(id) = self.made.get(name) {
            return Expr::Rule(*id);
        }
        let body = body(self, builder);
        let id = rule(builder, name, body);
        self.made.insert(name, id);
        Expr::Rule(id)
    }

    /// Any one character of a string, in every spelling JSON has for it; surrogates only in pairs.
    pub(super) fn char(&mut self, builder: &mut GrammarBuilder) -> Expr {
        self.made(builder, "json-char", |_, _| {
            let hex = || Expr::class([('0', '9'), ('a', 'f'), ('A', 'F')]);
            let d = || Expr::class([('d', 'd'), ('D', 'D')]);
            let unit = Expr::choice([
                sequence([
                    Expr::class([('0', '9'), ('a', 'c'), ('e', 'f'), ('A', 'C'), ('E', 'F')]),
                    hex().repeat(3, Some(3)),
                ]),
                sequence([d(), Expr::class([('0', '7')]), hex().repeat(2, Some(2))]),
                sequence([
                    d(),
                    Expr::class([('8', '9'), ('a', 'b'), ('A', 'B')]),
                    hex().repeat(2, Some(2)),
                    Expr::literal("\\u"),
                    d(),
                    Expr::class([('c', 'f'), ('C', 'F')]),
                    hex().repeat(2, Some(2)),
                ]),
            ]);
            let short = Expr::class(['"', '\\', '/', 'b', 'f', 'n', 'r', 't'].map(|c| (c, c)));
            Expr::choice([
                Expr::not_class([('"', '"'), ('\\', '\\'), ('\0', '\u{1f}')]),
                sequence([Expr::literal("\\"), Expr::choice([short, sequence([Expr::literal("u"), unit])])]),
            ])
        })
    }

    /// Any one of the characters that a string must escape.
    pub(super) fn escape(&mut self, builder: &mut GrammarBuilder) -> Expr {
        self.made(builder, "json-escape", |_, _| {
            let short = Expr::class(['"', '\\', 'b', 'f', 'n', 'r', 't'].map(|c| (c, c)));
            let control = sequence([
                Expr::literal("u00"),
                Expr::class([('0', '1')]),
                Expr::class([('0', '9'), ('a', 'f')]),
            ]);
            sequence([Expr::literal("\\"), Expr::choice([short, control])])
        })
    }

    /// Any one character of a string, in one spelling.
    pub(super) fn plain(&mut self, builder: &mut GrammarBuilder) -> Expr {
        self.made(builder, "json-plain", |json, builder| {
            Expr::choice([
                Expr::not_class([('"', '"'), ('\\', '\\'), ('\0', '\u{1f}')]),
                json.escape(builder),
            ])
        })
    }

    /// Any one character of a string that is not written as an ASCII character, in one spelling.
    pub(super) fn beyond_ascii(&mut self, builder: &mut GrammarBuilder) -> Expr {
        self.made(builder, "json-beyond-ascii", |json, builder| {
            Expr::choice([Expr::not_class([('\0', '\u{7f}')]), json.escape(builder)])
        })
    }

    /// Any string.
    pub(super) fn string(&mut self, builder: &mut GrammarBuilder) -> Expr {
        self.made(builder, "json-string", |json, builder| {
            sequence([Expr::literal("\""), json.char(builder).repeat(0, None), Expr::literal("\"")])
        })
    }

    /// Any integer of bounded length.
    pub(super) fn integer(&mut self, builder: &mut GrammarBuilder) -> Expr {
        self.made(builder, "json-integer", |_, _| integers(None, None).unwrap_or_else(Expr::empty))
    }

    /// A number above 0 and below 10^-7.
    pub(super) fn tiny(&mut self, builder: &mut GrammarBuilder) -> Expr {
        self.made(builder, "json-tiny", |_, _| {
            let tens = sequence([Expr::class([('1', '9')]), digit()]);
            let exponent = Expr::choice([Expr::class([('8', '9')]), tens, hundreds()]);
            scientific(sequence([Expr::literal("-"), exponent]))
        })
    }

    /// A finite number with more digits than are written otherwise.
    pub(super) fn vast(&mut self, builder: &mut GrammarBuilder) -> Expr {
        self.made(builder, "json-vast", |_, _| {
            let from_64 = sequence([Expr::literal("6"), Expr::class([('4', '9')])]);
            let from_70 = sequence([Expr::class([('7', '9')]), digit()]);
            let exponent = Expr::choice([from_64, from_70, hundreds()]);
            scientific(sequence([Expr::literal("+").optional(), exponent]))
        })
    }

    /// Any number from 0 of bounded length whose value a float can hold.
    pub(super) fn magnitude(&mut self, builder: &mut GrammarBuilder) -> Expr {
        self.made(builder, "json-magnitude", |_, _| {
            // 20 digits times 10^288 is still a finite float; 10^-999 is zero.
            let hundreds = sequence([Expr::literal("1"), digit(), digit()]);
            let tens = sequence([Expr::class([('0', '7')]), digit()]);
            let last = sequence([Expr::literal("8"), Expr::class([('0', '8')])]);
            let more = sequence([Expr::literal("2"), Expr::choice([tens, last])]);
            let high = Expr::choice([
                Expr::literal("289"),
                sequence([Expr::literal("29"), digit()]),
                sequence([Expr::literal("30"), Expr::class([('0', '7')])]),
            ]);
            let up = Expr::choice([digit().repeat(1, Some(2)), hundreds, more]);
            magnitude(up, high, 3)
        })
    }

    /// Any number that 32 bits of floating point can hold.
    pub(super) fn single(&mut self, builder: &mut GrammarBuilder) -> Expr {
        self.made(builder, "json-single", |_, _| {
            // 20 digits times 10^18 is below 3.4 times 10^38.
            let up = Expr::choice([digit(), sequence([Expr::literal("1"), Expr::class([('0', '8')])])]);
            let high = Expr::choice([
                Expr::literal("19"),
                sequence([Expr::literal("2"), digit()]),
                sequence([Expr::literal("3"), Expr::class([('0', '7')])]),
            ]);
            sequence([Expr::literal("-").optional(), magnitude(up, high, 2)])
        })
    }

    /// Any number.
    pub(super) fn number(&mut self, builder: &mut GrammarBuilder) -> Expr {
        self.made(builder, "json-number", |json, builder| {
            sequence([Expr::literal("-").optional(), json.magnitude(builder)])
        })
    }

    /// Any JSON value.
    pub(super) fn value(&mut self, builder: &mut GrammarBuilder) -> Expr {
        if let Some(id) = self.value {
            return Expr::Rule(id);
        }
        let suffix = match self.whitespace {
            Whitespace::Spaced => String::new(),
            Whitespace::Compact => "-compact".to_owned(),
            Whitespace::Flexible { max } => format!("-ws-{max}"),
        };
        let names = ["value", "object", "array"].map(|kind| format!("json-{kind}{suffix}"));
        let found = names.each_ref().map(|name| builder.find(name));
        if let [Some(value), Some(object), Some(array)] = found {
            let same = self
                .value_bodies(builder, value, object, array)
                .iter()
                .zip([value, object, array])
                .all(|(body, id)| builder.body(id) == Some(body));
            if same {
                self.value = Some(value);
                return Expr::Rule(value);
            }
        }
        let [value, object, array] = names.each_ref().map(|name| builder.declare(name));
        let bodies = self.value_bodies(builder, value, object, array);
        for (id, body) in [value, object, array].into_iter().zip(bodies) {
            builder.define(id, body);
        }
        self.value = Some(value);
        Expr::Rule(value)
    }

    fn value_bodies(
        &mut self,
        builder: &mut GrammarBuilder,
        value: RuleId,
        object: RuleId,
        array: RuleId,
    ) -> [Expr; 3] {
        let (string, number) = (self.string(builder), self.number(builder));
        let (gap, comma, colon) = (self.gap(builder), self.comma(builder), self.colon(builder));
        let list = |open: &str, item: Expr, close: &str| {
            let more = sequence([comma.clone(), item.clone()]).repeat(0, None);
            let items = sequence([item, more, gap.clone()]).optional();
            sequence([Expr::literal(open), gap.clone(), items, Expr::literal(close)])
        };
        let member = sequence([string.clone(), colon.clone(), Expr::Rule(value)]);
        [
            Expr::choice([
                Expr::Rule(object),
                Expr::Rule(array),
                string,
                number,
                Expr::literal("true"),
                Expr::literal("false"),
                Expr::literal("null"),
            ]),
            list("{", member, "}"),
            list("[", Expr::Rule(value), "]"),
        ]
    }
}

fn digit() -> Expr {
    Expr::class([('0', '9')])
}

/// Exponents from 100 to 307.
fn hundreds() -> Expr {
    Expr::choice([
        sequence([Expr::class([('1', '2')]), digit().repeat(2, Some(2))]),
        sequence([Expr::literal("30"), Expr::class([('0', '7')])]),
    ])
}

/// One digit that is not zero, a fraction, and this exponent.
fn scientific(exponent: Expr) -> Expr {
    let fraction = sequence([Expr::literal("."), digit().repeat(1, Some(17))]).optional();
    sequence([Expr::class([('1', '9')]), fraction, Expr::class([('e', 'e'), ('E', 'E')]), exponent])
}

/// A number from 0 with the exponents `up`, with those of `high` behind a single digit, and negative ones of up to
/// `down` digits.
fn magnitude(up: Expr, high: Expr, down: u64) -> Expr {
    let whole = Expr::choice([
        Expr::literal("0"),
        // As many digits as 64 bits take.
        sequence([Expr::class([('1', '9')]), digit().repeat(0, Some(19))]),
    ]);
    let fraction = sequence([Expr::literal("."), digit().repeat(1, Some(PLACES as u64))]);
    let e = Expr::class([('e', 'e'), ('E', 'E')]);
    let plus = Expr::literal("+").optional();
    let up = sequence([plus.clone(), up]);
    let down = sequence([Expr::literal("-"), digit().repeat(1, Some(down))]);
    let exponent = sequence([e.clone(), Expr::choice([up, down])]);
    let one = Expr::class([('1', '9')]);
    Expr::choice([
        sequence([whole, fraction.clone().optional(), exponent.optional()]),
        sequence([one, fraction.optional(), e, plus, high]),
    ])
}

/// The rule called `name`, or that with a number, that has this body; made if it is not there yet.
fn rule(builder: &mut GrammarBuilder, name: &str, body: Expr) -> RuleId {
    let mut candidate = name.to_owned();
    let mut n = 2;
    while let Some(id) = builder.find(&candidate) {
        if builder.body(id) == Some(&body) {
            return id;
        }
        candidate = format!("{name}-{n}");
        n += 1;
    }
    builder.rule(name, body)
}
