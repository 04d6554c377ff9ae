//! The sampler against brute force, with fixed seeds.
