//! Whether an answer begins by saying that it cannot be known: "I'm sorry, but I don't have access to …". English alone.

/// What an answer that begins so far is, as soon as that can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// It may become an excuse.
    Open,
    /// It says that something is not known or not at hand.
    Excuse,
    /// It says something else.
    Other,
}

/// What a text begins with; `whole` where nothing follows.
pub fn beginning(text: &str, whole: bool) -> Beginning {
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
        Beginning::Excuse
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
    fn an_excuse_is_told_as_soon_as_it_says_what_is_lacking() {
        for (text, is_it) in [
            ("I'm sorry, but I don't have access to your wifi password.", Beginning::Excuse),
            ("I’m sorry, but I do not have any information about Oslo", Beginning::Excuse),
            ("Unfortunately, I cannot see your calendar.", Beginning::Excuse),
            ("I don't know who wrote it.", Beginning::Excuse),
            ("As an AI, I have no way of knowing", Beginning::Excuse),
            ("I'm sorry to hear that you're feeling sad. I don't have", Beginning::Other),
            ("I'm sorry, but I can't assist with that.", Beginning::Excuse),
            ("I'm sorry, but I can't sing.", Beginning::Other),
            ("I'm just a computer program, so I don't have feelings", Beginning::Other),
            ("The password is not known: I don't have it.", Beginning::Other),
            ("Hei!", Beginning::Other),
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
            "I'm sorry, but I don't have access to it.",
            "I do see it. I don't have more.",
            "Unfortunately it rains: I cannot see the sun.",
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
