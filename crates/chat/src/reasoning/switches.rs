//! Third part of learning about thinking: the variables a template reads, tried with plausible values.
//!
//! Invariant: a value is listed only where the template renders with it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::history::{History, given};
use super::probe::{Probe, Prompts};
use super::{Setting, Spot, Switch};

/// Variables that are tried with all values, and those that are tried with true and false.
const NAMED: usize = 6;
const OTHERS: usize = 6;
/// A word that no template knows.
const CONTROL: &str = "zcontrol";
/// The words of efforts.
const EFFORTS: [&str; 4] = ["none", "low", "medium", "high"];
/// Values of a budget in tokens.
const BUDGETS: [u32; 2] = [0, 512];
/// Words of a template's own that are tried.
const LITERALS: usize = 6;

/// What each template is given otherwise, or what is no switch by its nature.
const GIVEN: [&str; 22] = [
    "messages",
    "tools",
    "xml_tools",
    "functions",
    "datetime",
    "documents",
    "add_generation_prompt",
    "continue_final_message",
    "bos_token",
    "eos_token",
    "unk_token",
    "pad_token",
    "strftime_now",
    "raise_exception",
    "namespace",
    "range",
    "dict",
    "true",
    "false",
    "none",
    "loop",
    "caller",
];

/// A variable, and the prompts with each value that was tried.
pub(super) struct Trial {
    pub(super) variable: String,
    pub(super) unset: Prompts,
    pub(super) outcomes: Vec<(Value, Prompts)>,
    is_named: bool,
    literals: Vec<String>,
    beside: Option<(String, Value)>,
}

/// Renders the prompts with each value of each variable.
pub(super) fn trials(probe: &Probe) -> Vec<Trial> {
    let source = probe.template.source();
    let declared = probe.template.variables().iter().map(String::as_str);
    let read: BTreeSet<&str> =
        declared.chain(set_again(source)).filter(|name| !GIVEN.contains(name)).collect();
    let (named, others): (Vec<&str>, Vec<&str>) = read.into_iter().partition(|name| is_named(name));
    let unset = probe.prompts(&Value::Null);
    let tried = named.into_iter().take(NAMED).chain(others.into_iter().take(OTHERS));
    tried.map(|variable| Trial::run(probe, variable, &unset, None)).collect()
}

/// The switches among the variables that were tried. One that does nothing alone is tried again beside one that is on.
pub(super) fn told_apart(probe: &Probe, history: &History, trials: Vec<Trial>) -> Vec<Switch> {
    let kept = history.kept(probe, &Value::Null);
    let mut switches = Vec::new();
    let mut silent = Vec::new();
    for trial in trials {
        match trial.switch(probe, history, &kept) {
            Some(switch) => switches.push(switch),
            None if trial.is_named => silent.push(trial.variable),
            None => {}
        }
    }
    let beside = switches.iter().find_map(|switch: &Switch| {
        let setting = switch.setting(&json!(true)).filter(|setting| !setting.is_default)?;
        Some((switch.variable.clone(), setting.value.clone()))
    });
    if let Some((variable, value)) = &beside {
        let extra = given(variable, value);
        let (unset, kept) = (probe.prompts(&extra), history.kept(probe, &extra));
        let trials = silent.iter().map(|silent| Trial::run(probe, silent, &unset, beside.clone()));
        switches.extend(trials.filter_map(|trial| trial.switch(probe, history, &kept)));
    }
    switches
}

impl Trial {
    fn run(probe: &Probe, variable: &str, unset: &Prompts, beside: Option<(String, Value)>) -> Self {
        let is_named = is_named(variable);
        let literals = if is_named { literals(probe.template.source(), variable) } else { Vec::new() };
        let (variable, unset, outcomes) = (variable.to_owned(), unset.clone(), Vec::new());
        let mut trial = Self { variable, unset, outcomes, is_named, literals, beside };
        for value in values(&trial.variable, is_named, &trial.literals) {
            let prompts = probe.prompts(&trial.extra(&value));
            if prompts.shown().is_some() {
                trial.outcomes.push((value, prompts));
            }
        }
        trial
    }

    /// The variables with this value.
    fn extra(&self, value: &Value) -> Value {
        let mut extra = given(&self.variable, value);
        if let (Some((variable, value)), Some(extra)) = (&self.beside, extra.as_object_mut()) {
            extra.insert(variable.clone(), value.clone());
        }
        extra
    }

    fn switch(&self, probe: &Probe, history: &History, kept: &[Spot]) -> Option<Switch> {
        let unset = history.opens(&self.unset);
        let known = self.known(|value| history.kept(probe, &self.extra(value)));
        let settings: Vec<Setting> = self
            .outcomes
            .iter()
            .filter(|(value, _)| known.contains(value))
            .map(|(value, prompts)| {
                let opens = history.opens(prompts);
                let instructs = prompts.told() != self.unset.told();
                let kept_now = history.kept(probe, &self.extra(value));
                let is_default = *prompts == self.unset && kept_now == kept;
                Setting { value: value.clone(), opens, instructs, kept: kept_now, is_default }
            })
            .collect();
        let changes = |setting: &Setting| match self.is_named {
            true => !setting.is_default,
            false => setting.opens != unset,
        };
        settings.iter().any(changes).then(|| Switch {
            variable: self.variable.clone(),
            settings,
            beside: self.beside.clone(),
        })
    }

