//! Which tool a call is of: what the model prefers, less what it would prefer whatever it was asked.
//!
//! A small model reads a file because `read_file` is there. How probable each tool is after a request that says
//! nothing tells how much of that is bias (Zhao et al. 2021, "Calibrate Before Use"); a share of it is taken off before
//! the likeliest tool is chosen. It costs one evaluation a call, one more for each beginning that names share, and two
//! short prompts for each set of tools, before its first call. Whoever can look at what may come next ([`Look`]) can choose
//! so: `remote` does it for the models of servers.
//!
//! For the packages of this workspace alone: no part of the API.

use std::num::NonZeroUsize;
use std::sync::MutexGuard;
use std::time::Instant;

use serde_json::Value;
use toolgate_chat::{
    Effect, Message, Opened, ToolCall, ToolChoice, ToolFormat, ToolName, ToolSpec, Transcript,
};
use toolgate_grammar::TokenId;
use toolgate_infer::{Backend, Rows, Session, common_len, log_probabilities};

use crate::Error;
use crate::TurnRequest;
use crate::model::pool::lock;
use crate::model::recent::Recent;
use crate::profile::choice::ToolSignals;
use crate::profile::options::Options;
use crate::turn::changes::{May, is_offered};
use crate::turn::local::State;
use crate::turn::making::Making;

/// Requests that say nothing.
const EMPTY: [&str; 2] = ["N/A", "Please help me."];

/// Conversations that say nothing, in whose midst the bias shows.
pub fn empty() -> [Transcript; 2] {
    EMPTY.map(|request| Transcript::new().with(Message::User(request.to_owned())))
}

/// Sets of tools of which something is remembered.
const KEPT: usize = 64;

/// Tools above which a model's choice is left alone: the paths of their names would cost more than they tell.
const MOST_TOOLS: usize = 64;

/// What was measured of some sets of tools, as prompts show them.
pub struct OfTools<V>(Recent<Vec<Value>, V>);

impl<V> Default for OfTools<V> {
    fn default() -> Self {
        Self(Recent::new(KEPT))
    }
}

impl<V: Clone> OfTools<V> {
    /// What is known of these tools.
    pub fn get(&mut self, tools: &[ToolSpec]) -> Option<V> {
        let shown = shown(tools);
        self.0.find(|known| *known == shown).cloned()
    }

    /// Notes what was measured of these tools.
    pub fn put(&mut self, tools: &[ToolSpec], measured: V) {
        self.0.put(shown(tools), measured);
    }
}

/// The bias towards each tool of some sets.
pub type Biases = OfTools<Vec<f64>>;
/// How likely calls are in conversations that say nothing: logarithms of the odds.
pub type FreeCalls = OfTools<f64>;

