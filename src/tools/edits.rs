//! What a replacement in a file should be, by what the request says and what stands in the file.
//!
//! Why: a small model takes `Fax` for the line it was asked to delete, the name for the value, or what is to be added for
//! what is there. Each rule is sure of its ground: it names the texts that are right, and one of them is written instead.

use std::collections::BTreeSet;

use toolgate_sandbox::output;

use super::narrow::{is_no_name, occurrences};
use super::{Choices, Misplaced, Said};
use crate::words::{
    holds_word, is_identifier, is_literal, quoted, values, wants_addition, wants_at_end, wants_change,
    wants_lines_removed, wants_whole, words,
};

/// A replacement that a model wrote.
pub(super) struct Edit<'a> {
    /// The file's text, with `\n` at the end of its lines.
    pub(super) content: &'a str,
    pub(super) path: &'a str,
    pub(super) old: &'a str,
    pub(super) new: &'a str,
}

impl Edit<'_> {
    /// What of it the request does not admit, and what it may be.
    pub(super) fn misplaced(&self, said: &Said) -> Option<Misplaced> {
        let adds = wants_addition(said.request());
        if adds && wants_at_end(said.request()) && !self.is_last() {
            let last = last_lines(self.content)?;
            return self.wrong("old_text", "is not the end of", among(vec![last.to_owned()]));
        }
        if occurrences(self.content, self.old) != 1 {
            // What the user wrote goes to the tool, which says that it is not there; but not as what is to become itself, and not
            // as what is to be added.
            let is_asked = said.holds_beside(self.old, self.path) && self.old != self.new && !adds;
            let once = || Choices::OnceIn(self.content.to_owned());
            return if is_asked { None } else { self.wrong("old_text", "is not exactly once in", once()) };
        }
        // A piece of a word is hardly meant where a line gives a value to what the request names: `ru` of `true`.
        if !holds_word(self.content, self.old) && !said.holds_beside(self.old, self.path) {
            let lines = self.lines_that_assign(said.request());
            if let Some(misplaced) = self.wrong("old_text", "is a part of a word of", among(lines)) {
                return Some(misplaced);
            }
        }
        if adds && !self.new.contains(self.old.trim_end()) {
            let end = if wants_at_end(said.request()) { "\n" } else { "" };
            let beginning = format!("{}{end}", self.old.trim_end_matches('\n'));
            let goes_on = Choices::Among { texts: Vec::new(), beginnings: vec![beginning] };
            return self.wrong("new_text", "leaves out what is to stay in", goes_on);
        }
        if wants_lines_removed(said.request()) && self.old.ends_with('\n') && self.says_more() {
            return self.wrong("new_text", "is not in what is taken away from", among(vec![String::new()]));
        }
        if let Some(lines) = self.lines_to_remove(said.request()) {
            return self.wrong("old_text", "is not the whole line of", among(vec![lines]));
        }
        let texts = self.pieces_about(said.request());
        self.wrong("old_text", "leaves out a value that was named, and is beside it in", among(texts))
    }

    /// None where the choices leave nothing to choose from.
    fn wrong(&self, parameter: &'static str, why: &str, choices: Choices) -> Option<Misplaced> {
        choices.keywords()?;
        Some(Misplaced {
            parameter,
            why: format!("{parameter} {why} \"{}\"", output::name(self.path)),
            choices,
        })
    }

    /// Whether a line is to be there that was not.
    fn says_more(&self) -> bool {
        self.new.lines().any(|line| self.old.lines().all(|other| other != line))
    }

    /// Whether nothing but white space comes behind the text to replace.
    fn is_last(&self) -> bool {
        let at = self.content.rfind(self.old);
        let rest = at.and_then(|at| self.content.get(at + self.old.len()..));
        occurrences(self.content, self.old) == 1 && rest.is_some_and(|rest| rest.trim().is_empty())
    }

    /// The lines, there once, that give a value to something the request names.
    fn lines_that_assign(&self, request: &str) -> Vec<String> {
        let names: BTreeSet<String> = words(request).filter(|word| is_name(word)).collect();
        let lines = self.content.lines().map(str::trim);
        let lines = lines.filter(|line| names.iter().any(|name| assigns(line, name)));
        lines.filter(|line| occurrences(self.content, line) == 1).map(str::to_owned).collect()
    }

    /// The line that the text to take away stands on, with its end, where a part of it would be left.
    fn lines_to_remove(&self, request: &str) -> Option<String> {
        let at = self.content.find(self.old).filter(|_| self.new.is_empty() && !self.old.ends_with('\n'))?;
        let end = at + self.old.len();
        let start = self.content.get(..at)?.rfind('\n').map_or(0, |line_end| line_end + 1);
        let rest = self.content.get(end..)?.find('\n');
        let whole = self.content.get(start..rest.map_or(self.content.len(), |to| end + to + 1))?;
        let is_all_of_it = whole.trim_end_matches('\n') == self.old;
        if whole == self.content || !(is_all_of_it || wants_lines_removed(request)) {
            return None;
        }
        // The last line may have no end: then the one before it loses its own.
        let whole = match rest {
            Some(_) => whole.to_owned(),
            None => format!("\n{whole}"),
        };
        (occurrences(self.content, &whole) == 1).then_some(whole)
    }

    /// What the text to replace should be instead, where a value of the request stands on its line and neither in it nor
    /// in what replaces it: "from 30 to 45" is about more than `timeout`.
    fn pieces_about(&self, request: &str) -> Vec<String> {
        let Self { content, old: piece, new, .. } = *self;
        let Some(line) = content.lines().find(|line| line.contains(piece)).map(str::trim) else {
            return Vec::new();
        };
        let left_out = |value: &&str| {
            holds_word(line, value) && ![piece, new].iter().any(|text| holds_word(text, value))
        };
        let named: BTreeSet<&str> = values(request).filter(left_out).collect();
        let mut pieces: Vec<String> = named.into_iter().map(str::to_owned).collect();
        // A name is no value: "change LIMIT to 25" leaves the name where it is, unless it is what is to become another.
        let is_value = |text: &str| is_literal(text) || values(request).any(|value| value == text);
        let has_value = line.rsplit([':', '=']).next().is_some_and(|value| !value.trim().is_empty());
        let is_a_name = (is_identifier(piece) || (assigns(line, piece) && has_value)) && !is_value(piece);
        let gives_name_away = is_a_name && is_value(new);
        if !pieces.is_empty() || gives_name_away {
            pieces.push(line.to_owned());
        }
        // What separates it from what comes behind stays, too.
        let ends = |text: &str| text.ends_with([',', ';']);
        if pieces.is_empty() && ends(piece) && !ends(new) && !new.is_empty() {
            pieces.push(piece.trim_end_matches([',', ';']).to_owned());
        }
        pieces.retain(|piece| occurrences(content, piece) == 1);
        pieces
    }
}

