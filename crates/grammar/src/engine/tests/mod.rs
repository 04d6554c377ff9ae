//! The engine as a whole, on small vocabularies.
