//! Writes model files for tests (<https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>).

use std::path::{Path, PathBuf};

/// A file with metadata and tensors of type F32.
#[derive(Default)]
pub(crate) struct Gguf {
    values: Vec<u8>,
    keys: u64,
    tensors: Vec<(String, Vec<u64>, Vec<f32>)>,
    random: u32,
}

const U32: u32 = 4;
const I32: u32 = 5;
const F32: u32 = 6;
const STRING: u32 = 8;
const ARRAY: u32 = 9;
/// Tensors begin at multiples of this.
const ALIGNMENT: usize = 32;

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

impl Gguf {
    fn key(&mut self, key: &str, kind: u32) {
        text(&mut self.values, key);
        self.values.extend(kind.to_le_bytes());
        self.keys += 1;
    }

    fn array(&mut self, key: &str, kind: u32, len: usize) {
        self.key(key, ARRAY);
        self.values.extend(kind.to_le_bytes());
        self.values.extend((len as u64).to_le_bytes());
    }

    pub(crate) fn text(&mut self, key: &str, value: &str) {
        self.key(key, STRING);
        text(&mut self.values, value);
    }

    pub(crate) fn number(&mut self, key: &str, value: u32) {
        self.key(key, U32);
        self.values.extend(value.to_le_bytes());
    }

    pub(crate) fn float(&mut self, key: &str, value: f32) {
        self.key(key, F32);
        self.values.extend(value.to_le_bytes());
    }

    pub(crate) fn numbers(&mut self, key: &str, values: &[u32]) {
        self.array(key, U32, values.len());
        values.iter().for_each(|value| self.values.extend(value.to_le_bytes()));
    }

    pub(crate) fn integers(&mut self, key: &str, values: &[i32]) {
        self.array(key, I32, values.len());
        values.iter().for_each(|value| self.values.extend(value.to_le_bytes()));
    }

    pub(crate) fn floats(&mut self, key: &str, values: &[f32]) {
        self.array(key, F32, values.len());
        values.iter().for_each(|value| self.values.extend(value.to_le_bytes()));
    }

    pub(crate) fn texts(&mut self, key: &str, values: &[String]) {
        self.array(key, STRING, values.len());
        values.iter().for_each(|value| text(&mut self.values, value));
    }

    /// A tensor of one number.
    pub(crate) fn constant(&mut self, name: &str, sizes: &[u64], value: f32) {
        let len = sizes.iter().product::<u64>() as usize;
        self.tensors.push((name.to_owned(), sizes.to_vec(), vec![value; len]));
    }

    /// A tensor of numbers around 0, which are the same in each run. They are as large as keeps a layer's outputs near its inputs.
    pub(crate) fn random(&mut self, name: &str, sizes: &[u64]) {
        let len = sizes.iter().product::<u64>() as usize;
        let scale = 2.0 * (3.0 / sizes[0] as f32).sqrt();
        let state = &mut self.random;
        let next = || {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((*state >> 8) as f32 / (1_u32 << 24) as f32 - 0.5) * scale
        };
        let values = std::iter::repeat_with(next).take(len).collect();
        self.tensors.push((name.to_owned(), sizes.to_vec(), values));
    }

    /// Writes the file; its path.
    pub(crate) fn write(&self, path: &Path) -> PathBuf {
        let mut out = b"GGUF".to_vec();
        out.extend(3_u32.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend(self.keys.to_le_bytes());
        out.extend(&self.values);
        let mut offset = 0_usize;
        for (name, sizes, values) in &self.tensors {
            text(&mut out, name);
            out.extend((sizes.len() as u32).to_le_bytes());
            sizes.iter().for_each(|size| out.extend(size.to_le_bytes()));
            // The number of F32 among the types of tensors.
            out.extend(0_u32.to_le_bytes());
            out.extend((offset as u64).to_le_bytes());
            offset += (values.len() * 4).next_multiple_of(ALIGNMENT);
        }
        for (_, _, values) in &self.tensors {
            out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
            values.iter().for_each(|value| out.extend(value.to_le_bytes()));
        }
        out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
        std::fs::write(path, out).unwrap();
        path.to_owned()
    }
}
