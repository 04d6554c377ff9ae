//! A value that one thread changes and another waits for.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Longest wait; only a fault takes that long.
const PATIENCE: Duration = Duration::from_secs(240);

#[derive(Default)]
pub(crate) struct Watched<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Watched<T> {
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.value.lock().unwrap());
        self.changed.notify_all();
        result
    }

    pub(crate) fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.value.lock().unwrap())
    }

    /// Waits until `find` finds something in the value. `missing` says, of the value, what did not happen.
    pub(crate) fn wait<R>(&self, mut find: impl FnMut(&T) -> Option<R>, missing: impl Fn(&T) -> String) -> R {
        let value = self.value.lock().unwrap();
        let mut found = None;
        let waiting = |value: &mut T| {
            found = find(value);
            found.is_none()
        };
        let (value, _) = self.changed.wait_timeout_while(value, PATIENCE, waiting).unwrap();
        found.unwrap_or_else(|| panic!("{}", missing(&value)))
    }
}
