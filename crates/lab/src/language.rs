//! Whether an answer is in the language of its request, as far as n-grams of letters tell. It counts and steers nothing.
//!
//! `whichlang` tells 16 languages apart: Arabic, Chinese, Dutch, English, French, German, Hindi, Italian, Japanese, Korean, Portuguese,
//! Russian, Spanish, Swedish, Turkish and Vietnamese. Text in another one counts as one of these, so that a figure over such requests
//! says little.

use toolgate_chat::language::is_enough;
use whichlang::detect_language;

/// Whether an answer is in the language of its request; none where either has too few letters to tell. What is quoted in the answer has
/// a language of its own, and is left out.
pub(crate) fn is_same(request: &str, answer: &str) -> Option<bool> {
    let is_quoted = |line: &&str| line.starts_with("> ");
    let own: Vec<&str> = answer.lines().filter(|line| !is_quoted(line)).collect();
    let own = own.join("\n");
    (is_enough(request) && is_enough(&own)).then(|| detect_language(request) == detect_language(&own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_another_language_is_told_from_one_in_the_same() {
        for (request, same, other) in [
            (
                "Ersetze Montag durch Freitag in plan.md.",
                "In plan.md steht jetzt Freitag.",
                "The text was replaced.",
            ),
            (
                "Remplace rouge par bleu dans couleurs.css.",
                "Le mot rouge a été remplacé.",
                "The word was replaced.",
            ),
            (
                "把 settings.json 里的 timeout 改成 60。",
                "timeout 已改成 60。",
                "The timeout is 60 seconds now.",
            ),
            (
                "Создай файл привет.txt с текстом.",
                "Файл привет.txt создан.",
                "A file named привет.txt was created.",
            ),
            (
                "Set the retries to five in client.toml.",
                "The retries are five now.",
                "从三次改成了五次重试。",
            ),
        ] {
            assert_eq!(is_same(request, same), Some(true), "{same}");
            assert_eq!(is_same(request, other), Some(false), "{other}");
        }
    }

    #[test]
    fn a_quotation_does_not_count_and_a_number_tells_nothing() {
        let answer =
            "In plan.md steht jetzt Freitag.\n\nread:\n> the whole week is free, and so is the next one";
        assert_eq!(is_same("Was steht jetzt in plan.md?", answer), Some(true));
        assert_eq!(is_same("Wie viel ist sieben mal acht?", "56"), None);
        assert_eq!(is_same("7 * 8?", "Das sind sechsundfünfzig."), None);
    }
}
