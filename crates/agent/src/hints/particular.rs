//! Whether a request speaks of something that only who asks has: "the museum ticket", "my agenda", "Lena's allergies". English
//! alone, and as far as words tell: "the telephone" may be any.

use toolgate_chat::names::is_among;

/// Whether a request speaks of something in particular.
pub(super) fn is_particular(request: &str) -> bool {
    let request = request.replace('’', "'");
    let is_mark = |c: char| !(c.is_alphanumeric() || c == '_');
    let words: Vec<&str> = request.split_whitespace().map(|word| word.trim_matches(is_mark)).collect();
    let after = |at: usize| words.get(at + 1..).unwrap_or_default();
    words.iter().enumerate().any(|(at, word)| {
        is_among(word, "here my our")
            || is_owner(word)
            || (is_among(word, "these this") && after(at).first().is_some_and(|next| is_among(next, PLACES)))
            || (word.eq_ignore_ascii_case("the") && is_one(after(at)))
    })
}

/// `Lena's`, and not `What's`.
fn is_owner(word: &str) -> bool {
    let is_name = |owner: &str| owner.starts_with(char::is_uppercase) && !is_among(owner, CONTRACTED);
    word.strip_suffix("'s").is_some_and(is_name)
}

/// Whether what stands behind "the" is a thing among others: not the tallest, not the moon, not the capital of a country. Of
/// "the capacity of the tank" the second one is.
fn is_one(behind: &[&str]) -> bool {
    let Some((next, rest)) = behind.split_first() else { return false };
    let is_general = || rest.iter().take(3).any(|word| is_among(word, "between for of"));
    next.starts_with(char::is_lowercase)
        && !next.ends_with("est")
        && !is_among(next, KNOWN_TO_ALL)
        && !is_general()
}

/// What a question is about that is asked where one works.
const PLACES: &str = "code codebase directory file folder project repo repository workspace";
const CONTRACTED: &str = "he here how it let she that there this what when where which who why";
/// What is there but once, and what makes it so.
const KNOWN_TO_ALL: &str = "\
    best date day earth first following future internet least meaning moon most number ocean only other past plural present \
    same sea second sky sun third time universe weather word words world worst year";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_of_ones_own_is_told_from_what_all_know() {
        for request in [
            "Who repaired the porch lamp?",
            "What's the height of the pear tree?",
            "When is our lease up?",
            "How old is Mirela’s goat?",
            "Which compiler does this project want?",
            "Is anything broken here?",
        ] {
            assert!(is_particular(request), "{request}");
        }
        for request in [
            "Which is the longest bridge?",
            "Who wrote the anthem of Peru?",
            "What happened between the wars for oil and salt?",
            "Who composed the Moonlight Sonata?",
            "Why is the sky blue?",
            "Shorten this: it was a long and windy road",
            "It's fine, never mind.",
            "the",
            "",
        ] {
            assert!(!is_particular(request), "{request}");
        }
    }
}