impl<B: Backend + Send> Making<'_, B> {
    /// Learns the model's bias towards the tools offered, where it is to be taken off and is not known yet; whether it did,
    /// and so evaluated other prompts.
    pub(crate) fn learn_bias(&mut self, state: &mut State<B>, offered: &[ToolSpec]) -> Result<bool, Error> {
        let is_taken_off = self.engine.options.tool_bias > 0.0 && self.weighs(offered);
        if !is_taken_off || self.biases().get(offered).is_some() {
            return Ok(false);
        }
        let probes = empty().map(|transcript| self.introduced(&transcript));
        let place = self.probes(&state.session, &probes, offered)?;
        if let Some(bias) = self.engine.known_bias(&state.session, &place, offered.len()) {
            self.biases().put(offered, bias);
            return Ok(false);
        }
        let bias = mean(&probes, |transcript| {
            self.probe(state, transcript, offered)?;
            self.weights(state, 0)
        })?;
        self.engine.keep_bias(&state.session, &place, &bias);
        self.biases().put(offered, bias);
        Ok(true)
    }

    /// Asks what the choice among these tools weighs beside how likely each is, where it is weighed.
    pub(crate) fn learn_of_tools(&mut self, state: &mut State<B>, offered: &[ToolSpec]) -> Result<(), Error> {
        if self.weighs(offered) {
            self.of_tools = self.told_of_tools(state, offered)?;
        }
        Ok(())
    }

    fn biases(&self) -> MutexGuard<'_, Biases> {
        lock(&self.engine.learned.biases)
    }

    /// The tokens of all probes: what the bias depends on beside the model.
    pub(crate) fn probes(
        &self,
        session: &Session<B>,
        probes: &[Transcript],
        offered: &[ToolSpec],
    ) -> Result<Vec<TokenId>, Error> {
        let mut tokens = Vec::new();
        for transcript in probes {
            tokens.extend(self.prompt(session, transcript, offered, Opened::Close)?);
        }
        Ok(tokens)
    }

    /// The tool to call, of those that may be, after the prompt that was evaluated last, by itself or with what all calls begin
    /// with, where `None` leaves it to the decoding; and what may be called, as the tools weigh.
    pub(crate) fn choose(
        &mut self,
        state: &mut State<B>,
        offered: &[ToolSpec],
        may: May,
    ) -> Result<(Option<ToolName>, May), Error> {
        if !self.weighs(offered) {
            return Ok((None, may.unweighed(self.request)));
        }
        let bias = self.biases().get(offered).unwrap_or_else(|| vec![0.0; offered.len()]);
        let started = Instant::now();
        let held = state.session.tokens().to_vec();
        let prompt = held.len().saturating_sub(self.ahead);
        let weights = self.weights(state, self.ahead)?;
        // What all calls begin with is evaluated now, and this one begins so, too. Less than was held is left where the
        // model's memory cannot be cut.
        let rest = held.get(state.session.tokens().len()..).unwrap_or_default();
        self.stats.decode_calls += state.session.eval(rest, Rows::Last)?;
        self.ahead = state.session.tokens().len().saturating_sub(prompt);
        self.stats.ms.decode += started.elapsed().as_secs_f64() * 1e3;
        let may = may.weighed(offered, &weights);
        let told = ToolSignals { own: weights, bias, ..std::mem::take(&mut self.of_tools) };
        let best = best(&self.engine.options, self.request, offered, &told, may);
        self.weighed = Some(told);
        Ok((best, may))
    }

    /// Whether the choice among these tools is weighed against the model's bias.
    fn weighs(&self, offered: &[ToolSpec]) -> bool {
        // A call that was thought about follows the thought.
        self.thought.is_none() && is_weighed(&self.engine.options, offered)
    }

    /// How a call of each tool begins, up to where it tells the tool; none where the choice is not weighed.
    pub(crate) fn names(&self, state: &State<B>, offered: &[ToolSpec]) -> Result<Vec<Vec<TokenId>>, Error> {
        if !self.weighs(offered) {
            return Ok(Vec::new());
        }
        let format = self.engine.dialogue.format();
        let texts = openings_of(format.as_ref(), offered);
        let tokens = |text: String| Ok(state.session.backend().tokenize_mark(&format.mark(&text))?);
        texts.into_iter().map(tokens).collect()
    }

    /// The logarithm of each tool's probability where a call names its tool, of which the session holds the first `ahead`
    /// tokens already. It holds what all calls begin with then.
    pub(crate) fn weights(&mut self, state: &mut State<B>, ahead: usize) -> Result<Vec<f64>, Error> {
        let (weights, calls) = weights(&mut state.session, &self.names, ahead)?;
        self.stats.decode_calls += calls;
        Ok(weights)
    }
}

/// The mean of the weights that tools have in some conversations.
pub fn mean(
    conversations: &[Transcript],
    mut weights: impl FnMut(&Transcript) -> Result<Vec<f64>, Error>,
) -> Result<Vec<f64>, Error> {
    let mut mean = Vec::new();
    for conversation in conversations {
        let weights = weights(conversation)?;
        mean.resize(weights.len(), 0.0);
        for (mean, weight) in mean.iter_mut().zip(weights) {
            *mean += weight / conversations.len() as f64;
        }
    }
    Ok(mean)
}

