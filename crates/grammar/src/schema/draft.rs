//! The drafts of JSON Schema, as far as they differ for the compiler.
//!
//! Invariant: a keyword that a draft does not have is an annotation in it, as its validators hold.

use serde_json::Value;

/// The drafts that differ for the compiler.
///
/// ```
/// use serde_json::json;
/// use toolgate_grammar::schema::{Draft, SchemaOptions};
/// use toolgate_grammar::{Options, Schema, compile};
/// let accepts = |draft| {
///     let schema = Schema::parse_with(&json!({"const": 1}), &SchemaOptions::default().draft(draft))?;
///     compile(&schema, &Options::default())?.accepts("2")
/// };
/// assert!(accepts(Draft::Four)?); // has no `const`
/// assert!(!accepts(Draft::Six)?);
/// # Ok::<(), toolgate_grammar::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Draft {
    /// Draft 4, of which 5 is a new edition, and 3 as far as it is the same.
    Four,
    /// Draft 6.
    Six,
    /// Draft 7.
    Seven,
    /// Draft 2019-09.
    Y2019,
    /// Draft 2020-12.
    #[default]
    Y2020,
}

impl Draft {
    /// The draft a document names in `$schema`, if it names one of them.
    ///
    /// ```
    /// # use toolgate_grammar::schema::Draft; use serde_json::json;
    /// assert_eq!(Draft::of(&json!({"$schema": "http://json-schema.org/draft-07/schema"})), Some(Draft::Seven));
    /// assert_eq!(Draft::of(&json!({"$schema": "https://example.com/our-own"})), None);
    /// ```
    pub fn of(root: &Value) -> Option<Self> {
        let name = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let known = [
            ("draft-03", Self::Four),
            ("draft-04", Self::Four),
            ("draft-05", Self::Four),
            ("draft-06", Self::Six),
            ("draft-07", Self::Seven),
            ("2019-09", Self::Y2019),
            ("2020-12", Self::Y2020),
        ];
        known.into_iter().find(|(part, _)| name.contains(part)).map(|(_, draft)| draft)
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
            // A list under `items`, its companion, and `dependencies` are old habits, understood wherever they are.
            _ => true,
        }
    }
}
