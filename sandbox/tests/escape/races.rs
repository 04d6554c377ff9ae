//! Races: a path that changes between the moment it is checked and the moment it is used.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::outside::{Setup, link};
use crate::protected::git;
use crate::support::{CANARY, Field, Op, Swapper, manifest, race};

/// A directory or file that is a link to the outside every other moment.
pub(super) fn check_races() {
    // (what `p` is, what it is exchanged for, the request, what the control shows)
    let races: [(Setup, Setup, Op); 5] = [
        (inside_directory, |f| link(f, "../out", "q"), Op::Read("p/secret.txt")),
        (inside_directory, |f| link(f, "../out", "q"), Op::Write("p/target.txt")),
        (inside_directory, |f| link(f, "../out", "q"), Op::Edit("p/target.txt")),
        (
            |f| fs::write(f.ws.join("p"), "fine\n").unwrap(),
            |f| link(f, "../out/secret.txt", "q"),
            Op::Read("p"),
        ),
        (
            |f| fs::write(f.ws.join("p"), "intact\n").unwrap(),
            |f| link(f, "../out/target.txt", "q"),
            Op::Write("p"),
        ),
    ];
    for (one, other, op) in races {
        let set_up = || {
            let field = Field::new();
            one(&field);
            other(&field);
            field
        };
        let field = set_up();
        let before = field.outside();
        let swapper = Swapper::between(&field, "q");
        let reached = race(Duration::from_secs(10), || {
            op.run_plainly(&field).is_ok_and(|seen| seen.contains(CANARY)) || field.outside() != before
        });
        drop(swapper);
        assert!(reached, "{op:?}: the control never wins the race, so this is no attack");

        let field = set_up();
        let before = field.outside();
        let swapper = Swapper::between(&field, "q");
        let mut done = 0;
        let escaped = race(Duration::from_millis(700), || {
            let answer = op.run(&field).map_err(|error| error.to_string());
            done += usize::from(answer.is_ok());
            answer.unwrap_or_else(|error| error).contains(CANARY)
        });
        drop(swapper);
        assert!(!escaped && field.outside() == before, "{op:?}: it went through");
        assert!(done > 0, "{op:?}: nothing was ever done, so nothing was tried");
    }
}

pub(super) fn inside_directory(field: &Field) {
    fs::create_dir(field.ws.join("p")).unwrap();
    for name in ["secret.txt", "target.txt"] {
        fs::write(field.ws.join("p").join(name), "intact\n").unwrap();
    }
}

/// A directory that is a link to a protected one every other moment.
pub(super) fn check_protected_races() {
    let set_up = || {
        let field = Field::new();
        git(&field);
        fs::create_dir(field.ws.join("p")).unwrap();
        fs::write(field.ws.join("p/config"), "mine\n").unwrap();
        link(&field, ".git", "q");
        field
    };
    let protected = |field: &Field| fs::read_to_string(field.ws.join(".git/config")).unwrap();
    let field = set_up();
    let swapper = Swapper::between(&field, "q");
    let reached = race(Duration::from_secs(10), || {
        let _ = Op::Write("p/config").run_plainly(&field);
        protected(&field) != "intact\n"
    });
    drop(swapper);
    assert!(reached, "the control never wins the race");

    let field = set_up();
    let swapper = Swapper::between(&field, "q");
    let (mut done, mut refused) = (0, 0);
    race(Duration::from_millis(700), || {
        match Op::Write("p/config").run(&field) {
            Ok(_) => done += 1,
            Err(_) => refused += 1,
        }
        false
    });
    drop(swapper);
    assert!(done > 0 && refused > 0, "both sides of the race were seen: {done} done, {refused} refused");
    assert_eq!(protected(&field), "intact\n");
}

/// A parent that is renamed away inside the workspace: the request ends with an error or in that directory.
pub(super) fn check_renamed_parent() {
    let field = Field::new();
    inside_directory(&field);
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let (seen, p, away) = (stop.clone(), field.ws.join("p"), field.ws.join("away"));
    let thread = std::thread::spawn(move || {
        while !seen.load(Ordering::Relaxed) {
            fs::rename(&p, &away).unwrap();
            fs::rename(&away, &p).unwrap();
        }
    });
    let before = field.outside();
    let (mut done, mut refused) = (0, 0);
    let both = race(Duration::from_secs(10), || {
        match Op::Edit("p/target.txt").run(&field) {
            Ok(_) => done += 1,
            Err(_) => refused += 1,
        }
        for name in ["p", "away"] {
            let _ = fs::write(field.ws.join(name).join("target.txt"), "intact\n");
        }
        done >= 50 && refused >= 50
    });
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    assert!(both, "both sides of the race were seen: {done} done, {refused} refused");
    assert_eq!(field.outside(), before);
    let names: Vec<_> = manifest(&field.ws).into_iter().map(|(path, _)| path).collect();
    let expected = ["ok.txt", "p", "p/secret.txt", "p/target.txt"].map(|name| field.ws.join(name));
    assert_eq!(names, expected, "nothing half-written is left");
}