/// What a turn of at most so many calls is held to once the tool of the first is chosen. One call is all there is where no more
/// are allowed: its grammar needs none of the other tools.
pub(crate) fn held_to(
    tool: ToolName,
    most: Option<NonZeroUsize>,
    choice: &ToolChoice,
) -> (ToolChoice, Option<ToolName>) {
    match most.map(NonZeroUsize::get) {
        Some(1) => (ToolChoice::Only(vec![tool]), None),
        _ => (choice.clone(), Some(tool)),
    }
}

/// Whether a model with these options is not left to itself in its choice among these tools.
pub fn is_weighed(options: &Options, offered: &[ToolSpec]) -> bool {
    (options.tool_bias > 0.0 || options.prior_weight > 0.0) && (2..=MOST_TOOLS).contains(&offered.len())
}

/// The tool of most weight that may be called, by what the profile weighs. The prior counts for a tool that looks. Of those that
/// change something the one of most weight stands beside these, and the prior can only speak against it.
pub fn best(
    options: &Options,
    request: &TurnRequest<'_>,
    offered: &[ToolSpec],
    told: &ToolSignals,
    may: May,
) -> Option<ToolName> {
    let weights = options.choice.weigh(told, options.tool_bias, request, offered);
    let prior = request.prior.iter().chain(std::iter::repeat(&0.0));
    let weighed = offered.iter().zip(weights).zip(prior);
    let (look, change): (Vec<_>, Vec<_>) = weighed
        .filter(|((tool, _), _)| is_offered(&request.choice, tool) && may.call(tool))
        .partition(|((tool, _), _)| tool.effect == Effect::Reads);
    let own = change.into_iter().max_by(|((_, a), _), ((_, b), _)| a.total_cmp(b));
    let own = own.map(|((tool, own), prior)| (tool, own + options.prior_weight * prior.min(0.0)));
    let look = look.into_iter().map(|((tool, own), prior)| (tool, own + options.prior_weight * prior));
    let best = look.chain(own).max_by(|(_, a), (_, b)| a.total_cmp(b));
    best.map(|(tool, _)| tool.name.clone())
}

/// How a call of each tool begins, up to where it tells the tool.
pub fn openings_of(format: &dyn ToolFormat, offered: &[ToolSpec]) -> Vec<String> {
    let opening = |tool| opening(&format.render_calls(&[bare(tool)], offered), tool);
    offered.iter().map(opening).collect()
}

/// What may come next after a prompt, token by token and back again.
pub trait Look {
    /// Goes on by some tokens; the evaluations it took.
    fn go(&mut self, tokens: &[TokenId]) -> Result<usize, Error>;

    /// The logarithm of the probability of each of these tokens to come next.
    fn shares(&mut self, next: &[TokenId]) -> Result<Vec<f64>, Error>;

    /// Where it is: the tokens in front, to go [`back`](Self::back) to.
    fn here(&mut self) -> Result<Vec<TokenId>, Error>;

    /// Goes back to where it was; the evaluations it took.
    fn back(&mut self, here: &[TokenId]) -> Result<usize, Error>;
}

impl<B: Backend> Look for Session<B> {
    fn go(&mut self, tokens: &[TokenId]) -> Result<usize, Error> {
        // Wider batches would give other low bits, with which the turn would go on.
        Ok(self.eval_exact(tokens, Rows::Last)?)
    }

    fn shares(&mut self, next: &[TokenId]) -> Result<Vec<f64>, Error> {
        Ok(log_probabilities(self.logits()?, next))
    }

    fn here(&mut self) -> Result<Vec<TokenId>, Error> {
        self.checkpoint()?;
        Ok(self.tokens().to_vec())
    }

    fn back(&mut self, here: &[TokenId]) -> Result<usize, Error> {
        Ok(self.rewind(here, Rows::None)?)
    }
}

/// The tokens that all openings begin with.
pub(crate) fn opening_of_all(openings: &[Vec<TokenId>]) -> &[TokenId] {
    let Some((first, others)) = openings.split_first() else { return &[] };
    let shared = others.iter().map(|other| common_len(first, other)).min().unwrap_or(first.len());
    first.get(..shared).unwrap_or_default()
}

