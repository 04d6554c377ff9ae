//! The process above a command of the reduced tier. Without a process namespace, only this process ends the
//! remains of the command.
//!
//! Invariant: the process stays outside the Landlock domain of the command, so the command can neither signal
//! nor trace it. It ends after all processes below it. A pipe tells it when to end, so a killed runtime
//! counts too.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a pipe, and the kernel's account of its own children"
)]

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::time::Duration;

use super::{stage, sys};
use crate::command::layer::{Layer, Status};

/// Starts the command below this process and waits for its end; what comes back is why it was not started.
pub(super) fn run(task: &stage::Task, own: &stage::Reduced) -> Status {
    let refused = |why: std::io::Error| Status::Refused { layer: Layer::Limits, why: why.to_string() };
    let life = match sys::become_subreaper().and_then(|()| sys::own(own.life)) {
        Ok(life) => life,
        Err(why) => return refused(why),
    };
    let child = match sys::fork() {
        Ok(Some(child)) => child,
        Ok(None) => return stage::run(task),
        Err(why) => return refused(why),
    };
    // The command's stage tells its status alone, so that its end is seen.
    drop(sys::own(task.status));
    if let Ok(info) = sys::own(own.info) {
        let told = format!("{{\"child-pid\": {}}}", std::process::id());
        let _ = File::from(info).write_all(told.as_bytes());
    }
    if let Ok(process) = sys::pidfd(child) {
        let waited = [Some(life.as_fd()), Some(process.as_fd())];
        while sys::poll(&waited, Duration::from_secs(3_600)).is_ok_and(|ready| !ready.contains(&true)) {}
    }
    sys::exit_now(end_all(child))
}

/// Ends every process below this one; the code that `child` ended with.
fn end_all(child: i32) -> i32 {
    let mut code = 125;
    loop {
        match sys::reap() {
            Ok(Some((pid, ended))) if pid == child => code = ended,
            Ok(Some(_)) => {}
            // What a child that was ended leaves behind becomes a child of this process, and is ended in the next round.
            Ok(None) => {
                children().for_each(sys::kill_child);
                std::thread::sleep(Duration::from_micros(200));
            }
            Err(_) => return code,
        }
    }
}

/// This process's children. Their numbers are theirs until they are waited for, which happens here alone.
fn children() -> impl Iterator<Item = i32> {
    let own = std::process::id();
    let listed = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>().into_iter()
}