/// The last line of a text that has something on it, with as many before it as make it unique.
fn last_lines(content: &str) -> Option<&str> {
    let content = content.trim_end();
    let starts = content.match_indices('\n').map(|(at, _)| at + 1);
    let starts: Vec<usize> = std::iter::once(0).chain(starts).collect();
    let tails = starts.into_iter().rev().filter_map(|start| content.get(start..));
    tails.into_iter().find(|tail| !tail.trim().is_empty() && occurrences(content, tail) == 1)
}

/// Whether a text gives something of that name a value: `LIMIT = 3`, `"limit": 3`, `limit <- 3`, `#define LIMIT 3`.
pub(super) fn assigns(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let rest = text.get(at + name.len()..).unwrap_or_default();
        let is_inner = |c: char| c.is_alphanumeric() || c == '_';
        if before.is_some_and(is_inner) || rest.starts_with(is_inner) {
            return false;
        }
        let rest = rest.trim_start_matches(['"', '\'', '`', ']']);
        let value = rest.lines().next().unwrap_or_default().trim_start();
        let is_compared = ["==", "=>", "::"].iter().any(|sign| value.starts_with(sign));
        let is_given = ["=", ":", "<-"].iter().any(|sign| value.starts_with(sign));
        let is_beside = rest.starts_with(char::is_whitespace) && is_literal(value);
        !is_compared && (is_given || is_beside)
    })
}

/// The names in a request that something is to be given as a value; none where it gives no value.
pub(super) fn names_to_assign(request: &str) -> Vec<&str> {
    let is_mark = |c: char| !(c.is_alphanumeric() || c == '_' || c == '-');
    let words = || request.split_whitespace().map(|word| word.trim_matches(is_mark));
    let changes = wants_change(request) && words().any(is_literal);
    words().filter(|word| changes && is_identifier(word)).collect()
}

