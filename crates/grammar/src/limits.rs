//! Bounds on what a grammar may cost, each with its default and its price.

/// Bounds on parsing, compiling and running grammars. Reaching one is an [`Error`](crate::Error) of
/// [`Kind::Limit`](crate::Kind::Limit), never a crash and never a silently weaker grammar.
///
/// ```
/// use toolgate_grammar::gbnf::ParseOptions;
/// use toolgate_grammar::{Grammar, Kind, Limits};
/// let limits = Limits::default().rules(1);
/// let options = ParseOptions::default().limits(limits);
/// let error = Grammar::parse_with("root ::= digit\ndigit ::= [0-9]\n", &options).unwrap_err();
/// assert_eq!(error.kind(), Kind::Limit);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of GBNF text read, and of a text that a grammar forces or that completes one. Default 16 MiB.
    pub source_bytes: usize,
    /// Rules of a grammar. Default 200,000.
    pub rules: usize,
    /// Pieces of a GBNF text: literals, classes, names, quantifiers, bars and parentheses. Default 500,000; about a
    /// microsecond and a few hundred bytes each until an automaton is made of them.
    pub pieces: usize,
    /// Nesting of groups, of schemas, and of the parser's own recursion. Default 256.
    pub depth: usize,
    /// Stacks alive in one configuration (ambiguity). Default 4,096.
    pub stacks: usize,
    /// Configurations an automaton keeps memoized, what was used longest ago going first. Default 65,536; they take
    /// 1 KiB each on average at most, with their stacks and transitions.
    pub configurations: usize,
    /// Bytes of masks kept per automaton. Default 64 MiB.
    pub mask_bytes: usize,
    /// Steps beyond those that size alone takes: what ambiguity may cost the runs of an automaton as a whole, and what
    /// a schema may multiply out to. Default 4,000,000.
    ///
    /// A run takes them to find out what can follow. Besides, each configuration has 64, and those of the edges of one
    /// character class. They take 20 to 300 ns each where the grammar is ambiguous; a configuration takes half a
    /// microsecond by itself, and 20 with a class of thousands of ranges.
    ///
    /// A schema takes them once to be read and once to be compiled. Besides, each value in it has 64, and so have each
    /// 32 bytes of text. They take 10 to 250 ns each, mostly about 50, and hold up to 50 bytes. Proofs (that branches
    /// are disjoint, that listed values fit) may take twice as many, and automata of patterns four times; what these
    /// leave open is a checked keyword, and no error.
    pub work: usize,
    /// States of a string automaton (a pattern, a format, a product of several). Default 20,000.
    pub pattern_states: usize,
    /// Bytes of forced text returned at once. Default 4,096.
    pub forced_bytes: usize,
}

crate::setters! { Limits {
    source_bytes: usize,
    rules: usize,
    pieces: usize,
    depth: usize,
    stacks: usize,
    configurations: usize,
    mask_bytes: usize,
    work: usize,
    pattern_states: usize,
    forced_bytes: usize,
} }

impl Default for Limits {
    fn default() -> Self {
        Self {
            source_bytes: 16 << 20,
            rules: 200_000,
            pieces: 500_000,
            depth: 256,
            stacks: 4_096,
            configurations: 65_536,
            mask_bytes: 64 << 20,
            work: 4_000_000,
            pattern_states: 20_000,
            forced_bytes: 4_096,
        }
    }
}
