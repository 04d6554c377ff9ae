//! Words of requests: what they could name, and what they ask for, as far as English words tell.

use toolgate_chat::names::is_among;

/// Bytes of a word; a longer one is no name.
const WORD_BYTES: usize = 255;

/// Whether a word looks like a path: `a/b`, `a.txt`, `.env`; no number.
pub(super) fn is_pathlike(word: &str) -> bool {
    let has_letter = word.contains(char::is_alphabetic);
    let is_dotted = word.trim_end_matches('.').contains('.');
    has_letter && (word.contains('/') || is_dotted)
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
/// `JT-518`; no abbreviation of three letters, or of four capital ones.
pub(super) fn is_identifier(word: &str) -> bool {
    let numbered = |(name, number): (&str, &str)| {
        let is_name = !name.is_empty() && name.chars().all(char::is_uppercase);
        is_name && !number.is_empty() && number.chars().all(|c| c.is_ascii_digit())
    };
    if word.split_once('-').is_some_and(numbered) {
        return true;
    }
    let is_plain = word.chars().all(|c| c.is_alphanumeric() || c == '_');
    let has_inner_capital = word.chars().skip(1).any(char::is_uppercase);
    let letters = word.chars().count();
    let is_abbreviation =
        !word.contains('_') && (letters <= 3 || (letters == 4 && word.chars().all(char::is_uppercase)));
    is_plain
        && word.contains(char::is_alphabetic)
        && (word.contains('_') || has_inner_capital)
        && !is_abbreviation
}

/// A word in lower case without an ending of English grammar, so that `driver`, `drives` and `driving` are the same. Rough:
/// it tells that words are akin, and is no word itself.
pub(super) fn stem(word: &str) -> &str {
    let long_enough = |stem: &&str| stem.chars().count() >= 3;
    let ends = ["ings", "ing", "ers", "ies", "er", "es", "ed", "s", "y", "e"];
    let stem = ends.iter().find_map(|end| word.strip_suffix(end).filter(long_enough)).unwrap_or(word);
    let mut letters = stem.chars().rev();
    match (letters.next(), letters.next()) {
        (Some(last), Some(before)) if last == before => stem.strip_suffix(last).unwrap_or(stem),
        _ => stem,
    }
}

/// A path without what does not change it.
pub(super) fn plain(word: &str) -> &str {
    word.strip_prefix("./").unwrap_or(word).trim_end_matches('/')
}

/// What could be a name in a text: words without the punctuation around them, what is quoted, and runs of the
/// characters of names within scripts that write no blanks.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let separates = |c: char| c.is_whitespace() || "\"'`“”‘’«»„()[]{}<>,;|*".contains(c);
    let spaced = text.split(separates).map(|word| word.trim_end_matches(['.', ':', '!', '?', '。', '，']));
    let in_name = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let runs = text.split(move |c| !in_name(c)).map(|run| run.trim_end_matches('.'));
    let quoted = enclosed(text);
    let is_name = |word: &&str| {
        !word.is_empty() && word.len() <= WORD_BYTES && !word.contains(|c: char| c.is_control())
    };
    spaced.chain(runs).chain(quoted).filter(is_name).map(str::to_owned)
}

/// What stands between quotation marks of any kind. One that is an apostrophe, too, counts where no word goes on behind it.
pub(super) fn enclosed(text: &str) -> impl Iterator<Item = &str> {
    let alike = ['"', '`'].into_iter().flat_map(|quote| text.split(quote).skip(1).step_by(2));
    let pairs = [('\'', '\''), ('“', '”'), ('„', '“'), ('‘', '’'), ('«', '»')];
    alike.chain(pairs.into_iter().flat_map(move |(first, last)| {
        let begins = text.match_indices(first).filter(move |(at, _)| {
            let before = text.get(..*at).and_then(|before| before.chars().next_back());
            before.is_none_or(|c| !c.is_alphanumeric())
        });
        begins.filter_map(move |(at, mark)| {
            let rest = text.get(at + mark.len()..)?;
            let rest = rest.get(..rest.floor_char_boundary(WORD_BYTES + 4))?;
            let ends = |(end, mark): &(usize, &str)| {
                let after = rest.get(end + mark.len()..).and_then(|after| after.chars().next());
                after.is_none_or(|c| !c.is_alphanumeric())
            };
            let (end, _) = rest.match_indices(last).find(ends)?;
            rest.get(..end)
        })
    }))
}

/// The words of a request that name something: paths, identifiers, numbers, names within a sentence, what is quoted.
pub(super) fn specific(request: &str) -> impl Iterator<Item = &str> {
    let mut starts_sentence = true;
    let words = request.split_whitespace().filter_map(move |spaced| {
        let word = spaced.trim_matches(|c: char| !(c.is_alphanumeric() || c == '_'));
        let is_start = std::mem::replace(&mut starts_sentence, spaced.ends_with(['.', '!', '?', ':']));
        (!word.is_empty() && is_specific(word, is_start)).then_some(word)
    });
    words.chain(quoted(request))
}