/// Whether a request wants another value for something that has one in this text, which holds more than that: to write the
/// text anew would lose the rest of it.
pub(super) fn sets_one_of_many(request: &str, content: &str) -> bool {
    let gives_value = || quoted(request).next().is_some() || words(request).any(|word| is_literal(&word));
    wants_change(request)
        && !wants_whole(request)
        && gives_value()
        && content.lines().filter(|line| !line.trim().is_empty()).nth(1).is_some()
        && words(request).any(|word| is_name(&word) && assigns(content, &word))
}

/// Whether a word of a request may be the name of something that has a value.
fn is_name(word: &str) -> bool {
    word.len() >= SHORTEST_NAME && !is_no_name(word) && !is_literal(word)
}

/// Shorter words give too little to be found by.
const SHORTEST_NAME: usize = 3;

fn among(texts: Vec<String>) -> Choices {
    Choices::Among { texts, beginnings: Vec::new() }
}

#[cfg(test)]
mod tests {
    use toolgate_chat::{Message, Transcript};

    use super::*;

    fn wrong(request: &str, content: &str, old: &str, new: &str) -> Option<(&'static str, Vec<String>)> {
        let said = Said::of(&Transcript::new().with(Message::User(request.to_owned())));
        let misplaced = Edit { content, path: "a.txt", old, new }.misplaced(&said)?;
        let choices = match misplaced.choices {
            Choices::Among { texts, beginnings } => [texts, beginnings].concat(),
            Choices::OnceIn(_) => Vec::new(),
        };
        Some((misplaced.parameter, choices))
    }

    fn old(texts: &[&str]) -> Option<(&'static str, Vec<String>)> {
        Some(("old_text", texts.iter().map(|text| (*text).to_owned()).collect()))
    }

    #[test]
    fn a_part_of_a_word_gives_way_to_the_line_that_the_request_names() {
        let content = "{\n  \"language\": \"sv\",\n  \"autosave\": true\n}\n";
        let request = "Change the language to \"de\" in a.txt";
        assert_eq!(wrong(request, content, "ru", "de"), old(&["\"language\": \"sv\","]));
        assert_eq!(wrong(request, content, "\"sv\"", "\"de\""), None, "a whole word");
        assert_eq!(wrong("Write ru as de in a.txt", content, "ru", "de"), None, "the user wrote it");
        assert_eq!(
            wrong("Change the colour to \"de\" in a.txt", content, "ru", "de"),
            None,
            "no line is named"
        );
    }

    #[test]
    fn a_value_among_others_is_no_reason_to_write_all_of_them_anew() {
        let json = "{\n  \"darkMode\": false,\n  \"fontSize\": 16\n}\n";
        for (request, content) in [
            ("Set darkMode to true in prefs.json.", json),
            ("please change the port to 8080.", "host: a\nport: 80\n"),
            ("Update retries in a.ini to 5", "[net]\nretries=3\n"),
            ("Change the language to \"de\" in a.json", "{\n  \"language\": \"sv\",\n  \"size\": 3\n}"),
        ] {
            assert!(sets_one_of_many(request, content), "{request}");
        }
        for (request, content) in [
            ("Set darkMode to true in prefs.json.", "{\"darkMode\": false}"),
            ("Set lightMode to true in prefs.json.", json),
            ("Overwrite prefs.json: set darkMode to true", json),
            ("Change the port in a.txt to the new one", "host: a\nport: 80\n"),
            ("Put port 80 into a.txt", "host: a\nport: 80\n"),
        ] {
            assert!(!sets_one_of_many(request, content), "{request}");
        }
    }

    #[test]
    fn a_value_beside_the_piece_to_replace_belongs_to_it() {
        let request = "Change the timeout in a.yaml from 30 to 45";
        let pieces = |content: &str, old: &str, new: &str| {
            Edit { content, path: "a.yaml", old, new }.pieces_about(request)
        };
        assert_eq!(pieces("a: 1\n  timeout: 30\n", "timeout", "45"), ["30", "timeout: 30"]);
        assert!(pieces("timeout: 30\n", "30", "45").is_empty(), "it is in the piece");
        let set = |request: &str, new: &str| {
            let content = "a: 1\nlanguage: sv\n";
            Edit { content, path: "a.yaml", old: "language", new }.pieces_about(request)
        };
        assert_eq!(set("Change the language to \"de\" in a.yaml", "de"), ["language: sv"]);
        assert!(set("Change \"language\" to \"lang\" in a.yaml", "lang").is_empty(), "the name is to change");
        assert!(set("Change the language key to lang in a.yaml", "lang").is_empty());
        assert!(pieces("timeout: 30\n", "timeout", "30 timeout").is_empty(), "it is in what replaces it");
        assert!(pieces("timeout:\n30\n", "timeout", "45").is_empty(), "it is elsewhere");
        assert_eq!(pieces("MAX_MB = 10\nX = 1\n", "MAX_MB", "25"), ["MAX_MB = 10"], "the name is to stay");
        assert_eq!(
            pieces("\"a\": 1,\n\"b\": 2\n", "\"a\": 1,", "\"a\": 3"),
            ["\"a\": 1"],
            "the comma is to stay"
        );
        assert!(pieces("a, b\n", "a,", "").is_empty(), "it is taken out");
        assert!(pieces("MAX_MB = 10\n", "MAX_MB", "MOST_MB").is_empty(), "it is given another name");
        assert_eq!(pieces("30: 30\n", ":", "45"), ["30: 30"], "what is there twice is no piece to replace");
    }

