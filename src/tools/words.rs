//! Words of a request that could name something: what of it a tool may be asked for.

/// Bytes of a word; a longer one is no name.
const WORD_BYTES: usize = 255;

/// Whether a word looks like a path: `a/b`, `a.txt`, `.env`; no number.
pub(crate) fn is_pathlike(word: &str) -> bool {
    let has_letter = word.contains(char::is_alphabetic);
    let is_dotted = word.trim_end_matches('.').contains('.');
    has_letter && (word.contains('/') || is_dotted)
}

/// Whether a text is a value as programs write them: a number, a truth value, or something quoted.
pub(super) fn is_literal(text: &str) -> bool {
    let text = text.trim().trim_end_matches([',', ';']);
    let is_quoted =
        ['"', '\''].iter().any(|&quote| text.len() > 1 && text.starts_with(quote) && text.ends_with(quote));
    is_quoted
        || text.parse::<f64>().is_ok()
        || ["true", "false", "null", "none"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// The words of a request that are names of files to be written, as far as that can be told: with an ending of letters, and
/// not what something else is about ("notes about node.js", "a page for example.com").
pub(super) fn files_of(request: &str) -> impl Iterator<Item = &str> {
    let mut before = "";
    request.split_whitespace().filter_map(move |spaced| {
        let is_mark = |c: char| "\"'`“”‘’«»()[]{}<>,;:!?*".contains(c);
        let word = spaced.trim_start_matches(is_mark).trim_end_matches(|c| is_mark(c) || c == '.');
        let subject = TOPICS.contains(&std::mem::replace(&mut before, word).to_lowercase().as_str());
        (is_pathlike(word) && has_ending(word) && !subject).then_some(word)
    })
}

/// Words behind which stands what something is about, or comes from.
const TOPICS: [&str; 8] = ["about", "for", "from", "like", "of", "on", "using", "with"];

/// Whether a path ends as names of files do: `.md`, `.gitignore`; no version and no abbreviation.
pub(super) fn has_ending(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    let is_abbreviation = stem.chars().count() == 1 && ending.chars().count() == 1;
    ending.starts_with(char::is_alphabetic) && !is_abbreviation
}

/// Whether a word is written as names in programs are, `max_size`, `RetryBudget`, `LIMIT`, or as numbers of things are,
/// `JT-518`; no abbreviation of two letters.
pub(super) fn is_identifier(word: &str) -> bool {
    let numbered = |(name, number): (&str, &str)| {
        let is_name = !name.is_empty() && name.chars().all(char::is_uppercase);
        is_name && !number.is_empty() && number.chars().all(|c| c.is_ascii_digit())
    };
    if word.split_once('-').is_some_and(numbered) {
        return true;
    }
    let is_plain = word.chars().all(|c| c.is_alphanumeric() || c == '_');
    let inner_capitals = word.chars().skip(1).filter(|c| c.is_uppercase()).count();
    is_plain
        && word.contains(char::is_alphabetic)
        && (word.contains('_') || inner_capitals > 0)
        && word.chars().count() > 2
}

/// A path without what does not change it.
pub(crate) fn plain(word: &str) -> &str {
    word.strip_prefix("./").unwrap_or(word).trim_end_matches('/')
}

/// What could be a name in a text: words without the punctuation around them, what is quoted, and runs of the
/// characters of names within scripts that write no blanks.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let separates = |c: char| c.is_whitespace() || "\"'`“”‘’«»„()[]{}<>,;|*".contains(c);
    let spaced = text.split(separates).map(|word| word.trim_end_matches(['.', ':', '!', '?', '。', '，']));
    let in_name = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let runs = text.split(move |c| !in_name(c)).map(|run| run.trim_end_matches('.'));
    let quoted = ['"', '`'].into_iter().flat_map(|quote| text.split(quote).skip(1).step_by(2));
    let is_name = |word: &&str| {
        !word.is_empty() && word.len() <= WORD_BYTES && !word.contains(|c: char| c.is_control())
    };
    spaced.chain(runs).chain(quoted).filter(is_name).map(str::to_owned)
}

/// The words of a request that name something: paths, identifiers, numbers, names within a sentence, what is quoted.
pub(crate) fn specific(request: &str) -> impl Iterator<Item = &str> {
    let mut starts_sentence = true;
    let words = request.split_whitespace().filter_map(move |spaced| {
        let word = spaced.trim_matches(|c: char| !(c.is_alphanumeric() || c == '_'));
        let is_start = std::mem::replace(&mut starts_sentence, spaced.ends_with(['.', '!', '?', ':']));
        (!word.is_empty() && is_specific(word, is_start)).then_some(word)
    });
    words.chain(quoted(request))
}

/// What stands between double quotes or backticks.
fn quoted(request: &str) -> impl Iterator<Item = &str> {
    let between = |quote: char| request.split(quote).skip(1).step_by(2);
    ['"', '`'].into_iter().flat_map(between).filter(|text| !text.trim().is_empty())
}

fn is_specific(word: &str, starts_sentence: bool) -> bool {
    let mut chars = word.chars();
    let is_name =
        chars.next().is_some_and(char::is_uppercase) && chars.next().is_some_and(char::is_alphabetic);
    let has = |wanted: fn(char) -> bool| word.chars().any(wanted);
    has(|c| c.is_ascii_digit())
        || has(|c| matches!(c, '_' | '/'))
        || word.contains('.')
        || (is_name && !starts_sentence)
}

/// The numbers of a request, what is quoted in it, and what is to become something else: values rather than names.
pub(super) fn values(request: &str) -> impl Iterator<Item = &str> {
    let is_number = |word: &&str| word.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ','));
    specific(request).filter(is_number).chain(quoted(request)).chain(replaced(request))
}

