//! Machines that lack a layer, simulated: commands are refused, the message names the layer and how to get it, and what
//! `doctor` prints says the same.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests that others start report to them")]

mod support;

use support::shell::{
    Field, POLICY, available, if_started, refuse_call, refuse_user_namespaces, setup, start_as_ordinary_user,
};
use toolgate_sandbox::command::{Commands, Layer, Setup};
use toolgate_sandbox::policy::{Mode, Policy};
use toolgate_sandbox::{Kind, Root, ambient_authority};

/// Commands are refused for want of `layer`, with these words, and the account of all layers agrees.
fn refused(setup: &Setup, layer: Layer, words: &[&str]) {
    let field = Field::new();
    let root = Root::open(&field.ws, ambient_authority()).unwrap();
    let error = Commands::new(&root, &Policy::parse(POLICY).unwrap(), Mode::Edit, setup).unwrap_err();
    assert_eq!((error.kind(), error.layer()), (Kind::Unavailable, Some(layer)), "{error}");
    let named = format!("commands are refused: {} does not work here", layer.name());
    for words in [named.as_str()].iter().chain(words) {
        assert!(error.to_string().contains(words), "{error} lacks {words:?}");
    }
    let states = Commands::layers(&root, setup);
    let state = states.iter().find(|state| state.layer == layer).unwrap();
    assert!(!state.works && state.required, "{state:?}");
    assert!(error.to_string().contains(state.remedy.as_deref().unwrap()), "{error}");
    assert!(state.without.as_deref().unwrap().contains("run_command is refused"), "{state:?}");
}

#[test]
fn without_bubblewrap() {
    let none = setup().bubblewrap(Some("/nonexistent/bwrap".into()));
    refused(&none, Layer::Bubblewrap, &["cannot be started", "install bubblewrap"]);
    let other = setup().bubblewrap(Some("/bin/true".into()));
    refused(&other, Layer::Bubblewrap, &["does not say that it is bubblewrap", "install bubblewrap"]);
}

#[test]
fn without_a_stage() {
    let field = Field::new();
    let root = Root::open(&field.ws, ambient_authority()).unwrap();
    let policy = Policy::parse(POLICY).unwrap();
    let error = Commands::new(&root, &policy, Mode::Edit, &Setup::default()).unwrap_err();
    assert!(error.to_string().contains("no program for the inner stage"), "{error}");
}

#[test]
fn without_user_namespaces() {
    if available() {
        // As this user, and as an ordinary one.
        std::thread::spawn(no_user_namespaces).join().unwrap();
        start_as_ordinary_user("started_without_user_namespaces");
    }
}

#[test]
fn started_without_user_namespaces() {
    if_started(no_user_namespaces);
}

/// Filters hold for the thread they were installed in, and for what it starts.
fn no_user_namespaces() {
    refuse_user_namespaces();
    refused(&setup(), Layer::Userns, &["allow user namespaces", "AppArmor"]);
}

#[test]
fn without_landlock() {
    if available() {
        std::thread::spawn(|| {
            refuse_call(libc::SYS_landlock_create_ruleset, None);
            refused(&setup(), Layer::Landlock, &["the kernel does not offer it", "Linux 6.2"]);
        })
        .join()
        .unwrap();
    }
}

#[test]
fn without_system_call_filters() {
    if available() {
        std::thread::spawn(|| {
            refuse_call(libc::SYS_seccomp, None);
            refused(
                &setup(),
                Layer::Seccomp,
                &["the kernel does not offer filters", "CONFIG_SECCOMP_FILTER"],
            );
        })
        .join()
        .unwrap();
    }
}

#[test]
fn a_policy_may_require_what_no_kernel_has() {
    if !available() {
        return;
    }
    let future = format!("{POLICY}[require]\nlayers = [\"landlock>=99\"]\n");
    let error = Field::new().commands(&future, Mode::Edit, &Default::default(), &[]).unwrap_err();
    assert!(error.to_string().contains("99 is needed"), "{error}");
}