    /// The values that the template tells apart.
    fn known(&self, kept: impl Fn(&Value) -> Vec<Spot>) -> Vec<Value> {
        let numbers: Vec<Value> = self.values(Value::is_number);
        if !numbers.is_empty() {
            return numbers;
        }
        let words: Vec<Value> = self.values(Value::is_string);
        let control = self.prompts(&json!(CONTROL));
        let is_apart = |word: &Value| {
            let (Some(own), Some(text)) = (self.prompts(word), word.as_str()) else { return false };
            control.is_none_or(|control| *own != control.with(CONTROL, text) || control.prints(CONTROL))
        };
        if words.iter().any(|word| word != CONTROL && is_apart(word)) {
            let is_known = |word: &Value| {
                is_apart(word)
                    || word.as_str().is_some_and(|word| self.literals.iter().any(|own| own == word))
            };
            return words.into_iter().filter(|word| word != CONTROL && is_known(word)).collect();
        }
        // Words of its own may change the history alone.
        let own: Vec<Value> = self.literals.iter().map(|word| json!(word)).collect();
        let control = json!(CONTROL);
        if own.iter().any(|word| kept(word) != kept(&control)) {
            return words.into_iter().filter(|word| own.contains(word)).collect();
        }
        self.values(Value::is_boolean)
    }

    fn values(&self, is_kind: impl Fn(&Value) -> bool) -> Vec<Value> {
        self.outcomes.iter().map(|(value, _)| value).filter(|value| is_kind(value)).cloned().collect()
    }

    fn prompts(&self, value: &Value) -> Option<&Prompts> {
        self.outcomes.iter().find(|(own, _)| own == value).map(|(_, prompts)| prompts)
    }
}

impl Prompts {
    fn prints(&self, word: &str) -> bool {
        [&self.alone, &self.with_system].into_iter().flatten().any(|text| text.contains(word))
    }

    fn with(&self, from: &str, to: &str) -> Self {
        let with = |text: &Option<String>| text.as_ref().map(|text| text.replace(from, to));
        Self { alone: with(&self.alone), with_system: with(&self.with_system) }
    }
}

/// Whether a variable's name speaks of thinking. All else is a switch only where the prompt's end says so.
fn is_named(variable: &str) -> bool {
    let name = variable.to_lowercase();
    ["think", "thought", "reason", "effort"].iter().any(|word| name.contains(word))
}

fn values(variable: &str, is_named: bool, literals: &[String]) -> Vec<Value> {
    let mut values = vec![json!(true), json!(false)];
    if !is_named {
        return values;
    }
    if ["budget", "token"].iter().any(|word| variable.contains(word)) {
        values.extend(BUDGETS.map(Value::from));
        return values;
    }
    values.push(json!(CONTROL));
    let own = literals.iter().map(String::as_str).filter(|own| !EFFORTS.contains(own));
    values.extend(EFFORTS.into_iter().chain(own).map(Value::from));
    values
}

/// The variables that a template sets from what they were given as: `set thinking = thinking | default(true)`.
fn set_again(source: &str) -> impl Iterator<Item = &str> {
    source.match_indices("set ").filter_map(|(at, set)| {
        let rest = source.get(at + set.len()..)?.trim_start();
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        let value = rest.get(name.len()..)?.trim_start().strip_prefix('=')?.trim_start();
        let after = value.strip_prefix(name)?;
        (!name.is_empty() && after.starts_with([' ', '|', '%'])).then_some(name)
    })
}

/// The words that a template compares a variable with: only what to try, as rendering decides.
fn literals(source: &str, variable: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (at, _) in source.match_indices(variable) {
        let after = source.get(at + variable.len()..).unwrap_or_default().trim_start();
        let end = if let Some(list) = after.strip_prefix("in ").or_else(|| after.strip_prefix("not in ")) {
            list.split_once(']').map(|(list, _)| list)
        } else if after.starts_with("==") || after.starts_with("!=") || after.starts_with('=') {
            after.split_once("%}").map(|(compared, _)| compared.split(" and ").next().unwrap_or_default())
        } else {
            None
        };
        let words = end.unwrap_or_default().split(['\'', '"']).skip(1).step_by(2);
        let is_word = |word: &&str| {
            (2..=12).contains(&word.len())
                && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-/".contains(c))
        };
        for word in words.filter(is_word) {
            if found.len() < LITERALS && !found.iter().any(|own| own == word) {
                found.push(word.to_owned());
            }
        }
    }
    found
}
