//! The options that suit a model: what its catalogue entry says, and the defaults for the rest.

use std::num::NonZeroUsize;

use crate::Thresholds;
use crate::models::{Answers, Defaults, Entry, ResolvedModel};
use crate::profile::options::{AnswerView, Options, Parameters};

impl Options {
    /// The options that suit a model, by its catalogue entry; the defaults for a model without one.
    pub fn for_model(model: &ResolvedModel) -> Self {
        model.entry.as_deref().map_or_else(Self::default, Self::for_entry)
    }

    /// The options that suit a model of the catalogue, wherever it runs.
    ///
    /// ```
    /// use toolgate_engine::{AnswerView, Options};
    /// use toolgate_engine::models::Catalogue;
    ///
    /// let catalogue = Catalogue::builtin()?;
    /// let options = catalogue.get("smollm2-135m").map(|entry| Options::for_entry(entry));
    /// // It is too small to retell results: they are its answers.
    /// assert_eq!(options.map(|options| options.answer_view), Some(AnswerView::Results));
    /// # Ok::<(), toolgate_engine::models::Error>(())
    /// ```
    pub fn for_entry(entry: &Entry) -> Self {
        let defaults = &entry.defaults;
        // An entry that says nothing of how its model is led is no profile.
        let mut options = match is_profile(defaults) {
            true => Self::guided().profile(Some(entry.id.clone())),
            false => Self::default(),
        };
        options.context = defaults.context;
        options.placement = defaults.placement.clone().unwrap_or_default();
        options.attention = defaults.attention.unwrap_or_default();
        if defaults.advanced_parameters == Some(false) {
            options.parameters = Parameters::Plain;
        }
        options.demonstrations = defaults.demonstrations.unwrap_or(options.demonstrations);
        options.answer_view = match defaults.answers {
            None => options.answer_view,
            Some(Answers::Compact) => AnswerView::Compact,
            Some(Answers::Quoted) => AnswerView::Quoted,
            Some(Answers::Full) => AnswerView::Full,
            Some(Answers::Results) => AnswerView::Results,
        };
        options.untrained = entry.untrained_tokens.clone();
        options.marks.clone_from(&entry.marks);
        options.tool_bias = defaults.tool_bias.unwrap_or(options.tool_bias);
        options.choice = defaults.choice.unwrap_or(options.choice);
        options.prior_weight = defaults.prior_weight.unwrap_or(options.prior_weight);
        let parallel = defaults.parallel.and_then(|n| NonZeroUsize::new(n as usize));
        options.parallel = parallel.or(options.parallel);
        let (own, usual) = (&defaults.thresholds, options.thresholds);
        options.decision = defaults.decision.or(options.decision);
        options.thresholds = Thresholds {
            first: own.first.unwrap_or(usual.first),
            after_success: own.after_success.unwrap_or(usual.after_success),
            after_change: own.after_change.unwrap_or(usual.after_change),
            after_failure: own.after_failure.unwrap_or(usual.after_failure),
            while_pending: own.while_pending.unwrap_or(usual.while_pending),
            further: own.further.unwrap_or(usual.further),
            changing: own.changing.unwrap_or(usual.changing),
        };
        options
    }
}

/// Whether the settings of an entry say how the model is led, and not only how it is run.
fn is_profile(defaults: &Defaults) -> bool {
    let Defaults { context, placement, attention, .. } = defaults.clone();
    *defaults != Defaults { context, placement, attention, ..Defaults::default() }
}
