//! The report as a table for people, in Markdown: a row a family, and the reasons of what does not hold.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::facts::Facts;
use super::{Count, Laws, Report};

const HEAD: &str = "| family | vocabularies | by token | thinks | text before calls | several calls | thoughts kept | forced tokens \
    | history | thinks first | speaks first | calls first | marks |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";

impl Report {
    /// A row for each family, in Markdown, and behind the table the reasons for cases that could not be tried. `all` are the families
    /// that are known: those without a vocabulary are named.
    ///
    /// ```
    /// use toolgate_lab::families::Report;
    /// let text = Report::default().table(&["hermes".to_owned()]);
    /// assert!(text.contains("No vocabulary at hand: hermes."));
    /// ```
    pub fn table(&self, all: &[String]) -> String {
        let mut text = HEAD.to_owned();
        for (family, laws) in &self.by_family {
            let facts = self.facts.get(family).map(Vec::as_slice).unwrap_or_default();
            let _ = writeln!(text, "| {family} {}", row(facts, laws));
        }
        let mut reasons = BTreeSet::new();
        for laws in self.by_family.values() {
            reasons.extend(counts(laws).into_iter().flat_map(|count| count.exceptions.keys().cloned()));
        }
        if !reasons.is_empty() {
            text.push_str("\nCases that could not be tried, and why:\n\n");
        }
        for reason in reasons {
            let number = |laws: &Laws| -> usize {
                counts(laws).into_iter().filter_map(|count| count.exceptions.get(&reason)).sum()
            };
            let of: Vec<String> = (self.by_family.iter())
                .filter(|(_, laws)| number(laws) > 0)
                .map(|(family, laws)| format!("{family} {}", number(laws)))
                .collect();
            let _ = writeln!(text, "- {reason}: {}", of.join(", "));
        }
        let missing: Vec<&str> =
            all.iter().map(String::as_str).filter(|name| !self.by_family.contains_key(*name)).collect();
        if !missing.is_empty() {
            let _ = write!(text, "\nNo vocabulary at hand: {}.\n", missing.join(", "));
        }
        text
    }
}

fn row(facts: &[Facts], laws: &Laws) -> String {
    let vocabularies: BTreeSet<&str> = facts.iter().map(|facts| facts.vocabulary.as_str()).collect();
    let some = |of: fn(&Facts) -> bool| match facts.iter().filter(|facts| of(facts)).count() {
        0 => "no",
        all if all == facts.len() => "yes",
        _ => "some",
    };
    let one_of = |values: BTreeSet<String>| values.into_iter().collect::<Vec<_>>().join("; ");
    let thinks = facts.iter().map(|facts| facts.thinks.in_words().to_owned());
    let held: Vec<String> = counts(laws).into_iter().map(held).collect();
    format!(
        "| {} | {} | {} | {} | {} | {} | {} |",
        vocabularies.into_iter().collect::<Vec<_>>().join(", "),
        some(|facts| facts.decides_by_token),
        one_of(thinks.collect()),
        some(|facts| facts.preamble),
        some(|facts| facts.parallel),
        one_of(facts.iter().map(|facts| facts.history.clone()).collect()),
        held.join(" | ")
    )
}

fn counts(laws: &Laws) -> [&Count; 6] {
    let own = &laws.own_start;
    [&laws.forced_tokens, &laws.history, &own.thinks, &own.says, &own.calls, &laws.no_spelled_marks]
}

/// The cases that hold, of those that were tried.
fn held(count: &Count) -> String {
    let untried: usize = count.exceptions.values().sum();
    let tried = count.cases.saturating_sub(untried);
    match count.failed {
        _ if tried == 0 => "–".to_owned(),
        0 => format!("{tried}"),
        failed => format!("**{} of {tried}**", tried.saturating_sub(failed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_a_row_and_what_failed_stands_out() {
        let mut report = Report::default();
        let forced_tokens = Count { cases: 5, failed: 1, exceptions: [("none".to_owned(), 2)].into() };
        let laws = Laws { forced_tokens, ..Laws::default() };
        report.by_family.insert("hermes".to_owned(), laws);
        report.facts.insert("hermes".to_owned(), vec![Facts::default()]);
        let text = report.table(&["hermes".to_owned(), "kimi_k2".to_owned()]);
        assert!(text.contains("| hermes |") && text.contains("| **2 of 3** | – |"), "{text}");
        assert!(text.contains("- none: hermes 2\n"), "{text}");
        assert!(text.ends_with("No vocabulary at hand: kimi_k2.\n"), "{text}");
    }
}
