//! Paths and trees of links drawn at random, against one model: what a request touches lies under the
//! workspace, by the operating system's own account of where the path leads.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the model is plain std::fs")]

mod support;

use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;
use support::{CANARY, Field, manifest};
use toolgate_sandbox::{Grants, Kind, Patterns, ReadOptions, SearchOptions};

/// What is put at a place of the tree.
#[derive(Clone, Debug)]
enum Node {
    File,
    Directory,
    Link(String),
}

/// A path as a model, or somebody malicious, might write it.
fn path() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a",
        "b",
        "c",
        "a",
        "b",
        "c",
        "..",
        ".",
        "",
        "ok.txt",
        "secret.txt",
        "out",
        "ws",
        "{WS}",
        "{OUT}",
        "/",
        "proc",
        "self",
        "root",
    ]);
    prop_oneof![
        9 => (prop::collection::vec(part, 1..7), any::<bool>(), prop::sample::select(vec!["", "/", "/."])).prop_map(
            |(parts, absolute, end)| {
                let start = if absolute && parts.len() > 4 { "/" } else { "" };
                format!("{start}{}{end}", parts.join("/"))
            }
        ),
        1 => any::<String>(),
    ]
}

fn tree() -> impl Strategy<Value = Vec<(String, Node)>> {
    let place = prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4)
        .prop_map(|parts| parts.join("/"));
    let node = prop_oneof![Just(Node::File), Just(Node::Directory), path().prop_map(Node::Link)];
    prop::collection::vec((place, node), 0..10)
}

/// Puts the tree into the workspace; what does not fit (a file where a directory is) is left out.
fn plant(field: &Field, tree: &[(String, Node)]) {
    for (place, node) in tree {
        let at = field.ws.join(place);
        let parent = at.parent().unwrap();
        // Never through a link: the planting itself must not reach outside.
        let _ = fs::create_dir_all(parent);
        if fs::canonicalize(parent).ok().as_deref() != Some(parent) {
            continue;
        }
        let _ = match node {
            Node::File => match fs::symlink_metadata(&at) {
                Ok(_) => Ok(()),
                Err(_) => fs::write(&at, "inside\n"),
            },
            Node::Directory => fs::create_dir(&at),
            Node::Link(target) => symlink(field.path(target), &at),
        };
    }
}

fn unguarded() -> Grants {
    Grants { deny_read: Patterns::none(), protect: Patterns::none(), ..Grants::read_write() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, rng_seed: prop::test_runner::RngSeed::Fixed(6), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_lies_under_the_root(tree in tree(), paths in prop::collection::vec(path(), 1..8)) {
        let field = Field::new();
        plant(&field, &tree);
        for path in paths {
            let path = field.path(&path);
            let real = fs::canonicalize(field.ws.join(&path)).ok();
            let inside = real.as_ref().is_some_and(|real| real.starts_with(&field.ws));
            match field.root.read_file(&unguarded(), &path, &ReadOptions::default()) {
                Ok(read) => {
                    prop_assert!(inside, "{path} leads to {real:?}");
                    prop_assert!(!read.text.contains(CANARY));
                    prop_assert_eq!(read.text, fs::read_to_string(real.as_ref().unwrap()).unwrap());
                }
                Err(error) => {
                    prop_assert!(!error.to_string().contains(CANARY));
                    // What leads outside, and exists there, is refused as such.
                    if real.is_some() && !inside {
                        prop_assert_eq!(error.kind(), Kind::Denied, "{}: {}", path, error);
                    }
                    // What stays inside all the way is not refused for leading outside.
                    let plain = !path.contains("..") && !path.starts_with('/') && tree.iter().all(|(_, n)| !matches!(n, Node::Link(_)));
                    if plain {
                        prop_assert_ne!(error.kind(), Kind::Denied, "{}: {}", path, error);
                    }
                }
            }
            if let Ok(listing) = field.root.list_directory(&unguarded(), &path, Some(3)) {
                prop_assert!(path.is_empty() || inside, "{path} leads to {real:?}, listed: {listing:?}");
            }
            let options = SearchOptions::default().path(Some(path.clone()));
            if let Ok(found) = field.root.search_codebase(&unguarded(), CANARY, &options) {
                prop_assert!(found.hits.is_empty(), "{path}: {found:?}");
            }
        }
    }

    #[test]
    fn what_is_written_lies_under_the_root(tree in tree(), paths in prop::collection::vec(path(), 1..8)) {
        let field = Field::new();
        plant(&field, &tree);
        let outside = field.outside();
        for path in paths {
            let path = field.path(&path);
            let before = manifest(&field.ws);
            let written = field.root.write_file(&unguarded(), &path, "written\n");
            let created = field.root.create_file(&unguarded(), &path, "created\n");
            let edited = field.root.edit_file(&unguarded(), &path, "written", "edited");
            prop_assert_eq!(&field.outside(), &outside, "{}", path);
            match &written {
                Ok(done) => {
                    let real = fs::canonicalize(field.ws.join(&path)).unwrap();
                    prop_assert_eq!(&real, &field.ws.join(&done.path), "the report names the resolved path");
                    prop_assert_eq!(created.unwrap_err().kind(), Kind::Exists);
                    prop_assert!(edited.is_ok());
                    prop_assert_eq!(fs::read_to_string(real).unwrap(), "edited\n");
                }
                Err(_) => {
                    prop_assert!(created.is_err() && edited.is_err(), "{path}: {created:?} {edited:?}");
                    prop_assert_eq!(manifest(&field.ws), before, "a refusal changes nothing");
                }
            }
        }
    }
}
