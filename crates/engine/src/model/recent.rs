//! What was used recently: some values by their keys, of which the one used longest ago gives way.

/// At most so many values.
pub(crate) struct Recent<K, V> {
    most: usize,
    /// The one used last at the end.
    kept: Vec<(K, V)>,
}

impl<K, V> Recent<K, V> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, kept: Vec::new() }
    }

    /// The value under the first key that is it.
    pub(crate) fn find(&mut self, mut is_it: impl FnMut(&K) -> bool) -> Option<&V> {
        let at = self.kept.iter().position(|(key, _)| is_it(key))?;
        let entry = self.kept.remove(at);
        self.kept.push(entry);
        self.kept.last().map(|(_, value)| value)
    }

    /// The keys, the one used last at the end.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.kept.iter().map(|(key, _)| key)
    }

    /// Keeps a value under a key that has none.
    pub(crate) fn put(&mut self, key: K, value: V) {
        if self.kept.len() >= self.most {
            self.kept.remove(0);
        }
        self.kept.push((key, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_gives_way() {
        let mut recent = Recent::new(2);
        recent.put(1, "one");
        recent.put(2, "two");
        assert_eq!(recent.find(|&key| key == 1), Some(&"one"));
        recent.put(3, "three");
        assert_eq!(recent.find(|&key| key == 2), None, "it was used longest ago");
        assert_eq!(recent.find(|&key| key == 1), Some(&"one"));
        assert_eq!(recent.find(|&key| key == 3), Some(&"three"));
    }
}
