//! Decides which changes of a file can be undone, from its present content. Pure.
//!
//! Invariant: a file is restored only from a state that one of its changes left or found. So text that
//! somebody else wrote stays.

/// The reason for a file in a state that the run does not know.
pub(super) const CHANGED: &str = "it was changed since by something else";

/// The SHA-256 of the bytes of a file; `None` for no file.
pub(super) type State = Option<[u8; 32]>;

/// One change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// Its number in the journal.
    pub(super) id: i64,
    /// The state that the change found.
    pub(super) before: State,
    /// The state that the change left.
    pub(super) after: State,
    /// Whether the found state is kept with the change. Else it is the state that the earlier change left.
    pub(super) kept: bool,
    /// The reason that the found state was not kept.
    pub(super) lost: Option<String>,
}

impl Link {
    /// Whether this is the state that the change found, as far as that is known.
    fn found(&self, state: State) -> bool {
        self.lost.is_none() && self.before == state
    }
}

/// The plan of an undo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// The change whose found state is restored; `None` if nothing has to be done.
    pub(super) target: Option<i64>,
    /// The changes that are then undone.
    pub(super) undone: Vec<i64>,
    /// The reason that some are not undone.
    pub(super) why: Option<String>,
}

/// The plan for `links`, oldest first, if the file is in the state `now`.
pub(super) fn plan(links: &[Link], now: State) -> Plan {
    let mut plan = Plan { target: None, undone: Vec::new(), why: None };
    let mut state = now;
    let mut rest = links.iter().rev().peekable();
    // What came after the state that the file is in did not happen, or was taken back before: a crash in between.
    while let Some(link) = rest.next_if(|link| link.after != state) {
        plan.undone.push(link.id);
        if link.found(state) {
            break;
        }
    }
    let is_ours = links.iter().any(|link| link.found(state) || link.after == state);
    if !is_ours {
        plan.undone.clear();
        plan.why = Some(CHANGED.to_owned());
        return plan;
    }
    let mut passed = Vec::new();
    for link in rest {
        if link.after != state {
            plan.why = Some("something else changed it between two changes of this run".to_owned());
            break;
        }
        if let Some(lost) = &link.lost {
            plan.why = Some(format!("what was there before was not kept: {lost}"));
            break;
        }
        state = link.before;
        passed.push(link.id);
        if link.kept {
            plan.target = Some(link.id);
            plan.undone.append(&mut passed);
        }
    }
    // Only where the change before is not there any more, whose bytes would have been enough.
    if !passed.is_empty() && plan.why.is_none() {
        plan.why = Some("what was there before was not kept".to_owned());
    }
    plan
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "tests")]

    use super::*;

    /// Changes from each state to the next; 0 is no file.
    fn links(states: &[(u8, u8)]) -> Vec<Link> {
        let state = |n: u8| (n > 0).then_some([n; 32]);
        (1..)
            .zip(states)
            .map(|(id, &(before, after))| Link {
                id,
                before: state(before),
                after: state(after),
                kept: true,
                lost: None,
            })
            .collect()
    }

    fn of(states: &[(u8, u8)], now: u8) -> (Option<i64>, Vec<i64>, bool) {
        let plan = plan(&links(states), (now > 0).then_some([now; 32]));
        (plan.target, plan.undone, plan.why.is_none())
    }

    #[test]
    fn a_chain_is_taken_back_to_its_beginning() {
        assert_eq!(of(&[(0, 1)], 1), (Some(1), vec![1], true));
        assert_eq!(of(&[(0, 1), (1, 2), (2, 3)], 3), (Some(1), vec![3, 2, 1], true));
        assert_eq!(of(&[(1, 2), (2, 1)], 1), (Some(1), vec![2, 1], true), "back to what it was by itself");
        assert_eq!(of(&[(1, 1)], 1), (Some(1), vec![1], true));
    }

    #[test]
    fn what_did_not_happen_needs_no_taking_back() {
        assert_eq!(of(&[(0, 1)], 0), (None, vec![1], true), "a crash before the write");
        assert_eq!(of(&[(0, 1), (1, 2)], 1), (Some(1), vec![2, 1], true), "a crash before the second write");
        assert_eq!(of(&[(0, 1), (1, 2)], 0), (None, vec![2, 1], true), "a crash after it was taken back");
    }

    #[test]
    fn what_something_else_wrote_stays() {
        assert_eq!(of(&[(0, 1)], 9), (None, vec![], false));
        assert_eq!(of(&[(1, 2)], 0), (None, vec![], false), "the file was removed");
        assert_eq!(of(&[(0, 1), (5, 6)], 6), (Some(2), vec![2], false), "changed in between");
    }

    #[test]
    fn a_change_whose_earlier_bytes_are_not_with_it_is_taken_back_with_the_one_before() {
        let of = |links: &[Link], now| {
            let plan = plan(links, Some([now; 32]));
            (plan.target, plan.undone, plan.why.is_none())
        };
        let mut links = links(&[(1, 2), (2, 3), (3, 4)]);
        (links[1].kept, links[2].kept) = (false, false);
        assert_eq!(of(&links, 4), (Some(1), vec![3, 2, 1], true));
        assert_eq!(of(&links, 3), (Some(1), vec![3, 2, 1], true), "the last one did not happen");
        assert_eq!(of(&links[1..], 4), (None, vec![], false), "nothing is put back from nothing");
        links[1].kept = true;
        links[0].after = Some([9; 32]);
        assert_eq!(of(&links, 4), (Some(2), vec![3, 2], false), "changed in between");
    }

    #[test]
    fn what_was_not_kept_ends_the_chain() {
        let mut links = links(&[(1, 2), (2, 3)]);
        links[0].lost = Some("too large".to_owned());
        let plan = plan(&links, Some([3; 32]));
        assert_eq!((plan.target, plan.undone), (Some(2), vec![2]));
        assert!(plan.why.is_some_and(|why| why.contains("too large")));
        // It was not kept because it could not be read: that is not the same as no file.
        links[0].before = None;
        let plan = super::plan(&links[..1], None);
        assert!(plan.undone.is_empty() && plan.why.is_some());
    }
}
