//! Finds the memories for a query: those that share its words. Rare words count most, and newer memories come
//! first.
//!
//! Ranking every match of a common word would read the whole index. So each word brings at most [`PER_WORD`]
//! newest matches, which the index has in that order. The time does not grow with the number of memories.

use std::collections::{BTreeSet, HashMap};

use rusqlite::Connection;

/// Matches of one word at most.
const PER_WORD: usize = 200;

/// Words of a query at most.
const WORDS: usize = 16;

/// Characters of a word at most; longer ones are left out. The index may split one word into as many words as
/// it has characters. A search for many words in a row takes the square of their number.
const WORD: usize = 64;

/// The numbers of the matching memories, best first.
pub(super) fn ranked(connection: &Connection, query: &str) -> rusqlite::Result<Vec<i64>> {
    let words = words(query);
    let mut scores: HashMap<i64, f64> = HashMap::new();
    let mut matches = connection.prepare_cached(
        "SELECT rowid FROM memory_words WHERE memory_words MATCH ? ORDER BY rowid DESC LIMIT ?",
    )?;
    let mut add = |expression: &str, weight: f64| {
        let rows = matches.query_map((expression, PER_WORD as i64), |row| row.get::<_, i64>(0))?;
        let ids = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        for id in &ids {
            *scores.entry(*id).or_default() += weight / ids.len() as f64;
        }
        Ok::<_, rusqlite::Error>(())
    };
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    for word in &quoted {
        add(word, 1.0)?;
    }
    if quoted.len() > 1 {
        // Memories that have them all may be older than the newest ones of each.
        add(&quoted.join(" AND "), quoted.len() as f64)?;
    }
    let mut ranked: Vec<(i64, f64)> = scores.into_iter().collect();
    ranked.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(b.cmp(a)));
    Ok(ranked.into_iter().map(|(id, _)| id).collect())
}

/// The different words of the query, without anything that means something in the language of the index.
fn words(query: &str) -> BTreeSet<String> {
    let words = query.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.filter(|word| word.chars().nth(WORD).is_none()).map(str::to_lowercase).take(WORDS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_a_bounded_number_of_bounded_words() {
        let long = "a\u{24b6}".repeat(8_000);
        let query = format!("{long} {} short", "x".repeat(WORD));
        assert_eq!(words(&query).len(), 2);
        let many: String = (0..1_000).map(|i| format!("w{i} ")).collect();
        assert_eq!(words(&many).len(), WORDS);
    }
}
