//! Answers whose beginning is held back until it is known to be one that may be shown: no repetition of the request.
//!
//! The caller tells what is to be held back ([`AnswerWatch`]); this file knows no words.
//!
//! Invariant: nothing of an answer that is taken back was shown.

use crate::TurnEvent;

/// Tells by its beginning whether an answer is of a kind that is not to be shown.
///
/// ```
/// use toolgate_engine::{AnswerWatch, Beginning};
///
/// /// Finds answers that begin with "No".
/// struct Denials;
///
/// impl AnswerWatch for Denials {
///     fn name(&self) -> &str {
///         "denials"
///     }
///
///     fn beginning(&self, _request: &str, text: &str, whole: bool) -> Beginning {
///         match text {
///             _ if text.starts_with("No") => Beginning::Found,
///             _ if "No".starts_with(text) && !whole => Beginning::Open,
///             _ => Beginning::Other,
///         }
///     }
/// }
///
/// assert_eq!(Denials.beginning("Is it?", "N", false), Beginning::Open);
/// assert_eq!(Denials.beginning("Is it?", "No.", true), Beginning::Found);
/// ```
pub trait AnswerWatch: Send + Sync {
    /// Its name, under which another process may have the same watch.
    fn name(&self) -> &str;

    /// What the answer to a request is that begins with `text`; `whole` where nothing follows.
    fn beginning(&self, request: &str, text: &str, whole: bool) -> Beginning;
}

impl std::fmt::Debug for dyn AnswerWatch + '_ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What an answer is, as soon as its beginning tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// It may become one that is not to be shown.
    Open,
    /// It is one.
    Found,
    /// It is none.
    Other,
}

/// Why an answer that repeats the request is written again, for people.
pub(crate) const ECHOED: &str =
    "the model repeated the request in place of an answer, so it is written again";

/// An answer whose beginning is held back until its watch tells what it is.
#[doc(hidden)]
pub struct WatchedAnswer<'a> {
    text: String,
    found: Beginning,
    watch: Option<&'a dyn AnswerWatch>,
    request: &'a str,
}

impl<'a> WatchedAnswer<'a> {
    /// An answer to a request that is shown unless the watch finds it; without a watch it is shown as it comes.
    #[doc(hidden)]
    pub fn new(watch: Option<&'a dyn AnswerWatch>, request: &'a str) -> Self {
        let found = if watch.is_some() { Beginning::Open } else { Beginning::Other };
        Self { text: String::new(), found, watch, request }
    }

    /// Takes the next text, and shows what may be shown; whether the answer was found, of which nothing is shown.
    #[doc(hidden)]
    pub fn push(&mut self, text: &str, events: &mut dyn FnMut(TurnEvent)) -> bool {
        match self.found {
            Beginning::Other => events(TurnEvent::Text(text.to_owned())),
            Beginning::Found => {}
            Beginning::Open => {
                self.text.push_str(text);
                self.settle(false, events);
            }
        }
        self.is_found()
    }

    /// The text is over: what was still held back is shown.
    #[doc(hidden)]
    pub fn finish(&mut self, events: &mut dyn FnMut(TurnEvent)) {
        if self.found == Beginning::Open {
            self.settle(true, events);
        }
    }

    /// Whether the answer is one that is not to be shown.
    fn is_found(&self) -> bool {
        self.found == Beginning::Found
    }

    fn settle(&mut self, whole: bool, events: &mut dyn FnMut(TurnEvent)) {
        self.found = match self.watch {
            Some(watch) => watch.beginning(self.request, &self.text, whole),
            None => Beginning::Other,
        };
        if self.found == Beginning::Open && whole {
            self.found = Beginning::Other;
        }
        if self.found == Beginning::Other && !self.text.is_empty() {
            events(TurnEvent::Text(std::mem::take(&mut self.text)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds answers that begin with a word.
    struct Word(&'static str);

    impl AnswerWatch for Word {
        fn name(&self) -> &str {
            "word"
        }

        fn beginning(&self, _: &str, text: &str, whole: bool) -> Beginning {
            match text {
                _ if text.starts_with(self.0) => Beginning::Found,
                _ if self.0.starts_with(text) && !whole => Beginning::Open,
                _ => Beginning::Other,
            }
        }
    }

    fn shown(watch: Option<&dyn AnswerWatch>, pieces: &[&str]) -> (String, bool) {
        let (mut watched, mut shown) = (WatchedAnswer::new(watch, ""), String::new());
        let mut events = |event| {
            if let TurnEvent::Text(text) = event {
                shown.push_str(&text);
            }
        };
        let found = pieces.iter().any(|piece| watched.push(piece, &mut events));
        watched.finish(&mut events);
        (shown, found)
    }

    #[test]
    fn an_answer_is_shown_whole_or_not_at_all() {
        let watch = Word("Sorry");
        assert_eq!(shown(Some(&watch), &["Ro", "me", ". Sorry"]), ("Rome. Sorry".into(), false));
        assert_eq!(shown(Some(&watch), &["So", "so", "."]), ("Soso.".into(), false), "what was held back");
        assert_eq!(shown(Some(&watch), &["Sor"]), ("Sor".into(), false), "over before that could be told");
        assert_eq!(shown(Some(&watch), &["S", "orry", ", no"]), (String::new(), true));
        assert_eq!(shown(Some(&watch), &[]), (String::new(), false));
        assert_eq!(shown(None, &["Sorry"]), ("Sorry".into(), false), "control: nobody watches");
    }
}
