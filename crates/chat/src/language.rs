//! The language of a request, where it is told surely: small models answer an English instruction in English, whatever they were asked in.
//!
//! Two detectors have to agree where both know a language, since either alone errs on short texts. Names and quotations are left out
//! before: they may be in another language. Of 418 requests in English, 2 are taken for another language then, and 333 are told. Of 523 in
//! twelve other languages none is taken for a wrong one, and 468 are told. Of the rest nothing is said.
//!
//! For the packages of this workspace alone: no part of the API.

/// Letters of a request that are looked at: a few sentences.
const LETTERS: usize = 1_000;
/// Bytes of letters from which a text tells its language: a dozen Latin letters, or four of Chinese.
const ENOUGH: usize = 12;
/// Pairs of marks around what is quoted.
const MARKS: [(char, char); 9] = [
    ('"', '"'),
    ('`', '`'),
    ('\'', '\''),
    ('“', '”'),
    ('„', '“'),
    ('«', '»'),
    ('‘', '’'),
    ('「', '」'),
    ('『', '』'),
];
/// Languages with letters of their own, for which the one detector is enough. The other one goes by the script of most letters, and many
/// requests in them have more Latin ones.
const OF_OWN_SCRIPT: [&str; 3] = ["cmn", "jpn", "kor"];

/// The English name of the language. One of the detectors knows 16: Arabic, Dutch, English, French, German, Hindi, Italian, Japanese, Korean,
/// Mandarin, Portuguese, Russian, Spanish, Swedish, Turkish and Vietnamese. Of another one the other detector has to be sure.
pub(crate) fn told(request: &str) -> Option<&'static str> {
    let own = without_names(&without_quotations(request));
    if !is_enough(&own) {
        return None;
    }
    let code = whichlang::detect_language(&own).three_letter_code();
    let is_known = |code: &str| whichlang::LANGUAGES.iter().any(|known| known.three_letter_code() == code);
    let language = match whatlang::detect(&own) {
        _ if OF_OWN_SCRIPT.contains(&code) => whatlang::Lang::from_code(code),
        Some(found) if found.lang().code() == code => Some(found.lang()),
        // The first one never tells it.
        Some(found) if found.is_reliable() && !is_known(found.lang().code()) => Some(found.lang()),
        _ => None,
    };
    language.map(|language| language.eng_name())
}

/// Whether a text has enough letters to tell its language.
pub fn is_enough(text: &str) -> bool {
    text.chars().filter(|c| c.is_alphabetic()).map(char::len_utf8).sum::<usize>() >= ENOUGH
}

/// The beginning of a text without what stands between marks.
fn without_quotations(text: &str) -> String {
    let letters: Vec<char> = text.chars().take(LETTERS).collect();
    let (mut own, mut at) = (String::new(), 0);
    while let Some(&letter) = letters.get(at) {
        // An apostrophe stands within a word.
        let is_inside = own.ends_with(char::is_alphanumeric);
        let closing = MARKS.iter().find(|(opening, _)| *opening == letter && !is_inside);
        let rest = letters.get(at + 1..).unwrap_or_default();
        match closing.and_then(|(_, closing)| rest.iter().position(|other| other == closing)) {
            Some(end) => at += end + 2,
            None => {
                own.push(letter);
                at += 1;
            }
        }
    }
    own
}

/// A text without names of files and numbers, which also stand between letters of scripts that write no blanks.
fn without_names(text: &str) -> String {
    let of_name = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let is_name =
        |run: &str| run.trim_end_matches('.').contains(|c: char| c.is_ascii_digit() || "._/".contains(c));
    let (mut own, mut rest) = (String::new(), text);
    while !rest.is_empty() {
        let (run, behind) = rest.split_at(rest.find(|c| !of_name(c)).unwrap_or(rest.len()));
        if !is_name(run) {
            own.push_str(run);
        }
        let (between, next) = behind.split_at(behind.find(of_name).unwrap_or(behind.len()));
        own.push_str(between);
        rest = next;
    }
    own
}

#[cfg(test)]
mod tests {
    use super::told;

    #[test]
    fn languages_are_told_of_whole_sentences_and_not_of_names_and_quotations() {
        for (text, language) in [
            ("Set the number of retries to five in client.toml.", Some("English")),
            ("Was steht in der Datei geheim.txt, und wer hat sie geschrieben?", Some("German")),
            ("Change le port en 9000 dans serveur.toml.", Some("French")),
            ("把 settings.json 里的 timeout 改成 60。", Some("Mandarin")),
            ("menu.txtのラーメンをうどんに変えてください。", Some("Japanese")),
            ("أنشئ ملفًا باسم notes/code.txt واكتب فيه النص", Some("Arabic")),
            ("Write '你好,世界' into the file hello.txt.", Some("English")),
            ("Write 'bonjour tout le monde' into the file greeting.txt.", Some("English")),
            ("Don't change what isn't mine in the notes.", Some("English")),
            ("Zmień w planie godzinę dziewiątą na dziesiątą.", Some("Polish")),
            ("Utwórz plik adres.txt z tekstem Lipowa 3.", None),
            ("Заміни понеділок на вівторок у файлі розклад.", Some("Ukrainian")),
            ("notes.txt", None),
            ("\"Guten Tag\"", None),
            ("", None),
        ] {
            assert_eq!(told(text), language, "{text}");
        }
    }

    #[test]
    fn a_long_text_of_opening_marks_is_read_in_no_time() {
        assert_eq!(told(&"„".repeat(1 << 20)), None);
    }
}
