//! Does a whole text match a grammar, and if not, where does it stop and what could have come there.
//!
//! Above `gbnf` and `engine`: it runs the grammar over single bytes, and over the tokens that the grammar itself names.
//! Invariant: the place it reports is a character of the text or its end.

use std::sync::Arc;

use crate::gbnf::{Expr, Grammar, TokenMatch, TokenName, analysis, find, lex::Shown, source};
use crate::{Automaton, Error, Kind, Limits, Matcher, Place, TokenId, TokenKind, Vocabulary};

/// The outcome of [`Grammar::match_text`].
///
/// ```
/// use toolgate_grammar::{Grammar, Limits};
/// let grammar = Grammar::parse(r#"root ::= [a-z]+ "!""#)?;
/// let outcome = grammar.match_text("hello?", &Limits::default())?;
/// let expected = "? is not allowed at 1:6
///   |
/// 1 | hello?
///   |      ^
/// expected: !  a-z";
/// assert_eq!(outcome.report(), expected);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Whether the whole text matches.
    pub matched: bool,
    /// The byte offset of the first character that is not allowed; the text's length if it only is not finished.
    pub offset: usize,
    /// The same as line and column.
    pub place: Place,
    /// What could have come there: characters, ranges, literal texts, `end of text`.
    pub expected: Vec<String>,
    /// What stands there; nothing at the end.
    found: Option<String>,
    excerpt: String,
}

impl Match {
    /// The whole report: what stopped it, an excerpt with a caret, what was expected; several lines.
    pub fn report(&self) -> String {
        if self.matched {
            return "matches".to_owned();
        }
        let excerpt = &self.excerpt;
        format!("{self}\n{excerpt}\nexpected: {}", self.expected.join("  "))
    }
}

impl std::fmt::Display for Match {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.matched {
            return f.write_str("matches");
        }
        match &self.found {
            Some(found) => write!(f, "{found} is not allowed")?,
            None => write!(f, "text ends too early")?,
        }
        match &self.place {
            Place::Line { line, column } => write!(f, " at {line}:{column}"),
            _ => Ok(()),
        }
    }
}

impl Grammar {
    /// Whether the whole of `text` matches. Tokens that the grammar names by text are recognized in it: the longest at each
    /// place, as a tokenizer takes it. A grammar that allows both a token and its characters at a place gets the token.
    ///
    /// ```
    /// use toolgate_grammar::{Grammar, Limits};
    /// let grammar = Grammar::parse(r#"root ::= "{" [a-z]+ ("," [a-z]+)* "}""#)?;
    /// assert!(grammar.match_text("{a,b}", &Limits::default())?.matched);
    /// let stopped = grammar.match_text("{a,}", &Limits::default())?;
    /// assert_eq!((stopped.offset, stopped.expected.join(" ")), (3, "a-z".to_owned()));
    /// # Ok::<(), toolgate_grammar::Error>(())
    /// ```
    ///
    /// # Errors
    /// Whatever the engine refuses the grammar for: left recursion, a grammar that matches nothing, a bound of
    /// `limits`; and [`Kind::Unsupported`] for a token named by number, since there is no vocabulary here.
    pub fn match_text(&self, text: &str, limits: &Limits) -> Result<Match, Error> {
        let names = token_names(self)?;
        let automaton = Automaton::new(self, Arc::new(vocabulary(&names)?), limits)?;
        let mut matcher = automaton.matcher();
        let mut tokens = find::Names::new(names.clone()).read(text).into_iter().peekable();
        let mut at = 0;
        while let Some(byte) = text.as_bytes().get(at) {
            // A named token is the longest that the text goes on with, as tokenizers take it; where the grammar
            // does not allow it, it may still be spelled out as text.
            if let Some((place, number)) = tokens.next_if(|(place, _)| place.start == at) {
                let (token, name) = (FIRST_NAMED + number, text.get(place).unwrap_or_default());
                if matcher.allows(token)? {
                    matcher.accept(token)?;
                } else if let Err(error) = matcher.accept_bytes(name.as_bytes()) {
                    return match error.kind() {
                        Kind::Rejected => stopped(&mut matcher, &names, text, at, Some(name)),
                        _ => Err(error),
                    };
                }
                at += name.len();
                continue;
            }
            if let Err(error) = matcher.accept(TokenId::from(*byte)) {
                if error.kind() != Kind::Rejected {
                    return Err(error);
                }
                // The engine may stop inside a character; the report is about the whole character.
                let start = (0..=at).rev().find(|start| text.is_char_boundary(*start)).unwrap_or(0);
                matcher.rollback(at - start)?;
                return stopped(&mut matcher, &names, text, start, None);
            }
            at += 1;
        }
        if matcher.is_complete() {
            let place = source::place(text, text.len());
            let offset = text.len();
            return Ok(Match {
                matched: true,
                offset,
                place,
                expected: Vec::new(),
                found: None,
                excerpt: String::new(),
            });
        }
        stopped(&mut matcher, &names, text, text.len(), None)
    }
}

