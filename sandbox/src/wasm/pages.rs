//! Before the compiler: makes each core module see only the memory that it asked for.
//!
//! The preview 1 adapter adds pages with its state to the memory of the program. C libraries from before the
//! end of 2022 ask for the size of the memory at their first allocation. They take all of it for their heap,
//! the state of the adapter included. Once the heap has grown into that state, every call of the system goes
//! wrong.
//!
//! So a module that defines its memory counts its own pages in a global. `memory.size` reads that global, and
//! `memory.grow` updates it. Pages that others add then leave a gap, as with any other user of `memory.grow`.
//!
//! Invariant: a module whose memory nobody else grows behaves as before. Bytes that cannot be parsed stay as
//! they are, for the compiler to refuse. The result is validated like any module.

use std::borrow::Cow;

use wasm_encoder::{ConstExpr, Encode as _, GlobalType, Instruction, RawSection, SectionId, ValType};
use wasmparser::{
    BinaryReader, CodeSectionReader, GlobalSectionReader, ImportSectionReader, MemorySectionReader, Operator,
    Result, TypeRef,
};

const MODULE: &[u8] = b"\0asm\x01\0\0\0";
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
/// Bytes of either.
const HEADER: usize = 8;
/// Sections of a component.
const CORE_MODULE: u8 = 1;
const INNER_COMPONENT: u8 = 4;
/// Components within components that are looked into.
const LEVELS: u32 = 16;

/// `binary`, a component or a module, with each module that is told of its memory told of its own pages.
pub(super) fn own_pages(binary: &[u8]) -> Cow<'_, [u8]> {
    rewritten(binary, LEVELS).ok().flatten().map_or(Cow::Borrowed(binary), Cow::Owned)
}

/// Nothing if there is nothing to change.
fn rewritten(binary: &[u8], levels: u32) -> Result<Option<Vec<u8>>> {
    match binary.get(..HEADER) {
        Some(MODULE) => module(binary),
        Some(COMPONENT) => component(binary, levels),
        _ => Ok(None),
    }
}

fn component(binary: &[u8], levels: u32) -> Result<Option<Vec<u8>>> {
    let mut changed = false;
    let mut out = COMPONENT.to_vec();
    for section in sections(binary) {
        let (id, content) = section?;
        let inner = match (id, levels.checked_sub(1)) {
            (CORE_MODULE, _) => module(content)?,
            (INNER_COMPONENT, Some(levels)) => rewritten(content, levels)?,
            _ => None,
        };
        changed |= inner.is_some();
        push_section(&mut out, id, inner.as_deref().unwrap_or(content));
    }
    Ok(changed.then_some(out))
}

fn module(binary: &[u8]) -> Result<Option<Vec<u8>>> {
    let Some(own) = Own::of(binary)? else { return Ok(None) };
    let mut out = MODULE.to_vec();
    let (mut globals, mut asks) = (false, false);
    for section in sections(binary) {
        let (id, content) = section?;
        let code = if id == SectionId::Code as u8 { own.code(content)? } else { None };
        asks |= code.is_some();
        if id == SectionId::Global as u8 {
            globals = true;
            push_section(&mut out, id, &own.globals(Some(content))?);
            continue;
        }
        if comes_after_globals(id) && !globals {
            globals = true;
            push_section(&mut out, SectionId::Global as u8, &own.globals(None)?);
        }
        push_section(&mut out, id, code.as_deref().unwrap_or(content));
    }
    Ok(asks.then_some(out))
}

fn comes_after_globals(id: u8) -> bool {
    use SectionId::{Code, Data, DataCount, Element, Export, Start};
    [Export, Start, Element, DataCount, Code, Data].into_iter().any(|later| later as u8 == id)
}

/// The sections of a binary, each with its number. After an error there is nothing more to come.
fn sections(binary: &[u8]) -> impl Iterator<Item = Result<(u8, &[u8])>> {
    let mut reader = BinaryReader::new(binary.get(HEADER..).unwrap_or_default(), HEADER);
    std::iter::from_fn(move || {
        let next = (!reader.eof()).then(|| section(&mut reader));
        if matches!(next, Some(Err(_))) {
            reader = BinaryReader::new(&[], HEADER);
        }
        next
    })
}

fn section<'a>(reader: &mut BinaryReader<'a>) -> Result<(u8, &'a [u8])> {
    let (id, length) = (reader.read_u8()?, reader.read_var_u32()?);
    Ok((id, reader.read_bytes(usize::try_from(length).unwrap_or(usize::MAX))?))
}

