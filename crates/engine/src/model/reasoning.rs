//! How much a model thinks before it speaks, in the words of a request. Knows no template: the turn finds out how its model is told.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// How much a model thinks before it speaks.
///
/// ```
/// use toolgate_engine::{Effort, Reasoning, ReasoningMode};
///
/// assert_eq!("auto".parse::<Reasoning>()?, Reasoning::default());
/// assert_eq!("off".parse::<Reasoning>()?, Reasoning::OFF);
/// let bounded: Reasoning = "200".parse()?;
/// assert_eq!((bounded.mode, bounded.budget), (ReasoningMode::On, Some(200)));
/// // In the words of the APIs.
/// assert_eq!(Reasoning::of_effort("none")?, Reasoning::OFF);
/// assert_eq!(Reasoning::of_effort("low")?.effort, Some(Effort::Low));
/// assert!(Reasoning::of_effort("most").is_err());
/// # Ok::<(), toolgate_engine::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Reasoning {
    /// Whether it thinks. Default [`ReasoningMode::Auto`].
    pub mode: ReasoningMode,
    /// Tokens of thought at most; then a sentence and the closing mark are written for the model. Default: half of the turn's
    /// tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<usize>,
    /// How hard it thinks. A template that knows the word is told; with others it is a share of the turn's tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
}

toolgate_chat::setters! { Reasoning {
    mode: ReasoningMode,
    budget: Option<usize>,
    effort: Option<Effort>,
} }

/// Whether a model thinks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningMode {
    /// As its profile says; without one, where its template or the model itself begins a turn so.
    #[default]
    Auto,
    /// It does not: its template is told, or an empty thought is written for it.
    Off,
    /// It does; an error where neither the template nor the format has a place for thoughts.
    On,
}

/// How hard a model thinks, in the words of OpenAI's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Effort {
    /// As little as it can.
    Minimal,
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// As much as it can.
    XHigh,
}

impl Effort {
    /// All of them, the least first.
    pub const ALL: [Self; 5] = [Self::Minimal, Self::Low, Self::Medium, Self::High, Self::XHigh];

    /// Its word.
    ///
    /// ```
    /// use toolgate_engine::Effort;
    /// assert_eq!(Effort::ALL.map(Effort::as_str), ["minimal", "low", "medium", "high", "xhigh"]);
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
        }
    }
}

impl Reasoning {
    /// No thoughts.
    pub const OFF: Self = Self { mode: ReasoningMode::Off, budget: None, effort: None };
    /// Thoughts, as many as the turn has room for.
    pub const ON: Self = Self { mode: ReasoningMode::On, budget: None, effort: None };

    /// So many tokens of thought at most; none with 0.
    ///
    /// ```
    /// use toolgate_engine::Reasoning;
    /// assert_eq!(Reasoning::within(500), Reasoning::ON.budget(Some(500)));
    /// assert_eq!(Reasoning::within(0), Reasoning::OFF);
    /// ```
    pub fn within(tokens: usize) -> Self {
        if tokens == 0 { Self::OFF } else { Self { budget: Some(tokens), ..Self::ON } }
    }

    /// What `reasoning_effort` of an API says: `none`, or the word of an [`Effort`].
    ///
    /// # Errors
    /// One that lists the words, for any other.
    pub fn of_effort(word: &str) -> Result<Self, Error> {
        if word == "none" {
            return Ok(Self::OFF);
        }
        let effort = Effort::ALL.into_iter().find(|effort| effort.as_str() == word);
        let effort = effort.ok_or_else(|| {
            Error::input(format!(
                "unknown effort {word:?}: expected \"none\", \"minimal\", \"low\", \"medium\", \"high\" or \"xhigh\""
            ))
        })?;
        Ok(Self { effort: Some(effort), ..Self::ON })
    }

    /// What is said here, and `usual` where this leaves something open.
    ///
    /// ```
    /// use toolgate_engine::{Effort, Reasoning};
    /// let high = Reasoning::default().effort(Some(Effort::High));
    /// assert_eq!(high.or(Reasoning::within(500)), Reasoning::within(500).effort(Some(Effort::High)));
    /// assert_eq!(Reasoning::OFF.or(Reasoning::within(500)), Reasoning::OFF);
    /// ```
    #[must_use]
    pub fn or(self, usual: Self) -> Self {
        let mode = match (self.mode, usual.mode) {
            // A bound on thoughts means nothing where there are none.
            (ReasoningMode::Off, _) | (ReasoningMode::On, ReasoningMode::Off) => return self,
            (ReasoningMode::Auto, ReasoningMode::Off) => return usual,
            (ReasoningMode::Auto, usual) => usual,
            (own, _) => own,
        };
        Self { mode, budget: self.budget.or(usual.budget), effort: self.effort.or(usual.effort) }
    }

    /// Whether it is as if nothing had been said.
    ///
    /// ```
    /// use toolgate_engine::Reasoning;
    /// assert!(Reasoning::default().is_auto() && !Reasoning::OFF.is_auto());
    /// ```
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    pub fn is_auto(&self) -> bool {
        *self == Self::default()
    }
}

/// `auto`, `off`, `on`, or the most tokens of thought.
impl FromStr for Reasoning {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match (text, text.parse()) {
            ("auto", _) => Ok(Self::default()),
            ("off", _) => Ok(Self::OFF),
            ("on", _) => Ok(Self::ON),
            (_, Ok(tokens)) => Ok(Self::within(tokens)),
            _ => Err(Error::input(format!(
                "unknown reasoning {text:?}: expected \"auto\", \"off\", \"on\" or a number of tokens"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn what_is_said_reads_back_the_same() {
        let efforts = Effort::ALL.map(|effort| Reasoning { effort: Some(effort), ..Reasoning::ON });
        for reasoning in efforts.into_iter().chain([
            Reasoning::default(),
            Reasoning::OFF,
            Reasoning::ON,
            Reasoning::within(7),
        ]) {
            let text = serde_json::to_string(&reasoning).unwrap();
            assert_eq!(serde_json::from_str::<Reasoning>(&text).unwrap(), reasoning, "{text}");
        }
        for effort in Effort::ALL {
            assert_eq!(Reasoning::of_effort(effort.as_str()).unwrap().effort, Some(effort));
        }
    }

    #[test]
    fn what_is_said_comes_before_what_is_usual() {
        let (high, bounded) = (Reasoning::default().effort(Some(Effort::High)), Reasoning::within(9));
        for (said, usual, both) in [
            (Reasoning::default(), bounded, bounded),
            (Reasoning::default(), Reasoning::OFF, Reasoning::OFF),
            (high, Reasoning::default(), high),
            (high, Reasoning::OFF, Reasoning::OFF),
            (high, bounded, bounded.effort(Some(Effort::High))),
            (Reasoning::OFF, bounded, Reasoning::OFF),
            (Reasoning::ON, Reasoning::OFF, Reasoning::ON),
            (Reasoning::within(7), bounded, Reasoning::within(7)),
        ] {
            assert_eq!(said.or(usual), both, "{said:?} {usual:?}");
        }
    }

    #[test]
    fn an_unknown_word_is_told_with_those_that_are_known() {
        for text in ["", "-1", "yes", "1.5"] {
            let error = text.parse::<Reasoning>().unwrap_err().to_string();
            assert!(error.contains("expected \"auto\""), "{error}");
        }
        assert!(Reasoning::of_effort("").unwrap_err().to_string().contains("\"medium\""));
    }
}
