//! Answers that begin by saying that it cannot be known: "I'm sorry, but I don't have access to …". English alone.

use toolgate_engine::{AnswerWatch, Beginning};

use super::Hint;

pub(super) struct Refusal;

impl Hint for Refusal {
    fn name(&self) -> &'static str {
        "refusal"
    }

    fn reason(&self) -> &'static str {
        "a small model says that it has no access to what a tool could look up"
    }
}

impl AnswerWatch for Refusal {
    fn name(&self) -> &str {
        Hint::name(self)
    }

    fn beginning(&self, _request: &str, text: &str, whole: bool) -> Beginning {
        beginning(text, whole)
    }
}

/// What a text begins with; `whole` where nothing follows.
fn beginning(text: &str, whole: bool) -> Beginning {
    let text = text.trim_start().to_lowercase().replace('’', "'");
    let open = if whole { Beginning::Other } else { Beginning::Open };
    let Some(rest) = OPENINGS.iter().find_map(|opening| text.strip_prefix(opening)) else {
        let may_come = OPENINGS.iter().any(|opening| opening.starts_with(&text));
        return if may_come { open } else { Beginning::Other };
    };
    // An opening that says it itself is part of the sentence: "I don't" have.
    let opening = text.len() - rest.len();
    let end = rest.find(['.', '!', '?', ':', '\n']).map(|end| opening + end);
    let sentence = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
    if LACKS.iter().any(|lack| sentence.contains(lack)) {
        Beginning::Found
    } else if end.is_some() || sentence.len() > LONGEST {
        Beginning::Other
    } else {
        open
    }
}

/// Bytes of a sentence within which it says what is lacking.
const LONGEST: usize = 120;

const OPENINGS: [&str; 15] = [
    "i'm sorry",
    "i am sorry",
    "sorry",
    "i apologize",
    "unfortunately",
    "i don't",
    "i do not",
    "i can't",
    "i cannot",
    "i have no",
    "i'm unable",
    "i am unable",
    "i'm not able",
    "i am not able",
    "as an ai",
];

const LACKS: [&str; 22] = [
    "don't have",
    "do not have",
    "have no ",
    "no access",
    "no information",
    "don't know",
    "do not know",
    "can't access",
    "cannot access",
    "to access",
    "can't see",
    "cannot see",
    "can't find",
    "cannot find",
    "can't tell",
    "cannot tell",
    "to see",
    "to determine",
    "can't assist",
    "cannot assist",
    "can't help",
    "cannot help",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_as_soon_as_it_says_what_is_lacking() {
        for (text, is_it) in [
            ("Sorry! I do not have the invoices of March.", Beginning::Other),
            ("Sorry, the invoices of March are something I cannot access.", Beginning::Found),
            ("I apologize, there is no information on that harbour here", Beginning::Found),
            ("I’m unable to access the greenhouse", Beginning::Found),
            ("Unfortunately the ferry's timetable is nothing that I do not know by heart", Beginning::Found),
            ("I am not able to determine how deep the well is", Beginning::Found),
            ("Sorry about your bicycle. I have no spare one", Beginning::Other),
            ("I cannot help you with the roof.", Beginning::Found),
            ("I'm sorry for the noise of last night.", Beginning::Other),
            ("The well is nine metres deep; I don't have more.", Beginning::Other),
            ("Kjære Ola,", Beginning::Other),
            ("I", Beginning::Open),
            ("", Beginning::Open),
            ("I'm sorry, but", Beginning::Open),
        ] {
            assert_eq!(beginning(text, false), is_it, "{text}");
        }
        assert_eq!(beginning("I'm sorry, but", true), Beginning::Other);
        let long = format!("Sorry, {}", "so ".repeat(60));
        assert_eq!(beginning(&long, false), Beginning::Other);
    }

    #[test]
    fn what_was_told_stays_told() {
        for text in [
            "Unfortunately the barn is locked and I cannot see its rafters.",
            "It has nine rafters. I cannot see more.",
            "Sorry that it took so long: I do not have a ladder.",
        ] {
            let told: Vec<Beginning> = text
                .char_indices()
                .map(|(at, _)| beginning(text.get(..at).unwrap_or_default(), false))
                .skip_while(|told| *told == Beginning::Open)
                .collect();
            let first = told.first();
            assert!(first.is_some() && told.iter().all(|told| Some(told) == first), "{text}: {told:?}");
        }
    }
}