/// What stands between double quotes or backticks.
pub(super) fn quoted(request: &str) -> impl Iterator<Item = &str> {
    let between = |quote: char| request.split(quote).skip(1).step_by(2);
    ['"', '`'].into_iter().flat_map(between).filter(|text| !text.trim().is_empty())
}

fn is_specific(word: &str, starts_sentence: bool) -> bool {
    let mut chars = word.chars();
    let is_name =
        chars.next().is_some_and(char::is_uppercase) && chars.next().is_some_and(char::is_alphabetic);
    let has = |wanted: fn(char) -> bool| word.chars().any(wanted);
    // "IP" and "PDF" are words like others.
    let is_abbreviation = word.chars().count() <= 3 && word.chars().all(char::is_uppercase);
    has(|c| c.is_ascii_digit())
        || has(|c| matches!(c, '_' | '/'))
        || word.contains('.')
        || (is_name && !starts_sentence && !is_abbreviation)
}

/// Whether a request wants all of a file's text replaced, as far as its words tell.
pub(super) fn wants_whole(request: &str) -> bool {
    let words = lower_words(request);
    let says_only = |few: &[String]| match few {
        [says, .., only] => is_among(says, "be contain hold read say") && only == "only",
        _ => false,
    };
    let is_only = || (2..=3).any(|few| words.windows(few).any(says_only));
    // "Clear a.txt", "replace the contents of it": what is behind the verb is the file itself.
    let is_file = |at: usize| {
        let mut behind = words.get(at + 1..).unwrap_or_default().iter();
        let object = behind.find(|word| !is_among(word, DETERMINERS));
        object.is_some_and(|word| is_among(word, "content contents everything file") || is_pathlike(word))
    };
    let empties = |at: usize| words.get(at).is_some_and(|word| is_among(word, EMPTIES)) && is_file(at);
    words.iter().any(|word| is_among(word, "overwrite rewrite")) || is_only() || (0..words.len()).any(empties)
}

fn lower_words(text: &str) -> Vec<String> {
    let trimmed = text.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    trimmed.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

const EMPTIES: &str = "clear empty replace reset wipe";
const DETERMINERS: &str = "all complete current entire full its my of old our the this whole your";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_akin_have_one_stem() {
        for (one, other) in [
            ("driver", "driving"),
            ("cities", "city"),
            ("recipes", "recipe"),
            ("planned", "plan"),
            ("calls", "call"),
        ] {
            assert_eq!(stem(one), stem(other), "{one} {other}");
        }
        for (one, other) in [("list", "listen"), ("port", "portal"), ("use", "us")] {
            assert_ne!(stem(one), stem(other));
        }
        assert_eq!((stem(""), stem("as"), stem("é")), ("", "as", "é"));
    }

    #[test]
    fn names_and_values_are_told_from_other_words() {
        let request =
            "Please tell Ines to lower MAX_LOAD_KG from 7.5 to 6 in rigs/b.ini and to write \"all clear\".";
        let found: Vec<&str> = specific(request).collect();
        assert_eq!(found, ["Ines", "MAX_LOAD_KG", "7.5", "6", "rigs/b.ini", "all clear"]);
        for name in ["tide_level", "HeatPump", "OFFSET", "ipv6Only", "QC-77"] {
            assert!(is_identifier(name), "{name}");
        }
        for word in ["Ines", "gate", "EU", "RAM", "JSON", "b.c_d", "___", "7", "2031-02", "step-4", "-9"] {
            assert!(!is_identifier(word), "{word}");
        }
        assert!(is_pathlike(".profile") && is_pathlike("rigs/b") && is_pathlike("b.ini"));
        assert!(!is_pathlike("7.5") && !is_pathlike("approx.") && !is_pathlike("gate"));
    }

    #[test]
    fn a_file_that_is_replaced_whole_is_told_from_one_that_is_changed() {
        for request in [
            "rota.txt should hold Ines only",
            "Rewrite b.ini",
            "empty the file",
            "wipe the entire contents of it",
        ] {
            assert!(wants_whole(request), "{request}");
        }
        for request in ["Replace Ines by Pavel in rota.txt", "clear the limit in b.ini", "Was it reset?"] {
            assert!(!wants_whole(request), "{request}");
        }
    }

    #[test]
    fn names_of_new_files_are_told_from_what_they_are_about() {
        let files = |request| files_of(request).collect::<Vec<&str>>();
        assert_eq!(files("Please make rota.csv, and `rigs/may.ics`!"), ["rota.csv", "rigs/may.ics"]);
        assert_eq!(files("Draft an .editorconfig that covers *.ini"), [".editorconfig", ".ini"]);
        assert!(
            files("Draft a page about vue.js for v2.0, i.e. on/off switches from example.org").is_empty()
        );
    }
}
