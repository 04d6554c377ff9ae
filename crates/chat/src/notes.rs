//! What a program says to the model in the user's place: elements such as `<system-reminder>`, which agents put into messages.
//!
//! For the packages of this workspace alone: no part of the API.

/// A text without the notes in it. What only begins like one stays.
pub fn without_notes(text: &str) -> String {
    // A note is looked for to its end only where there is one: so each search ends where the next one begins.
    let last_ends = NOTES.map(|name| text.rfind(&closing(name)));
    let (mut kept, mut at) = (String::with_capacity(text.len()), 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let Some(begin) = rest.find('<') else {
            kept.push_str(rest);
            break;
        };
        let (front, element) = rest.split_at(begin);
        kept.push_str(front);
        let begin = at + begin;
        let end = NOTES.iter().zip(last_ends).find_map(|(name, last)| {
            last.filter(|&last| last > begin)?;
            let inner = element.strip_prefix(&format!("<{name}>"))?;
            let closing = closing(name);
            Some(element.len() - inner.len() + inner.find(&closing)? + closing.len())
        });
        if end.is_none() {
            kept.push('<');
        }
        at = begin + end.unwrap_or(1);
    }
    kept
}

/// A text with a note in front of it.
pub fn with_note(note: &str, text: &str) -> String {
    let closing = closing(SUMMARY);
    format!("<{SUMMARY}>\n{}\n{closing}\n\n{text}", note.replace(&closing, ""))
}

fn closing(name: &str) -> String {
    format!("</{name}>")
}

/// The element that tells what came before.
const SUMMARY: &str = "session_context";

/// As coding agents call them: Claude Code, Cline and Roo Code, Codex, Cursor, Gemini CLI.
const NOTES: [&str; 6] = [
    "system-reminder",
    "system_reminder",
    "environment_details",
    "environment_context",
    "additional_data",
    SUMMARY,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_left_out_of_a_text_and_nothing_else_is() {
        for (text, kept) in [
            ("Read a.txt", "Read a.txt"),
            ("<system-reminder>Keep a list.</system-reminder>", ""),
            ("Read <b>a</b> <system-reminder>x < y</system-reminder>now", "Read <b>a</b> now"),
            ("<system-reminder>a</system-reminder>\n<environment_details>b</environment_details>\n", "\n\n"),
            ("a <system-reminder> that never ends", "a <system-reminder> that never ends"),
            ("</system-reminder>a<system-reminder>", "</system-reminder>a<system-reminder>"),
            ("ö<system-reminder>ä</system-reminder>ü<", "öü<"),
            ("", ""),
        ] {
            assert_eq!(without_notes(text), kept, "{text}");
        }
    }

    #[test]
    fn a_note_in_front_is_no_part_of_the_text() {
        let noted = with_note("a was </session_context> read", "Read b.txt");
        assert!(noted.contains("a was  read\n</session_context>"), "{noted}");
        assert_eq!(without_notes(&noted).trim(), "Read b.txt");
    }

    #[test]
    fn a_flood_of_beginnings_is_read_once() {
        let flood = "<system-reminder>".repeat(200_000);
        assert_eq!(without_notes(&flood), flood);
        assert_eq!(without_notes(&format!("{flood}</system-reminder>")), "");
    }
}
