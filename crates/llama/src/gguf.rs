//! Checks that a GGUF file is whole, and finds the types of its weights. It runs before llama.cpp sees the file.
//!
//! Invariant: the file's own length bounds memory and time, whatever the file's counts claim.
//! The format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use crate::{Error, Kind};

/// The tensors of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weights {
    /// Bytes of all weights.
    pub(crate) bytes: u64,
    /// Bytes of the weights of type Q4_K.
    pub(crate) q4_k: u64,
    /// Bytes of the experts of mixtures.
    pub(crate) experts: u64,
    /// Experts of a layer, as the file's metadata says; 0 where it does not.
    pub(crate) expert_count: u32,
    /// Layers, as the file's metadata says; 0 where it does not.
    pub(crate) layers: u32,
    /// Whether the last layer has weights of its own. Where it has none, those of the first one are used again.
    pub(crate) has_output: bool,
}

/// What a file says of itself.
#[derive(Default)]
struct Header {
    weights: Weights,
    /// `general.type`.
    kind: Vec<u8>,
    /// A key whose value has a type that llama.cpp does not expect, and aborts on.
    mistyped: Option<&'static str>,
    /// A tensor of a type that adapters do not have.
    odd: Option<String>,
    /// The sizes of the matrices of an adapter, by name.
    matrices: BTreeMap<String, [u64; 4]>,
    /// Whether it takes effect behind certain tokens alone.
    activated: bool,
}

impl Header {
    /// A matrix that llama.cpp would take and abort on: it looks at the first two sizes alone.
    fn misshapen(&self, model: Weights) -> Option<&str> {
        let is_flat = |name: &str, [_, _, third, fourth]: [u64; 4]| {
            let depth = if is_expert(name.as_bytes()) { u64::from(model.expert_count.max(1)) } else { 1 };
            fourth == 1 && third == depth
        };
        let is_one_rank = |name: &str, sizes: [u64; 4]| {
            let Some(weight) =
                name.strip_suffix(".lora_a").filter(|name| name.ends_with("token_embd.weight"))
            else {
                return true;
            };
            let other = self.matrices.get(&format!("{weight}.lora_b"));
            // Where the last layer shares these weights, llama.cpp would multiply with the matrix that it reads rows of.
            model.has_output && other.is_none_or(|other| other.first() == sizes.first())
        };
        let mut matrices = self.matrices.iter();
        let wrong = matrices.find(|(name, sizes)| !(is_flat(name, **sizes) && is_one_rank(name, **sizes)));
        wrong.map(|(name, _)| name.as_str())
    }
}

/// The keys of an adapter with the type of their values. llama.cpp reads them without a look at it.
const ADAPTER_KEYS: [(&str, u32); 4] = [
    ("general.type", STRING),
    ("general.architecture", STRING),
    ("adapter.type", STRING),
    ("adapter.lora.alpha", F32),
];
/// What makes an adapter one that takes effect behind certain tokens alone.
const INVOCATION: &[u8] = b"adapter.alora.invocation_tokens";
/// The types of tensors of adapters: F32, F16, Q8_0 and BF16.
const ADAPTER_TYPES: [u32; 4] = [0, 1, 8, 30];

/// Checks magic, version, metadata and the tensor table. The file has to reach to the end of its last tensor.
pub(crate) fn check(path: &Path) -> Result<Weights, Error> {
    Ok(header(path, "model")?.weights)
}

/// The same of a file that is to be an adapter (LoRA) of a model with these weights.
pub(crate) fn check_adapter(path: &Path, model: Weights) -> Result<(), Error> {
    let header = header(path, "adapter")?;
    let misshapen = header.misshapen(model);
    let message = match header {
        Header { mistyped: Some(key), .. } => format!("damaged adapter: {key} has a value of the wrong type"),
        Header { kind, .. } if kind != b"adapter" => {
            "not an adapter (LoRA): its general.type is not adapter".to_owned()
        }
        Header { odd: Some(name), .. } => {
            format!("tensor {name:?} is not of the types F32, F16, BF16 and Q8_0: convert the adapter to one")
        }
        Header { activated: true, .. } => {
            "an adapter that acts behind certain tokens alone (aLoRA) cannot be used: merge it into the model"
                .to_owned()
        }
        Header { .. } => match misshapen {
            Some(name) => format!("tensor {name:?} has a shape that this model has no place for"),
            None => return Ok(()),
        },
    };
    Err(Error::new(Kind::Invalid, message).at(path))
}