/// The logarithm of the probability of each opening, as far as they differ, where its first `depth` tokens are behind,
/// and the evaluations it took.
pub fn weights(
    ahead: &mut dyn Look,
    openings: &[Vec<TokenId>],
    depth: usize,
) -> Result<(Vec<f64>, usize), Error> {
    likely_weights(ahead, openings, depth, f64::NEG_INFINITY)
}

/// The same, where openings that begin alike share what they have together, unless its logarithm is at least this.
pub(crate) fn likely_weights(
    ahead: &mut dyn Look,
    openings: &[Vec<TokenId>],
    depth: usize,
    least: f64,
) -> Result<(Vec<f64>, usize), Error> {
    let mut weights = vec![0.0; openings.len()];
    let all: Vec<usize> = (0..openings.len()).collect();
    let calls = weigh(ahead, openings, &all, (depth, least), &mut weights)?;
    Ok((weights, calls))
}

/// Adds the logarithm of the probability of each opening of a group, from token `depth` on, as far as they differ and are not less
/// likely than `least`; the number of evaluations it took.
fn weigh(
    ahead: &mut dyn Look,
    openings: &[Vec<TokenId>],
    group: &[usize],
    (depth, least): (usize, f64),
    weights: &mut [f64],
) -> Result<usize, Error> {
    let token = |index: usize, at: usize| openings.get(index).and_then(|opening| opening.get(at)).copied();
    let Some(&first) = group.first() else { return Ok(0) };
    let shared = (depth..).take_while(|&at| {
        token(first, at).is_some() && group.iter().all(|&index| token(index, at) == token(first, at))
    });
    let differ = depth + shared.count();
    let common = openings.get(first).and_then(|opening| opening.get(depth..differ)).unwrap_or_default();
    let mut calls = ahead.go(common)?;
    let mut next: Vec<TokenId> = group.iter().filter_map(|&index| token(index, differ)).collect();
    next.sort_unstable();
    next.dedup();
    let shares = ahead.shares(&next)?;
    let here = ahead.here()?;
    for (chosen, share) in next.into_iter().zip(shares) {
        let members: Vec<usize> =
            group.iter().copied().filter(|&index| token(index, differ) == Some(chosen)).collect();
        let so_far = members.first().and_then(|&member| weights.get(member)).copied().unwrap_or_default();
        let is_parted = members.len() > 1 && so_far + share >= least;
        let share = if is_parted { share } else { share - (members.len() as f64).ln() };
        for &member in &members {
            if let Some(weight) = weights.get_mut(member) {
                *weight += share;
            }
        }
        if is_parted {
            calls += ahead.go(&[chosen])?;
            calls += weigh(ahead, openings, &members, (differ + 1, least), weights)?;
            calls += ahead.back(&here)?;
        }
    }
    Ok(calls)
}

/// Tools as prompts show them: what the state at hand narrows is not in it.
fn shown(tools: &[ToolSpec]) -> Vec<Value> {
    tools.iter().map(ToolSpec::shown).collect()
}

/// A call of the tool without arguments: all that matters is how a call of it begins.
fn bare(tool: &ToolSpec) -> ToolCall {
    ToolCall::new(tool.name.as_str(), serde_json::Map::new()).with_id("")
}

