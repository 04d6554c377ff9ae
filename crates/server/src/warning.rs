//! Warnings: parts of a request that the server ignores, or reads in another way than they were sent. The answer has them beside
//! it, since their sender may not have meant them.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::{Value, json};

/// The most warnings of a request. A long history may be wrong in the same way in each of its messages.
const MOST: usize = 64;

/// A part of a request's body that was not done as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Warning {
    /// The part's JSON pointer.
    pub(super) pointer: String,
    /// A text for a person that says what was done instead: lower-case, without a full stop.
    pub(super) message: String,
}

/// The warnings of a body while it is read. Its fields share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Warnings(Rc<RefCell<Vec<Warning>>>);

impl Warnings {
    pub(super) fn add(&self, pointer: &str, message: impl Into<String>) {
        let mut told = self.0.borrow_mut();
        match told.len() {
            MOST => {
                told.push(Warning { pointer: String::new(), message: "there is more of the kind".to_owned() })
            }
            len if len < MOST => told.push(Warning { pointer: pointer.to_owned(), message: message.into() }),
            _ => {}
        }
    }

    /// All warnings.
    pub(super) fn told(&self) -> Vec<Warning> {
        self.0.borrow().clone()
    }
}

/// The warnings in the form that all APIs have. `None` if there are none.
pub(super) fn body(warnings: &[Warning]) -> Option<Value> {
    let told = warnings.iter().map(|warning| json!({"pointer": warning.pointer, "message": warning.message}));
    (!warnings.is_empty()).then(|| told.collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    #[test]
    fn a_history_that_is_wrong_throughout_does_not_make_its_answers_long() {
        let warnings = Warnings::default();
        assert_eq!(body(&warnings.told()), None);
        (0..1_000).for_each(|n| warnings.add(&format!("/messages/{n}"), "no text"));
        let told = body(&warnings.told()).unwrap();
        assert_eq!(told.as_array().unwrap().len(), MOST + 1);
        assert_eq!(told[0], json!({"pointer": "/messages/0", "message": "no text"}));
    }
}
