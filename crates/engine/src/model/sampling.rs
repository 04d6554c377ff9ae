//! How the tokens of a turn are drawn and bounded, in the words of its request.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
pub use toolgate_infer::Penalties;
use toolgate_infer::TokenId;

use crate::Reasoning;

/// How tokens are drawn, and where an answer ends.
///
/// ```
/// use toolgate_engine::{Cancel, Engine, Sampling, TurnRequest};
/// # use std::sync::Arc;
/// # use toolgate_engine::{LocalEngine, Options};
/// # use toolgate_chat::{Message, Transcript};
/// # use toolgate_infer::{Vocabulary, scripted::Scripted};
/// # let model = Scripted::new(Arc::new(Vocabulary::bytes_only()))
/// #     .on("weather", "It rains.\nTomorrow it will, too.");
/// # let engine = LocalEngine::scripted(model, Options::default())?;
/// # let transcript = Transcript::new().with(Message::User("How is the weather in Oslo?".into()));
///
/// // The likeliest tokens, 100 at most, and none from the first line break on.
/// let sampling = Sampling::default().max_tokens(100).stop(vec!["\n".into()]);
/// let request = TurnRequest::new(&transcript, &[], &sampling);
/// let turn = engine.turn(&request, &Cancel::default(), &mut |_| {})?;
/// assert_eq!(turn.parsed.content.as_deref(), Some("It rains."));
/// # Ok::<(), toolgate_engine::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sampling {
    /// 0 takes the likeliest token; higher is more random. Default 0.
    pub temperature: f32,
    /// Keep only the `k` likeliest tokens; 0 keeps all. Default 0.
    pub top_k: usize,
    /// Keep the likeliest tokens that make up this probability; 1 keeps all. Default 1.
    pub top_p: f32,
    /// Keep tokens at least this likely relative to the likeliest; 0 keeps all. Default 0.
    pub min_p: f32,
    /// The same seed gives the same turn. Default 0.
    pub seed: u64,
    /// Tokens a turn may have. Default 1,024.
    pub max_tokens: usize,
    /// Texts that end an answer, which stops in front of them; calls are written whole. Default none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Against what an answer in text holds already; calls and other forms repeat their own marks, and are written without.
    #[serde(default, skip_serializing_if = "Penalties::are_off")]
    pub penalties: Penalties,
    /// What is added to the logits of single tokens. Default none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bias: Vec<(TokenId, f32)>,
    /// How much the model thinks before it speaks. Default: as its profile and its template say.
    #[serde(default, skip_serializing_if = "Reasoning::is_auto")]
    pub reasoning: Reasoning,
    /// Variables of the chat template by name, such as `enable_thinking`. A template that does not read one is an error of the
    /// turn. Default none.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub template_values: Map<String, Value>,
}

toolgate_chat::setters! { Sampling  {
    temperature: f32,
    top_k: usize,
    top_p: f32,
    min_p: f32,
    seed: u64,
    max_tokens: usize,
    stop: Vec<String>,
    penalties: Penalties,
    bias: Vec<(TokenId, f32)>,
    reasoning: Reasoning,
    template_values: Map<String, Value>,
} }

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            seed: 0,
            max_tokens: 1024,
            stop: Vec::new(),
            penalties: Penalties::default(),
            bias: Vec::new(),
            reasoning: Reasoning::default(),
            template_values: Map::new(),
        }
    }
}

/// How a model that thinks is drawn from where its file says nothing, as Qwen3's and DeepSeek-R1's makers advise: greedily it
/// repeats itself.
const THINKING: (f32, usize, f32) = (0.6, 20, 0.95);

impl Sampling {
    /// What a model's file advises by the metadata `general.sampling.*`, of which `told` knows the values by their keys; without
    /// that the likeliest tokens, unless the model thinks.
    ///
    /// ```
    /// use toolgate_engine::Sampling;
    /// let told = |key: &str| (key == "general.sampling.temp").then(|| "0.7".to_owned());
    /// assert_eq!(Sampling::advised(told, false), Sampling::default().temperature(0.7));
    /// assert_eq!(Sampling::advised(|_| None, false), Sampling::default());
    /// assert!(Sampling::advised(|_| None, true).temperature > 0.0, "a model that thinks is not drawn from greedily");
    /// ```
    pub fn advised(told: impl Fn(&str) -> Option<String>, thinks: bool) -> Self {
        let number = |key: &str| -> Option<f32> {
            let value: f32 = told(&format!("general.sampling.{key}"))?.parse().ok()?;
            (value.is_finite() && value >= 0.0).then_some(value)
        };
        let (temperature, top_k, top_p, min_p) =
            (number("temp"), number("top_k"), number("top_p"), number("min_p"));
        let usual = Self::default();
        let own = match thinks && temperature.is_none() {
            true => {
                let (temperature, top_k, top_p) = THINKING;
                Self { temperature, top_k, top_p, ..usual }
            }
            false => usual,
        };
        Self {
            temperature: temperature.unwrap_or(own.temperature),
            top_k: top_k.map_or(own.top_k, |most| most as usize),
            top_p: top_p.filter(|share| *share > 0.0).unwrap_or(own.top_p).min(1.0),
            min_p: min_p.unwrap_or(own.min_p).min(1.0),
            ..own
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_that_is_no_number_counts_for_nothing() {
        let told = |key: &str| {
            let value = match key {
                "general.sampling.temp" => "warm",
                "general.sampling.top_p" => "0",
                "general.sampling.top_k" => "40",
                _ => "-1",
            };
            Some(value.to_owned())
        };
        assert_eq!(Sampling::advised(told, false), Sampling::default().top_k(40));
    }
}