/// An error for a path that llama.cpp cannot be given.
pub(crate) fn check_path(path: &Path) -> Result<(), Error> {
    if path.to_str().is_none_or(|path| path.contains('\0')) {
        let message = "llama.cpp takes paths in UTF-8 only: rename the file";
        return Err(Error::new(Kind::NotFound, message).at(path));
    }
    Ok(())
}

/// Reads a file that is to be a `what`.
fn header(path: &Path, what: &str) -> Result<Header, Error> {
    let open = || -> std::io::Result<(File, std::fs::Metadata)> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        Ok((file, metadata))
    };
    let (file, metadata) = open().map_err(|error| {
        let message = match error.kind() {
            ErrorKind::NotFound => format!("no such {what} file"),
            _ => format!("{what} file cannot be read: {error}"),
        };
        Error::new(Kind::NotFound, message).at(path).because(error)
    })?;
    if !metadata.is_file() {
        return Err(Error::new(Kind::NotGguf, "not a file: give the path of a .gguf file").at(path));
    }
    Reader { file: BufReader::new(file), at: 0, len: metadata.len() }.check().map_err(|fault| {
        let (kind, message) = match fault {
            Fault::NotGguf(what) => (Kind::NotGguf, format!("not a GGUF file: {what}")),
            Fault::Truncated { needs } => {
                let needs = needs.map_or(String::new(), |needs| format!(" of {needs}"));
                let message =
                    format!("truncated: {}{needs} bytes are there; download the file again", metadata.len());
                (Kind::Truncated, message)
            }
            Fault::Invalid(what) => (Kind::Invalid, format!("damaged GGUF file: {what}; download it again")),
            Fault::Io(error) => {
                return Error::new(Kind::NotFound, format!("{what} file cannot be read: {error}"))
                    .at(path)
                    .because(error);
            }
        };
        Error::new(kind, message).at(path)
    })
}

enum Fault {
    NotGguf(&'static str),
    Truncated { needs: Option<u64> },
    Invalid(String),
    Io(std::io::Error),
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof => Self::Truncated { needs: None },
            _ => Self::Io(error),
        }
    }
}

struct Reader {
    file: BufReader<File>,
    at: u64,
    len: u64,
}

/// Metadata values: a number of four bytes, string, array, and the sizes of the others by type number.
const U32: u32 = 4;
const F32: u32 = 6;
const STRING: u32 = 8;
const ARRAY: u32 = 9;
const SIZES: [u64; 13] = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];

impl Reader {
    fn check(mut self) -> Result<Header, Fault> {
        if self.len < 4 || &self.bytes::<4>()? != b"GGUF" {
            return Err(Fault::NotGguf("it does not begin with the letters GGUF"));
        }
        let version = self.u32()?;
        if !(2..=3).contains(&version) {
            return Err(Fault::Invalid(format!("version {version} is not 2 or 3")));
        }
        let (tensors, pairs) = (self.u64()?, self.u64()?);
        let mut header = Header::default();
        let mut alignment = 32;
        for _ in 0..pairs {
            let key = self.text()?;
            let kind = self.u32()?;
            let known = ADAPTER_KEYS.iter().find(|(known, _)| known.as_bytes() == key);
            if let Some((known, wanted)) = known
                && *wanted != kind
            {
                header.mistyped = Some(known);
            }
            header.activated |= key == INVOCATION;
            if key == b"general.alignment" && kind == U32 {
                alignment = u64::from(self.u32()?);
            } else if key.ends_with(b".block_count") && kind == U32 {
                header.weights.layers = self.u32()?;
            } else if key.ends_with(b".expert_count") && kind == U32 {
                header.weights.expert_count = self.u32()?;
            } else if key == b"general.type" && kind == STRING {
                header.kind = self.text()?;
            } else {
                self.value(kind)?;
            }
        }
        if alignment == 0 {
            return Err(Fault::Invalid("alignment is 0".to_owned()));
        }
        let mut end = 0_u64;
        for _ in 0..tensors {
            let name = self.text()?;
            let bad =
                |what: &str| Fault::Invalid(format!("tensor {:?} {what}", String::from_utf8_lossy(&name)));
            let dimensions = self.u32()?;
            if dimensions > 4 {
                return Err(bad("has more than 4 dimensions"));
            }
            let (mut elements, mut sizes) = (1_u64, [1; 4]);
            for size in sizes.iter_mut().take(dimensions as usize) {
                *size = self.u64()?;
                elements = elements.checked_mul(*size).ok_or_else(|| bad("is too large"))?;
            }
            let kind = self.u32()?;
            let offset = self.u64()?;
            let size = tensor_bytes(kind, elements).ok_or_else(|| bad("is too large"))?;
            end = end.max(offset.checked_add(size).ok_or_else(|| bad("lies outside any file"))?);
            let weights = &mut header.weights;
            weights.bytes = weights.bytes.saturating_add(size);
            if kind == Q4_K {
                weights.q4_k = weights.q4_k.saturating_add(size);
            }
            if is_expert(&name) {
                weights.experts = weights.experts.saturating_add(size);
            }
            header.weights.has_output |= name == b"output.weight";
            if name.ends_with(b".lora_a") || name.ends_with(b".lora_b") {
                header.matrices.insert(String::from_utf8_lossy(&name).into_owned(), sizes);
            }
            if !ADAPTER_TYPES.contains(&kind) {
                header.odd = Some(String::from_utf8_lossy(&name).into_owned());
            }
        }
        let data = self.at.div_ceil(alignment) * alignment;
        let needs = data.checked_add(end).ok_or_else(|| Fault::Invalid("it is too large".to_owned()))?;
        if tensors > 0 && self.len < needs {
            return Err(Fault::Truncated { needs: Some(needs) });
        }
        Ok(header)
    }

