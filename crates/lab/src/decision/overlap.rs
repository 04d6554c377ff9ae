//! How much of a request the tools speak of: the n-grams of letters that both have, in any script, weighed by how few sets of tools
//! have them.

use std::collections::{HashMap, HashSet};

use toolgate_chat::ToolSpec;
use unicode_normalization::UnicodeNormalization;

/// Letters of an n-gram. Two tell something in scripts that write words without blanks, three in others.
const LETTERS: [usize; 2] = [2, 3];

/// How many sets of tools have each n-gram.
pub(crate) struct Overlap {
    sets: f64,
    having: HashMap<String, f64>,
}

impl Overlap {
    /// Counts over sets of tools.
    pub(crate) fn of<'t>(sets: impl IntoIterator<Item = &'t [ToolSpec]>) -> Self {
        let (mut count, mut having) = (0.0, HashMap::new());
        for tools in sets {
            count += 1.0;
            for gram in grams_of(tools) {
                *having.entry(gram).or_insert(0.0) += 1.0;
            }
        }
        Self { sets: count, having }
    }

    /// The share of a request that the tools speak of, from 0 to 1.
    pub(crate) fn with(&self, request: &str, tools: &[ToolSpec]) -> f64 {
        let theirs = grams_of(tools);
        let (mut all, mut shared) = (0.0, 0.0);
        for gram in grams(request) {
            let rarity = ((self.sets + 1.0) / (self.having.get(&gram).copied().unwrap_or(0.0) + 1.0)).ln();
            all += rarity;
            if theirs.contains(&gram) {
                shared += rarity;
            }
        }
        if all > 0.0 { shared / all } else { 0.0 }
    }
}

fn grams_of(tools: &[ToolSpec]) -> HashSet<String> {
    tools.iter().flat_map(|tool| [tool.name.as_str(), tool.description.as_str()]).flat_map(grams).collect()
}

fn grams(text: &str) -> HashSet<String> {
    let folded: String = text.nfkc().flat_map(char::to_lowercase).collect();
    let words = folded.split(|c: char| !c.is_alphanumeric());
    let of_word = |word: &str| -> Vec<String> {
        let letters: Vec<char> = word.chars().collect();
        LETTERS.iter().flat_map(|&n| letters.windows(n).map(|gram| gram.iter().collect::<String>())).collect()
    };
    words.flat_map(of_word).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    fn tools(description: &str) -> Vec<ToolSpec> {
        vec![ToolSpec::new("f", description, json!({})).unwrap()]
    }

    #[test]
    fn a_request_shares_what_its_tools_say_in_any_script() {
        let (weather, trains, chinese) =
            (tools("The weather in a city."), tools("Trains between two cities."), tools("查询城市的天气"));
        let overlap = Overlap::of([&weather[..], &trains[..], &chinese[..]]);
        let weather_asked = |tools: &[ToolSpec]| overlap.with("Weather in Oslo?", tools);
        assert!(weather_asked(&weather) > 0.4 && weather_asked(&weather) > 2.0 * weather_asked(&trains));
        assert!(overlap.with("今天天气怎么样", &chinese) > overlap.with("今天天气怎么样", &weather));
        assert_eq!(overlap.with("…", &weather), 0.0);
    }
}
