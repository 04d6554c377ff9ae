//! The drafts of JSON Schema, as far as they differ for the compiler.
//!
//! Invariant: a keyword that a draft does not have is an annotation in it, as its validators hold.

use serde_json::Value;

/// The drafts that differ for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    Four,
    Six,
    Seven,
    Y2019,
    Y2020,
}

impl Draft {
    /// The draft a document names in `$schema`; 2020-12 if it names none.
    pub(super) fn of(root: &Value) -> Self {
        let name = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        if name.contains("draft-04") || name.contains("draft-03") {
            Draft::Four
        } else if name.contains("draft-06") {
            Draft::Six
        } else if name.contains("draft-07") {
            Draft::Seven
        } else if name.contains("2019-09") {
            Draft::Y2019
        } else {
            Draft::Y2020
        }
    }

    /// Whether the draft has the keyword.
    pub(super) fn knows(self, keyword: &str) -> bool {
        match keyword {
            "const" | "contains" | "propertyNames" => self >= Self::Six,
            "if" | "then" | "else" => self >= Self::Seven,
            "dependentRequired"
            | "dependentSchemas"
            | "unevaluatedProperties"
            | "unevaluatedItems"
            | "minContains"
            | "maxContains" => self >= Self::Y2019,
            "$recursiveRef" => self == Self::Y2019,
            "prefixItems" | "$dynamicRef" => self >= Self::Y2020,
            "dependencies" => self <= Self::Seven,
            // A list under `items` is an old habit; its companion is understood wherever it is.
            _ => true,
        }
    }
}