/// The words that stand for what is there now: `false` of "from false to true".
fn replaced(request: &str) -> impl Iterator<Item = &str> {
    let is_mark = |c: char| !(c.is_alphanumeric() || c == '_');
    let words: Vec<&str> = request.split_whitespace().map(|word| word.trim_matches(is_mark)).collect();
    let among = |at: usize| match words.get(at..at + 3)? {
        [from, word, to] if from.eq_ignore_ascii_case("from") && to.eq_ignore_ascii_case("to") => Some(*word),
        _ => None,
    };
    let found: Vec<&str> = (0..words.len()).filter_map(among).filter(|word| !word.is_empty()).collect();
    found.into_iter()
}

/// Whether a request wants something changed that is there, as far as its words tell.
pub(super) fn wants_change(request: &str) -> bool {
    let words = lower_words(request);
    let has = |list| words.iter().any(|word| is_among(word, list));
    has(CHANGES) && !has(CREATES)
}

/// Whether a request wants all of a file's text replaced, as far as its words tell.
pub(super) fn wants_whole(request: &str) -> bool {
    lower_words(request).iter().any(|word| is_among(word, "overwrite rewrite"))
}

/// Whether a request wants to be told what is in something, as far as its words tell.
pub(super) fn wants_look(request: &str) -> bool {
    let words = lower_words(request);
    request.contains('?') || words.iter().any(|word| is_among(word, ASKS) || is_among(word, LOOKS))
}

/// Whether a request is only done when something has been changed, as far as its words tell. It may be one about changes
/// ("what did she set it to?"), and then nothing should be.
pub(crate) fn demands_change(request: &str) -> bool {
    let words = lower_words(request);
    let asks = words.first().is_some_and(|first| is_among(first, ASKS));
    !asks && words.iter().any(|word| is_among(word, DEMANDS))
}