/// The beginning of a call, up to the character after the tool's name, which tells it from longer ones.
fn opening(call: &str, tool: &ToolSpec) -> String {
    let name = tool.name.as_str();
    let end = call.find(name).map_or(call.len(), |at| at + name.len());
    let after = call.get(end..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
    call.get(..end + after).unwrap_or(call).to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use std::sync::Arc;

    use toolgate_infer::scripted::Scripted;
    use toolgate_infer::{Cancel, Vocabulary};

    use super::*;

    #[test]
    fn no_hint_raises_a_tool_that_changes_something() {
        let tool =
            |name: &str, effect| ToolSpec::new(name, "", serde_json::json!({})).unwrap().with_effect(effect);
        let (transcript, sampling) = (Transcript::new(), crate::Sampling::default());
        let chosen = |effect, prior: [f64; 2]| {
            let tools = [tool("read", Effect::Reads), tool("other", effect)];
            let request = TurnRequest { prior: &prior, ..TurnRequest::new(&transcript, &tools, &sampling) };
            let options = Options { prior_weight: 100.0, ..Options::guided() };
            let told = ToolSignals { own: vec![-0.1, -2.0], ..ToolSignals::default() };
            let best = best(&options, &request, &tools, &told, May::ALL);
            best.unwrap().to_string()
        };
        assert_eq!(chosen(Effect::Changes, [0.0, 1.0]), "read", "the model's own first choice stays");
        assert_eq!(chosen(Effect::Unknown, [0.0, 1.0]), "read");
        assert_eq!(chosen(Effect::Reads, [0.0, 1.0]), "other", "control: one that looks is raised");
        assert_eq!(
            chosen(Effect::Changes, [-1.0, 1.0]),
            "other",
            "of a look it can be told that it does not fit"
        );
    }

    #[test]
    fn openings_are_weighed_where_they_differ() {
        let begun = || {
            let backend = Scripted::new(Arc::new(Vocabulary::bytes_only())).say("get_b(");
            let mut session = Session::new(backend);
            session.set_prompt(&[65], 0, &Cancel::default(), &mut |_| ()).unwrap();
            session
        };
        let mut session = begun();
        let tokens = |text: &str| text.bytes().map(u32::from).collect::<Vec<_>>();
        let openings = ["get_a(", "get_b(", "get_bc(", "put("].map(tokens);
        let mut weights = vec![0.0; 4];
        let calls =
            weigh(&mut session, &openings, &[0, 1, 2, 3], (0, f64::NEG_INFINITY), &mut weights).unwrap();
        let likeliest = (0..4).max_by(|&a, &b| weights[a].total_cmp(&weights[b]));
        assert_eq!(likeliest, Some(1), "{weights:?}");
        assert!(weights[2] < weights[1] && weights[3] < weights[1] && weights[0] < weights[1], "{weights:?}");
        assert!(calls < openings.iter().map(Vec::len).sum(), "what they share is evaluated once: {calls}");
        assert_eq!(session.tokens().len(), 1, "what differs is taken back");
        let (shared, calls) = likely_weights(&mut begun(), &openings, 0, 0.0).unwrap();
        assert!(shared[0] == shared[1] && shared[1] == shared[2] && shared[3] < shared[1], "{shared:?}");
        assert_eq!(calls, 0, "nothing is so likely that it is parted");
    }

    #[test]
    fn an_opening_evaluated_with_the_prompt_is_weighed_the_same_with_an_evaluation_less() {
        let tokens = |text: &str| text.bytes().map(u32::from).collect::<Vec<_>>();
        let names = ["<get_a(", "<get_b(", "<get_bc("].map(tokens);
        let weighed = |ahead: &[TokenId]| {
            let backend = Scripted::new(Arc::new(Vocabulary::bytes_only())).say("<get_b(");
            let mut session = Session::new(backend);
            session.set_prompt_ahead(&[65], ahead, 0, &Cancel::default(), &mut |_| ()).unwrap();
            weights(&mut session, &names, ahead.len()).unwrap()
        };
        let (apart, calls) = weighed(&[]);
        let (with_prompt, fewer) = weighed(opening_of_all(&names));
        assert_eq!(opening_of_all(&names), tokens("<get_"));
        assert_eq!((with_prompt, fewer), (apart, calls - 1));
    }

    #[test]
    fn an_opening_ends_behind_the_name() {
        let tool = ToolSpec::new("read", "", serde_json::json!({"type": "object"})).unwrap();
        assert_eq!(opening("<call>{\"name\": \"read\", \"x\": 1}", &tool), "<call>{\"name\": \"read\"");
        assert_eq!(opening("read", &tool), "read");
    }
}
