//! An answer after calls that does nothing but repeat the request. It knows no language.

use toolgate_engine::{AnswerWatch, Beginning};

use super::Hint;

pub(super) struct Echo;

impl Hint for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn reason(&self) -> &'static str {
        "a small model repeats the request in place of what came of it"
    }
}

impl AnswerWatch for Echo {
    fn name(&self) -> &str {
        Hint::name(self)
    }

    /// That shows only when the text is whole.
    fn beginning(&self, request: &str, text: &str, whole: bool) -> Beginning {
        let (asked, said) = (words(request), words(text));
        let goes_on = |word: &String| said.last().is_some_and(|last| word.starts_with(last.as_str()));
        let (before, may_go_on) = match said.len().checked_sub(1) {
            None => (&[][..], true),
            Some(last) => (said.get(..last).unwrap_or_default(), asked.get(last).is_some_and(goes_on)),
        };
        match asked.starts_with(before) && may_go_on {
            false => Beginning::Other,
            true if !whole => Beginning::Open,
            true if is_echo(&asked, &said) => Beginning::Found,
            true => Beginning::Other,
        }
    }
}

/// Whether the words of an answer are those that the request begins with, and most of them.
fn is_echo(asked: &[String], said: &[String]) -> bool {
    said.len() >= FEWEST && said.len() * 2 >= asked.len() && asked.starts_with(said)
}

/// Words of a text that repeats another one; fewer may be its answer as well.
const FEWEST: usize = 4;

fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_repeats_the_request_is_told_when_it_is_whole() {
        let request = "Read a.txt and write the first name into b.txt.";
        let whole = |answer: &str| Echo.beginning(request, answer, true);
        assert_eq!(whole(request), Beginning::Found);
        assert_eq!(whole("read a.txt and write the first name into b.txt"), Beginning::Found);
        assert_eq!(whole("Read a.txt and write the first name"), Beginning::Found);
        for answer in ["Read a.txt and write the first name, Ana, into b.txt.", "Read a.txt", "Done.", ""] {
            assert_eq!(whole(answer), Beginning::Other, "{answer}");
        }
        assert_eq!(Echo.beginning(request, "Read a.t", false), Beginning::Open);
        assert_eq!(Echo.beginning(request, "Read b", false), Beginning::Other);
        assert_eq!(Echo.beginning("Who?", "Who?", true), Beginning::Other, "too short to tell");
        let japanese = "東京 の 天気 は どう です か";
        assert_eq!(Echo.beginning(japanese, japanese, true), Beginning::Found);
    }
}