    fn value(&mut self, kind: u32) -> Result<(), Fault> {
        match kind {
            STRING => self.skip_text(),
            ARRAY => {
                let (kind, count) = (self.u32()?, self.u64()?);
                match (kind, fixed(kind)) {
                    (STRING, _) => (0..count).try_for_each(|_| self.skip_text()),
                    (_, Some(size)) => self.skip(count.saturating_mul(size)),
                    _ => Err(Fault::Invalid(format!("metadata array of type {kind}"))),
                }
            }
            _ => match fixed(kind) {
                Some(size) => self.skip(size),
                None => Err(Fault::Invalid(format!("metadata value of type {kind}"))),
            },
        }
    }

    /// A short text: a name.
    fn text(&mut self) -> Result<Vec<u8>, Fault> {
        let len = self.u64()?;
        if len > 65_535 {
            return Err(Fault::Invalid(format!("name of {len} bytes")));
        }
        let mut text = vec![0; len as usize];
        self.file.read_exact(&mut text)?;
        self.at += len;
        Ok(text)
    }

    fn skip_text(&mut self) -> Result<(), Fault> {
        let len = self.u64()?;
        self.skip(len)
    }

    fn skip(&mut self, len: u64) -> Result<(), Fault> {
        if len > self.len.saturating_sub(self.at) {
            return Err(Fault::Truncated { needs: None });
        }
        let step = i64::try_from(len).map_err(|_| Fault::Truncated { needs: None })?;
        // Within the buffer this is an addition; 150,000 token texts are skipped in a few milliseconds.
        match step {
            0..=4_096 => self.file.seek_relative(step)?,
            _ => _ = self.file.seek(SeekFrom::Current(step))?,
        }
        self.at += len;
        Ok(())
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes)?;
        self.at += N as u64;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, Fault> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    fn u64(&mut self) -> Result<u64, Fault> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }
}

/// Whether a tensor has the experts of a layer, as llama.cpp's pattern for `--cpu-moe` has it: `ffn_up_exps`, `ffn_gate_chexps` and the
/// like.
fn is_expert(name: &[u8]) -> bool {
    [&b"_exps"[..], b"_chexps"].iter().any(|end| name.windows(end.len()).any(|part| part == *end))
}

/// A type of tensors, by number.
const Q4_K: u32 = 12;

/// Bytes of a metadata value of fixed size.
fn fixed(kind: u32) -> Option<u64> {
    SIZES.get(kind as usize).copied().filter(|&size| size > 0)
}