fn push_section(out: &mut Vec<u8>, id: u8, data: &[u8]) {
    out.push(id);
    RawSection { id, data }.encode(out);
}

/// A module's own count of its pages.
struct Own {
    /// Pages it begins with.
    first: i32,
    /// The global that counts them.
    pages: u32,
    /// A global to put what `memory.grow` gives aside.
    old: u32,
}

impl Own {
    /// For a module that defines a plain memory.
    fn of(module: &[u8]) -> Result<Option<Self>> {
        let (mut first, mut globals) = (None, 0_u32);
        for section in sections(module) {
            let (id, content) = section?;
            let reader = BinaryReader::new(content, 0);
            if id == SectionId::Import as u8 {
                for import in ImportSectionReader::new(reader)?.into_imports() {
                    match import?.ty {
                        TypeRef::Memory(_) => return Ok(None),
                        TypeRef::Global(_) => globals = globals.saturating_add(1),
                        _ => {}
                    }
                }
            } else if id == SectionId::Memory as u8 {
                let memory = MemorySectionReader::new(reader)?.into_iter().next().transpose()?;
                let plain =
                    |memory: &wasmparser::MemoryType| !memory.memory64 && memory.page_size_log2.is_none();
                first = memory.filter(plain).and_then(|memory| i32::try_from(memory.initial).ok());
            } else if id == SectionId::Global as u8 {
                globals = globals.saturating_add(GlobalSectionReader::new(reader)?.count());
            }
        }
        Ok(first.map(|first| Self { first, pages: globals, old: globals.saturating_add(1) }))
    }

    /// The section of globals with the two more.
    fn globals(&self, content: Option<&[u8]>) -> Result<Vec<u8>> {
        let mut reader = BinaryReader::new(content.unwrap_or(&[0]), 0);
        let count = reader.read_var_u32()?;
        let mut out = Vec::new();
        count.saturating_add(2).encode(&mut out);
        out.extend_from_slice(reader.read_bytes(reader.bytes_remaining())?);
        for first in [self.first, 0] {
            GlobalType { val_type: ValType::I32, mutable: true, shared: false }.encode(&mut out);
            ConstExpr::i32_const(first).encode(&mut out);
        }
        Ok(out)
    }

    /// The section of functions; nothing if none of them asks for the size.
    fn code(&self, content: &[u8]) -> Result<Option<Vec<u8>>> {
        let bodies = CodeSectionReader::new(BinaryReader::new(content, 0))?;
        let mut asks = false;
        let mut out = Vec::with_capacity(content.len());
        bodies.count().encode(&mut out);
        for body in bodies {
            let body = body?;
            let (start, bytes) = (body.range().start, body.as_bytes());
            let mut changed = Vec::with_capacity(bytes.len());
            let mut copied = start;
            let mut operators = body.get_operators_reader()?;
            while !operators.eof() {
                let (operator, at) = operators.read_with_offset()?;
                let instead: &[Instruction<'_>] = match operator {
                    Operator::MemorySize { mem: 0 } => &self.size(),
                    Operator::MemoryGrow { mem: 0 } => &self.grow(),
                    _ => continue,
                };
                asks |= matches!(operator, Operator::MemorySize { .. });
                changed.extend_from_slice(bytes.get(copied - start..at - start).unwrap_or_default());
                instead.iter().for_each(|instruction| instruction.encode(&mut changed));
                copied = operators.original_position();
            }
            changed.extend_from_slice(bytes.get(copied - start..).unwrap_or_default());
            changed.encode(&mut out);
        }
        Ok(asks.then_some(out))
    }

    fn size(&self) -> [Instruction<'static>; 1] {
        [Instruction::GlobalGet(self.pages)]
    }

    /// Grows; if that went well the count is what there is now, else it stays.
    fn grow(&self) -> [Instruction<'static>; 10] {
        use Instruction::{GlobalGet, GlobalSet, I32Const, I32Ne, MemoryGrow, MemorySize, Select};
        [
            MemoryGrow(0),
            GlobalSet(self.old),
            MemorySize(0),
            GlobalGet(self.pages),
            GlobalGet(self.old),
            I32Const(-1),
            I32Ne,
            Select,
            GlobalSet(self.pages),
            GlobalGet(self.old),
        ]
    }
}
