//! The grammars of the differential test: each shows one thing, under the name of what it shows.

/// Name and GBNF text.
pub(crate) const GRAMMARS: &[(&str, &str)] = &[
    ("literal", r#"root ::= "hello world""#),
    ("literal choice", r#"root ::= "read_file" | "read_directory" | "ready" | "write""#),
    ("common beginnings", r#"root ::= "a" ("b" "c" | "bd" | "b") "e"?"#),
    ("empty alternative", "root ::= (\"yes\" | ) \"!\""),
    ("may be empty", r#"root ::= "x"*"#),
    ("class", "root ::= [a-z]+"),
    ("class with digits and dash", r#"root ::= [a-zA-Z_0-9\-]+ "." [a-z]{2,4}"#),
    ("negated class", r#"root ::= "\"" [^"\\\x00-\x1F\x7F]* "\"""#),
    ("class of brackets", r#"root ::= [\[\]]+ "x""#),
    ("any character", "root ::= . . ."),
    ("any characters", r#"root ::= "<" .* ">""#),
    ("one to three", r#"root ::= [0-9]{1,3} "." [0-9]{1,3}"#),
    ("exactly four", r#"root ::= [0-9]{4} "-" [0-9]{2} "-" [0-9]{2}"#),
    ("at least two", r#"root ::= "ab"{2,} "c""#),
    ("at most three", r#"root ::= "ab"{0,3} "c""#),
    ("counted group", r#"root ::= ("a" | "bc"){2,5} "d""#),
    ("long count", r#"root ::= [a-z ]{3,40} ".""#),
    ("nested counts", r#"root ::= ([a-c]{1,2} ","){1,3} "z""#),
    ("plus of optional", r#"root ::= ("a" "b"?)+ "c""#),
    ("right recursion", "root ::= item\nitem ::= \"(\" item \")\" | \"x\""),
    ("balanced brackets", "root ::= pair+\npair ::= \"[\" pair* \"]\" | \"{\" pair* \"}\""),
    ("mutual recursion", "root ::= a\na ::= \"x\" b | \"end\"\nb ::= \"y\" a | \"z\""),
    ("palindrome", "root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"c\""),
    ("ambiguous sum", "root ::= term (\"+\" term | \"-\" term)*\nterm ::= [0-9]+ | \"(\" root \")\""),
    ("ambiguous words", r#"root ::= ("a" | "aa" | "aaa")+ "b""#),
    (
        "arithmetic",
        "root ::= (expr \"=\" ws term \"\\n\")+\nexpr ::= term ([-+*/] term)*\nterm ::= ident | num | \"(\" ws expr \")\" ws\nident ::= [a-z] [a-z0-9_]* ws\nnum ::= [0-9]+ ws\nws ::= [ \\t\\n]*",
    ),
    ("latin with accents", r#"root ::= [a-zéèàùçœ]+ " !""#),
    ("greek and cyrillic", "root ::= ([α-ω]+ \" \" [а-я]+)+"),
    ("cjk range", "root ::= [一-龯ぁ-んァ-ン]+"),
    ("emoji", "root ::= [\\U0001F600-\\U0001F64F]+ \"\\n\""),
    ("unicode literal", r#"root ::= "naïve café — 日本" " 😀""#),
    ("escapes", "root ::= \"\\x41\\u00e9\\U0001F600\\t\\r\\n\\\\\\\"\" [\\x00-\\x1f]"),
    ("not ascii", "root ::= [^\\x00-\\x7F]{1,4}"),
    ("single characters around an edge", "root ::= [߿ࠀ￿𐀀]+"),
    ("boolean or null", r#"root ::= "true" | "false" | "null""#),
    (
        "json number",
        "root ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15}) (\".\" [0-9]{1,16})? ([eE] [-+]? [0-9]{1,3})?",
    ),
    (
        "json string",
        "root ::= \"\\\"\" char* \"\\\"\"\nchar ::= [^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" [0-9a-fA-F]{4})",
    ),
    ("json", JSON),
    (
        "json object with keys in order",
        "root ::= \"{\" ws \"\\\"name\\\"\" ws \":\" ws string (\",\" ws \"\\\"age\\\"\" ws \":\" ws [0-9]{1,3})? ws \"}\"\nstring ::= \"\\\"\" [^\"\\\\]* \"\\\"\"\nws ::= [ \\n]{0,4}",
    ),
    ("json list of numbers", "root ::= \"[\" ([0-9]+ (\", \" [0-9]+)*)? \"]\""),
    (
        "tool call",
        "root ::= \"<tool_call>\\n{\\\"name\\\": \\\"\" call \"}\\n</tool_call>\"\ncall ::= \"read_file\\\", \\\"arguments\\\": {\\\"path\\\": \" string \"}\" | \"list_directory\\\", \\\"arguments\\\": {\\\"depth\\\": \" [0-9]{1,2} \"}\"\nstring ::= \"\\\"\" [^\"\\\\\\x00-\\x1F]{1,60} \"\\\"\"",
    ),
    (
        "several tool calls",
        "root ::= call (\"\\n\" call)*\ncall ::= \"<tool_call>\\n\" [a-z_]+ \"(\" args? \")\\n</tool_call>\"\nargs ::= arg (\", \" arg)*\narg ::= [a-z]+ \"=\" ([0-9]+ | \"'\" [^']* \"'\")",
    ),
    ("answer without markers", "root ::= ([^<] | \"<\" [^t])*"),
    (
        "pythonic call",
        "root ::= \"[\" name \"(\" pair (\", \" pair)* \")\" \"]\"\nname ::= \"get_weather\" | \"get_time\"\npair ::= [a-z]+ \"=\" value\nvalue ::= \"\\\"\" [^\"]* \"\\\"\" | \"True\" | \"False\" | [0-9]+",
    ),
    (
        "xml",
        "root ::= \"<function=\" [a-z_]+ \">\\n\" (\"<parameter=\" [a-z]+ \">\\n\" [^<]* \"\\n</parameter>\\n\")* \"</function>\"",
    ),
    (
        "date and time",
        "root ::= [12] [0-9]{3} \"-\" (\"0\" [1-9] | \"1\" [0-2]) \"-\" (\"0\" [1-9] | [12] [0-9] | \"3\" [01]) \"T\" ([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9]",
    ),
    (
        "chess",
        "root ::= \"1. \" move \" \" move \"\\n\" ([1-9] [0-9]? \". \" move \" \" move \"\\n\")*\nmove ::= (pawn | piece | castle) [+#]?\npiece ::= [NBKQR] [1-8a-h]? \"x\"? [a-h] [1-8]\npawn ::= ([a-h] \"x\")? [a-h] [1-8] (\"=\" [NBKQR])?\ncastle ::= \"O-O\" \"-O\"?",
    ),
    ("markdown list", "root ::= item+\nitem ::= \"- \" [^\\r\\n\\x0b\\x0c\\x85\\u2028\\u2029]+ \"\\n\""),
    ("white space", "root ::= [ \\t\\n]{1,10} \"x\""),
    ("hidden optional", "root ::= a b c \"!\"\na ::= \"x\"?\nb ::= a a\nc ::= (\"y\" | b)"),
    ("deep groups", r#"root ::= ((((("a" | "b") "c") | "d") "e"){1,2} | "f") "g""#),
    (
        "many alternatives",
        r#"root ::= "alpha" | "beta" | "gamma" | "delta" | "epsilon" | "zeta" | "eta" | "theta" | "iota" | "kappa" | "lambda" | "mu" | "nu" | "xi""#,
    ),
    (
        "comments and line breaks",
        "# a greeting\nroot ::= # here\n  \"hi\" | (\n  \"hello\" # or so\n  | \"hey\"\n) \" \" name\nname ::= [A-Z] [a-z]*",
    ),
];

const JSON: &str = r#"root ::= object
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}"#;

/// Grammars of single tokens, by name: `{start}` and `{end}` are control tokens of the vocabulary.
pub(crate) const TOKEN_GRAMMARS: &[(&str, &str)] = &[
    ("token between texts", r#"root ::= "a" <[{start}]> "b""#),
    ("token by text", r#"root ::= <{start-text}> [a-z]+"#),
    ("any token but one", r#"root ::= !<[{start}]>{1,3} <[{start}]>"#),
    ("token or text", r#"root ::= (<[{start}]> | "x"){1,4} "y""#),
    ("text token by number", r#"root ::= <[{hello}]> <[{hello}]> "!""#),
];