/// Bytes of a tensor. A type that is not known here counts for one byte: llama.cpp judges such a file.
fn tensor_bytes(kind: u32, elements: u64) -> Option<u64> {
    // Elements and bytes of a block, by type: `type_traits` in ggml.c, and the block structs in ggml-common.h.
    let (block, bytes) = match kind {
        0 | 26 => (1, 4),
        1 | 25 | 30 => (1, 2),
        24 => (1, 1),
        27 | 28 => (1, 8),
        2 | 20 => (32, 18),
        3 => (32, 20),
        6 => (32, 22),
        7 => (32, 24),
        8 => (32, 34),
        9 => (32, 36),
        39 => (32, 17),
        10 => (256, 84),
        11 | 21 => (256, 110),
        Q4_K => (256, 144),
        13 => (256, 176),
        14 => (256, 210),
        15 => (256, 292),
        16 | 35 => (256, 66),
        17 => (256, 74),
        18 => (256, 98),
        19 => (256, 50),
        22 => (256, 82),
        23 => (256, 136),
        29 => (256, 56),
        34 => (256, 54),
        _ => return Some(elements.min(1)),
    };
    elements.div_ceil(block).checked_mul(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    fn text(out: &mut Vec<u8>, text: &str) {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    }

    /// A file with three metadata values and one F32 tensor of 2 by 3.
    fn whole() -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(3_u32.to_le_bytes());
        out.extend(2_u64.to_le_bytes());
        out.extend(3_u64.to_le_bytes());
        text(&mut out, "general.alignment");
        out.extend(4_u32.to_le_bytes());
        out.extend(64_u32.to_le_bytes());
        text(&mut out, "names");
        out.extend(ARRAY.to_le_bytes());
        out.extend(STRING.to_le_bytes());
        out.extend(2_u64.to_le_bytes());
        text(&mut out, "a");
        text(&mut out, "bc");
        text(&mut out, "general.name");
        out.extend(STRING.to_le_bytes());
        text(&mut out, &"x".repeat(5_000));
        text(&mut out, "weights");
        out.extend(2_u32.to_le_bytes());
        out.extend(2_u64.to_le_bytes());
        out.extend(3_u64.to_le_bytes());
        out.extend(0_u32.to_le_bytes());
        out.extend(64_u64.to_le_bytes());
        text(&mut out, "quantized");
        out.extend(1_u32.to_le_bytes());
        out.extend(256_u64.to_le_bytes());
        out.extend(Q4_K.to_le_bytes());
        out.extend(128_u64.to_le_bytes());
        out.resize(out.len().div_ceil(64) * 64 + 128 + 144, 0);
        out
    }

    fn check_bytes(bytes: &[u8]) -> Result<Weights, Error> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model.gguf");
        std::fs::write(&path, bytes).unwrap();
        check(&path)
    }

    #[test]
    fn whole_file_passes_and_every_shorter_one_is_named_truncated() {
        let whole = whole();
        // Six numbers, and a block of 256.
        assert_eq!(
            check_bytes(&whole).unwrap(),
            Weights { bytes: 24 + 144, q4_k: 144, ..Weights::default() }
        );
        for len in (4..whole.len()).step_by(37).chain([whole.len() - 1]) {
            let error = check_bytes(&whole[..len]).unwrap_err();
            assert_eq!(error.kind(), Kind::Truncated, "{len} bytes: {error}");
        }
        let message = check_bytes(&whole[..whole.len() - 1]).unwrap_err().to_string();
        assert!(message.contains(&format!("of {} bytes", whole.len())), "{message}");
    }

    #[test]
    fn other_files_are_named_for_what_they_are() {
        for (bytes, kind) in [
            (b"".to_vec(), Kind::NotGguf),
            (b"<html>not found</html>".to_vec(), Kind::NotGguf),
            (b"GGUF\x09\0\0\0".to_vec(), Kind::Invalid),
        ] {
            assert_eq!(check_bytes(&bytes).unwrap_err().kind(), kind, "{bytes:?}");
        }
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(check(directory.path()).unwrap_err().kind(), Kind::NotGguf);
        assert_eq!(check(&directory.path().join("none.gguf")).unwrap_err().kind(), Kind::NotFound);
    }

    #[test]
    fn counts_that_lie_cost_nothing() {
        let whole = whole();
        for at in [8, 16] {
            let mut lying = whole.clone();
            lying[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
            assert!(check_bytes(&lying).is_err(), "count at {at}");
        }
    }
}
