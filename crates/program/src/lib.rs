//! Nothing but its manifest counts: it asks for all features of `toolgate`.
//!
//! The library has no default features, and the program needs them all. This package is a default member of the workspace, so
//! `cargo build` in a checkout builds the program as well. Nothing is published of it.
//!
//! For the packages of this workspace alone: no part of the API.
