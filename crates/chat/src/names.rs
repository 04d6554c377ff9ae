//! What the name of a tool tells of it, where nothing else does: `read_file` looks, `sendMail` changes.
//!
//! For the packages of this workspace alone: no part of the API.

use crate::Effect;

/// The words of a name in lower case: of `fs__readTextFile`, `fs`, `read`, `text` and `file`.
pub fn name_parts(name: &str) -> impl Iterator<Item = String> + '_ {
    let mut before = None;
    let mut spaced = String::with_capacity(name.len());
    for c in name.chars() {
        if before.replace(c).is_some_and(char::is_lowercase) && c.is_uppercase() {
            spaced.push('_');
        }
        spaced.extend(c.to_lowercase());
    }
    let words: Vec<String> = spaced.split(|c: char| !c.is_alphanumeric()).map(str::to_owned).collect();
    words.into_iter().filter(|word| !word.is_empty())
}

/// Whether a word is one of a list with blanks between.
pub fn is_among(word: &str, list: &str) -> bool {
    list.split(' ').any(|other| other.eq_ignore_ascii_case(word))
}

/// Whether `text` holds `word` with nothing alphanumeric around it, where the word itself is alphanumeric at that edge.
pub fn holds_word(text: &str, word: &str) -> bool {
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

/// Whether a tool of that name only looks, and says the same when it is asked the same again, as far as the name tells.
pub fn looks(tool: &str) -> bool {
    let parts: Vec<String> = name_parts(tool).collect();
    verb(&parts) == Some(Verb::Looks) && !parts.iter().any(|part| is_among(part, PASSES))
}

/// What a call of a tool of that name does, as far as the name tells. One that looks may find another thing a moment later.
pub fn effect(tool: &str) -> Effect {
    let parts: Vec<String> = name_parts(tool).collect();
    match parts.as_slice() {
        [only] if is_among(only, ALONE) => Effect::Reads,
        _ => match verb(&parts) {
            Some(Verb::Looks) => Effect::Reads,
            Some(Verb::Changes) => Effect::Changes,
            None => Effect::Unknown,
        },
    }
}

/// Whether a call of a tool of that name does more each time, as one that adds or presses does; once more, others leave all as it is.
pub fn steps(tool: &str) -> bool {
    name_parts(tool).any(|part| is_among(&part, STEPS))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Looks,
    Changes,
}

/// What the parts of a name are about, by the first verb. A noun may look like one, `order_status`, and what follows tells; so does a
/// second verb, `search_and_replace`.
fn verb(parts: &[String]) -> Option<Verb> {
    let is_verb = |part: &&String| is_among(part, LOOKS) || is_among(part, CHANGES);
    let at = parts.iter().position(|part| is_verb(&part))?;
    let (first, rest) = parts.get(at..)?.split_first()?;
    let joined = rest.windows(2).any(|pair| match pair {
        [joint, next] => is_among(joint, "and or") && is_among(next, CHANGES),
        _ => false,
    });
    let is_noun = is_among(first, NOUNS) && rest.iter().any(|part| is_among(part, FOUND));
    Some(match is_among(first, LOOKS) || is_noun {
        true if !(joined || rest.iter().any(|part| part == "replace")) => Verb::Looks,
        _ => Verb::Changes,
    })
}

/// As agents that write code call their tools.
const ALONE: &str = "cat glob grep list ls read";
const LOOKS: &str = "browse calculate cat check compare compute convert count describe explain fetch find get glob grep \
    head inspect list look lookup ls peek preview query read recall recent retrieve scan search show stat summarize tail \
    think tree validate verify view";
const CHANGES: &str = "add append apply approve archive assign book build buy call cancel change clear close commit configure \
    copy create delete deploy disable draft drop edit enable enter erase execute export fill format generate import insert \
    install invite kill launch lock log make mark merge modify move mute open order patch pause pay place play post press print \
    publish purchase push put record register remember remove rename replace reply reserve reset restart resume run save \
    schedule send set share skip start stop store submit subscribe swap sync toggle transfer trigger turn undo uninstall \
    unlock update upgrade upload write";
/// What does more each time.
const STEPS: &str = "add append call click decrease draw increase log next play press previous print push roll run scroll skip step \
    swap toggle turn type undo";
/// Those of them that are things as well.
const NOUNS: &str = "book build call draft export import invite log mark order patch play post press print purchase record \
    register schedule share turn";
/// What is found rather than done.
const FOUND: &str = "details history info lookup price search status";
/// What is another thing a moment later.
const PASSES: &str =
    "clock current elapsed log logs next now poll progress random recent state status tail time";
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
    fn the_first_verb_of_a_name_tells_whether_it_changes_something() {
        for name in
            ["write_file", "sendMail", "fs__edit_file", "playlist.add", "run_command", "setLightColor"]
        {
            assert!(effect(name) == Effect::Changes && !looks(name), "{name}");
        }
        for name in ["read_file", "get_updated_orders", "fs__readTextFile", "lookup_order", "book_search"] {
            assert!(effect(name) == Effect::Reads && looks(name), "{name}");
        }
        for name in ["bash", "weather", "", "__", "order_status", "get_local_time", "get_job_status"] {
            assert!(!looks(name) && effect(name) != Effect::Changes, "{name}");
        }
    }
}