    #[test]
    fn a_line_is_taken_away_with_its_end() {
        let content = "Phone: 1\nFax: 2\nMail: 3";
        assert_eq!(wrong("delete the Fax line in a.txt", content, "Fax", ""), old(&["Fax: 2\n"]));
        assert_eq!(wrong("drop the Mail line", content, "Mail", ""), old(&["\nMail: 3"]));
        assert_eq!(wrong("no fax any more", content, "Fax: 2", ""), old(&["Fax: 2\n"]));
        assert_eq!(wrong("remove the Fax line", content, "Fax: 2\n", ""), None);
        let other = wrong("remove the Fax line", content, "Fax: 2\n", "Fax: 4\n");
        assert_eq!(other, Some(("new_text", vec![String::new()])));
        assert_eq!(wrong("remove the Fax line", content, "Phone: 1\nFax: 2\n", "Phone: 1\n"), None);
        assert_eq!(wrong("remove the word Fax", content, "Fax", ""), None, "a word alone");
        assert_eq!(wrong("drop the line", "Fax", "Fax", ""), None, "it is all there is");
    }

    #[test]
    fn what_is_added_takes_nothing_away() {
        let content = "fig x 1\nfig x 1\nplum x 2\n";
        let end = "Add this line at the bottom of a.txt: quince x 3";
        assert_eq!(wrong(end, content, "quince x 3", ""), old(&["plum x 2"]));
        assert_eq!(
            wrong(end, content, "plum x 2", "quince x 3"),
            Some(("new_text", vec!["plum x 2\n".into()]))
        );
        assert_eq!(wrong(end, content, "plum x 2\n", "plum x 2\nquince x 3\n"), None);
        assert_eq!(wrong(end, "a\nb\na\n", "b", "b\nquince"), old(&["b\na"]), "with what makes it unique");
        let title = "Add a title to a.txt";
        assert_eq!(wrong(title, content, "plum x 2", "# Fruit"), Some(("new_text", vec!["plum x 2".into()])));
        assert_eq!(wrong(title, content, "plum x 2", "# Fruit\nplum x 2"), None);
    }

    #[test]
    fn what_is_not_there_once_is_written_again_unless_the_user_wrote_it() {
        assert_eq!(wrong("Replace cat by dog", "cow cow", "cow", "hen"), old(&[]));
        assert_eq!(
            wrong("Replace cat by dog", "a dog", "cat", "dog"),
            None,
            "the tool says that it is not there"
        );
        assert_eq!(wrong("Replace cat by dog", "a dog", "cat", "cat"), old(&[]), "nothing would change");
    }

    #[test]
    fn an_assignment_is_told_from_a_use() {
        for text in [
            "FAN_AT = 28",
            "\"FAN_AT\": 28",
            "FAN_AT <- 28",
            "#define FAN_AT 28",
            "x['FAN_AT'] = 3",
            "FAN_AT: u8 = 2",
        ] {
            assert!(assigns(text, "FAN_AT"), "{text}");
        }
        for text in [
            "t > FAN_AT end",
            "if FAN_AT == 28",
            "MY_FAN_AT = 3",
            "FAN_AT_2 = 3",
            "f(FAN_AT)",
            "",
            "FAN_AT => 3",
        ] {
            assert!(!assigns(text, "FAN_AT"), "{text}");
        }
        assert_eq!(names_to_assign("Find where `FAN_AT` is set and change it to 31."), ["FAN_AT"]);
        assert!(
            names_to_assign("Rename addUp to sumAll").is_empty()
                && names_to_assign("Is FAN_AT 31?").is_empty()
        );
    }
}