/// Bytes 0 to 255, an end token, and the tokens the grammar names.
fn vocabulary(names: &[&str]) -> Result<Vocabulary, Error> {
    if names.is_empty() {
        return Ok(Vocabulary::bytes_only());
    }
    let bytes = (0..=u8::MAX).map(|byte| (vec![byte], TokenKind::Text));
    let end = std::iter::once((b"<end of text>".to_vec(), TokenKind::EndOfGeneration));
    let named = names.iter().map(|name| (name.as_bytes().to_vec(), TokenKind::Special));
    Vocabulary::new(bytes.chain(end).chain(named))
}

const FIRST_NAMED: TokenId = 257;

/// The texts of all token terminals, each once.
fn token_names(grammar: &Grammar) -> Result<Vec<&str>, Error> {
    let mut names: Vec<&str> = Vec::new();
    for expr in analysis::Flat::new(grammar).exprs {
        match expr {
            Expr::Token(TokenMatch { name: TokenName::Text(text), .. }) => names.push(text),
            Expr::Token(TokenMatch { name: TokenName::Id(id), .. }) => {
                let message = format!("token <[{id}]> means nothing without a vocabulary");
                return Err(Error::new(Kind::Unsupported, message).hint("name the token by its text"));
            }
            _ => {}
        }
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

fn stopped(
    matcher: &mut Matcher,
    names: &[&str],
    text: &str,
    offset: usize,
    token: Option<&str>,
) -> Result<Match, Error> {
    let character = text.get(offset..).and_then(|rest| rest.chars().next());
    let found = match token {
        Some(name) => Some(format!("token {name}")),
        None => character.map(|c| Shown(c).to_string()),
    };
    Ok(Match {
        matched: false,
        offset,
        place: source::place(text, offset),
        expected: expected(matcher, names)?,
        found,
        excerpt: source::excerpt(text, offset),
    })
}

/// What may come next, in words: a text if there is no choice, else characters and ranges.
fn expected(matcher: &mut Matcher, names: &[&str]) -> Result<Vec<String>, Error> {
    let forced = matcher.forced()?;
    if let Ok(forced) = std::str::from_utf8(&forced)
        && forced.chars().count() > 1
    {
        return Ok(vec![format!("{forced:?}")]);
    }
    let mask = matcher.mask()?;
    let allowed = |byte: u8| mask.contains(TokenId::from(byte));
    let mut out = Vec::new();
    let printable: Vec<u8> = (b'!'..=b'~').filter(|byte| allowed(*byte)).collect();
    let refused: Vec<u8> = (b'!'..=b'~').filter(|byte| !allowed(*byte)).collect();
    if refused.len() <= 8 && !printable.is_empty() {
        let but: Vec<String> = refused.iter().map(|byte| char::from(*byte).to_string()).collect();
        out.push(if but.is_empty() {
            "any printable character".to_owned()
        } else {
            format!("any printable character but {}", but.join(" "))
        });
    } else {
        out.extend(runs(&printable));
    }
    for (byte, name) in [(b' ', "blank"), (b'\t', "tab"), (b'\n', "line break"), (b'\r', "carriage return")] {
        if allowed(byte) {
            out.push(name.to_owned());
        }
    }
    if (0..b' ').any(|byte| allowed(byte) && !b"\t\n\r".contains(&byte)) {
        out.push("control characters".to_owned());
    }
    if (0x80..=u8::MAX).any(allowed) {
        out.push("characters beyond ASCII".to_owned());
    }
    let named = names.iter().zip(FIRST_NAMED..).filter(|(_, token)| mask.contains(*token));
    out.extend(named.map(|(name, _)| format!("token {name}")));
    if matcher.is_complete() {
        out.push("end of text".to_owned());
    }
    Ok(out)
}

/// Bytes as ranges where three or more follow one another within digits, capitals or small letters.
fn runs(bytes: &[u8]) -> Vec<String> {
    let kind = |byte: u8| (byte.is_ascii_digit(), byte.is_ascii_uppercase(), byte.is_ascii_lowercase());
    let alphanumeric = |byte: u8| byte.is_ascii_alphanumeric();
    let groups =
        bytes.chunk_by(|a, b| alphanumeric(*a) && kind(*a) == kind(*b) && a.checked_add(1) == Some(*b));
    let text = |group: &[u8]| match group {
        [first, _, .., last] => vec![format!("{}-{}", char::from(*first), char::from(*last))],
        few => few.iter().map(|byte| char::from(*byte).to_string()).collect(),
    };
    groups.flat_map(text).collect()
}