fn lower_words(text: &str) -> Vec<String> {
    let trimmed = text.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    trimmed.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// Whether a word is one of a list with blanks between.
pub(super) fn is_among(word: &str, list: &str) -> bool {
    list.split(' ').any(|other| other.eq_ignore_ascii_case(word))
}

const CHANGES: &str =
    "bump change correct decrease edit fix increase modify raise rename replace set switch turn update";
/// Those of them that hardly ever stand for something else.
const DEMANDS: &str = "bump change correct edit fix modify rename replace update";
/// How a question begins that wants to be told something.
const ASKS: &str = "are did do does how is list read show summarize tell was what when where which who why";
const LOOKS: &str = "check contents display explain find look open print see summary view";
const CREATES: &str = "create draft generate new overwrite save write";

/// Whether `text` holds `word` with nothing alphanumeric around it, where the word itself is alphanumeric at that edge.
pub(crate) fn holds_word(text: &str, word: &str) -> bool {
    let inner = |c: Option<char>, edge: Option<char>| {
        c.is_some_and(char::is_alphanumeric) && edge.is_some_and(char::is_alphanumeric)
    };
    !word.is_empty()
        && text.match_indices(word).any(|(at, _)| {
            let before = text.get(..at).and_then(|before| before.chars().next_back());
            let after = text.get(at + word.len()..).and_then(|after| after.chars().next());
            !inner(before, word.chars().next()) && !inner(after, word.chars().next_back())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_not_held_by_a_longer_one() {
        assert!(holds_word("timeout: 45", "45") && holds_word("45", "45") && holds_word("(45)", "45"));
        assert!(!holds_word("450", "45") && !holds_word("a45", "45") && !holds_word("", "45"));
        assert!(!holds_word("x", "") && holds_word("a (b)", "(b"));
    }

    #[test]
    fn names_and_values_are_told_from_other_words() {
        let request = "Please ask Ana to set LIMIT_MB from 3.5 to 12 in conf/a.toml and say \"so long\".";
        let found: Vec<&str> = specific(request).collect();
        assert_eq!(found, ["Ana", "LIMIT_MB", "3.5", "12", "conf/a.toml", "so long"]);
        assert_eq!(values(request).collect::<Vec<_>>(), ["3.5", "12", "so long", "3.5"]);
        assert_eq!(values("Turn hints from `false` to true.").collect::<Vec<_>>(), ["false", "false"]);
        assert_eq!(values("A letter from Ana to").count(), 1, "as far as words tell");
        assert!(wants_change("In a.conf, set the volume to 7") && wants_change("Please fix b.txt"));
        assert!(!wants_change("Put 7 into a.conf") && !wants_change("Create a file that sets it"));
        assert!(!wants_change("I need a new file that says: set it"));
        assert!(
            demands_change("There is a typo in it. Please fix it.") && demands_change("Find X and change it")
        );
        assert!(!demands_change("What did she change?") && !demands_change("Put 7 into a.conf"));
        assert!(is_pathlike(".env") && is_pathlike("a/b") && is_pathlike("a.txt"));
        let files = |request| files_of(request).collect::<Vec<&str>>();
        assert_eq!(files("Make me a todo.md, and `b/c.tar.gz`."), ["todo.md", "b/c.tar.gz"]);
        assert_eq!(files("Write a .gitignore that ignores *.log"), [".gitignore", ".log"]);
        assert!(files("Write notes for v1.2 about node.js, e.g. and/or gates on example.com").is_empty());
        assert!(["max_size", "RetryBudget", "LIMIT", "http2Port", "JT-518"].into_iter().all(is_identifier));
        assert!(
            !["Ana", "port", "UK", "a.b_c", "__", "42", "2026-11", "part-2", "-1"]
                .into_iter()
                .any(is_identifier)
        );
        assert!(["25", "-0.5,", "True", "\"a b\";", "null"].into_iter().all(is_literal));
        assert!(!["LIMIT", "", "\"", "25 MB", "a = 1"].into_iter().any(is_literal));
        assert!(!is_pathlike("3.5") && !is_pathlike("etc.") && !is_pathlike("word"));
    }
}
