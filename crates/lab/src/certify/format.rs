//! First step: the form of a model's calls, its marks and how it thinks, from its file alone, and the laws of families on its own
//! vocabulary. Reads no weights.

use toolgate_chat::format::Family;
use toolgate_engine::models::ResolvedModel;

use super::{Format, Mark, Reasoning, Report, RoundTrips};
use crate::families::{self, Failure};

/// Turns of random calls for each law.
const TURNS: usize = 12;
const FEW_TURNS: usize = 1;

/// Measures; the texts that calls are made of.
pub(super) fn measure(file: &ResolvedModel, quick: bool, report: &mut Report) -> anyhow::Result<Vec<String>> {
    let mut failed = Vec::new();
    let turns = if quick { FEW_TURNS } else { TURNS };
    let template = |own: String| match &file.entry {
        Some(entry) => entry.mended_template(&own).into_owned(),
        None => own,
    };
    let own = families::own(&file.path, template, turns, &mut |failure| failed.push(failure))?;
    let knowledge = own.dialogue.knowledge();
    let family = own.dialogue.format().name().to_owned();
    let source = match family.as_str() {
        "generic" => "generic",
        name if Family::names().iter().any(|known| known == name) => "known",
        _ => "learned",
    };
    report.format = Format { family, source: source.to_owned(), why: knowledge.why.clone() };
    let of_calls = own.dialogue.format().call_texts();
    let token = |(text, token): (String, u32)| Mark { token: Some(token), trained: true, text };
    report.marks = own.marks.into_iter().map(token).collect();
    if !report.marks.iter().any(|mark| of_calls.iter().any(|text| text.contains(&mark.text))) {
        let opening = own.dialogue.format().openings().first().map(|opening| (*opening).to_owned());
        report.marks.extend(opening.map(|text| Mark { text, token: None, trained: true }));
    }
    let laws = &own.laws;
    let starts = &laws.own_start;
    let counts = [
        &laws.forced_tokens,
        &laws.history,
        &starts.thinks,
        &starts.says,
        &starts.calls,
        &laws.no_spelled_marks,
    ];
    let mut trips = RoundTrips { failed: failed.iter().map(shown).collect(), ..RoundTrips::default() };
    for count in counts {
        trips.cases += count.cases;
        for (why, n) in &count.exceptions {
            *trips.untried.entry(why.clone()).or_default() += n;
        }
    }
    report.round_trips = trips;
    let support = own.dialogue.reasoning_support();
    report.reasoning = Reasoning {
        switches: support.switches.iter().map(|switch| switch.variable.clone()).collect(),
        opens: own.facts.thinks.in_words().to_owned(),
        keeps: own.facts.history.clone(),
    };
    Ok(of_calls)
}

fn shown(failure: &Failure) -> String {
    let law = serde_json::to_value(failure.law).ok();
    let law = law.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default();
    format!("{law}: {}: expected {}, found {}", failure.case, failure.want, failure.got)
}
