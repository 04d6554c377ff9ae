//! Objects: declared properties in their order, then undeclared ones.
//!
//! Invariant: a declared key is written at most once, and no undeclared key equals a declared one. Size is linear in
//! the number of properties, whichever of them are optional.

use std::sync::Arc;

use serde_json::Value;

use crate::schema::{
    Conjunct, FreeKeys, Key, ObjectShape, Part, PartId, PatternUse, TextKind, Types, Values,
};
use crate::work::bytes;
use crate::{Error, Expr, Kind, Place};

use super::array::repeat;
use super::render::string_text;
use super::{Compiler, Undeclared, choice, longer, sequence};

/// States of the counting grammar; each is a rule.
const COUNTED: u64 = 5_000;

/// What a property costs, in steps, beside its value and its name.
const MEMBER: u64 = 8;

/// A property ready to be written.
struct Member {
    text: Expr,
    required: bool,
}

impl Compiler<'_, '_> {
    /// An object; `None` if none satisfies.
    pub(super) fn object(&mut self, own: &[PartId], name: &str) -> Result<Option<Expr>, Error> {
        let mut shape = self.arena.object(own);
        self.spend(1)?;
        let closed = self.options.undeclared == Undeclared::Forbidden
            && !shape.speaks_of_undeclared
            && !shape.properties.is_empty();
        if closed {
            shape.free.clear();
        }
        for (pointer, reason) in std::mem::take(&mut shape.weakened) {
            self.weaken(pointer, reason);
        }
        let Some(members) = self.members(&shape, name)? else { return Ok(None) };
        let needed = members.iter().filter(|member| member.required).count() as u64;
        let declared = members.len() as u64;
        if shape.max.is_some_and(|max| max < needed.max(shape.min)) {
            return Ok(None);
        }
        let free =
            if shape.max == Some(needed) && needed == declared { None } else { self.free(&shape, name)? };
        if free.is_none() && shape.min > declared {
            return Ok(None);
        }
        if free.is_some() && shape.min > needed + 1 {
            self.weaken_own(own, "minProperties", "undeclared keys may be written twice, and count once");
        }
        // With no free keys a maximum is met by itself when all properties fit.
        let max = shape.max.filter(|max| free.is_some() || *max < declared);
        let min = if shape.min > needed { shape.min } else { 0 };
        let gap = self.json.gap(self.builder);
        let body = if min == 0 && max.is_none() {
            self.uncounted(members, free, name)?
        } else if members.is_empty() {
            let Some(free) = free else { return Ok(Some(self.braces(Expr::empty()))) };
            self.map(free, min, max)
        } else {
            match self.counted(&members, free.as_ref(), min, max, name, own)? {
                Some(body) => body,
                None => self.uncounted(members, free, name)?,
            }
        };
        let body = match body {
            Expr::Repeat { item, min: 0, max: Some(1) } => sequence([*item, gap]).optional(),
            other => sequence([other, gap]),
        };
        Ok(Some(self.braces(body)))
    }

    fn braces(&mut self, body: Expr) -> Expr {
        let gap = self.json.gap(self.builder);
        sequence([Expr::literal("{"), gap, body, Expr::literal("}")])
    }

    /// The declared properties; `None` if a required one is impossible.
    fn members(&mut self, shape: &ObjectShape, name: &str) -> Result<Option<Vec<Member>>, Error> {
        let mut members = Vec::with_capacity(shape.properties.len());
        for property in &shape.properties {
            self.spend(MEMBER + 4 * bytes(property.name.len()))?;
            let value = match &property.value {
                Some(key) => self.node(key.clone(), &longer(name, &property.name))?,
                None => None,
            };
            match value {
                Some(value) => {
                    let colon = self.json.colon(self.builder);
                    let text = sequence([Expr::literal(string_text(&property.name)), colon, value]);
                    members.push(Member { text, required: property.required });
                }
                None if property.required => return Ok(None),
                None => {}
            }
        }
        Ok(Some(members))
    }

    /// One undeclared member, key and value; `None` if there can be none.
    fn free(&mut self, shape: &ObjectShape, name: &str) -> Result<Option<Expr>, Error> {
        let mut kinds = Vec::new();
        let many = shape.free.len() > 1;
        let names = shape.properties.iter().map(|p| Value::String(p.name.to_string())).collect();
        let names = Arc::new(Values::new(names));
        self.spend(names.size)?;
        for (i, kind) in shape.free.iter().enumerate() {
            let suffix = if many { format!("-{}", i + 1) } else { String::new() };
            let name_of = |what: &str| longer(name, &format!("{what}{suffix}"));
            let Some(key) = self.free_key(shape, kind, &names, &name_of("key"))? else { continue };
            let Some(value) = self.node(kind.value.clone(), &name_of("value"))? else { continue };
            let colon = self.json.colon(self.builder);
            kinds.push(sequence([key, colon, value]));
        }
        match choice(kinds) {
            Some(member) => Ok(Some(self.shared(&longer(name, "more"), member)?)),
            None => Ok(None),
        }
    }

    /// A key of this kind that is none of the declared names: a string like any other.
    fn free_key(
        &mut self,
        shape: &ObjectShape,
        kind: &FreeKeys,
        names: &Arc<Values>,
        name: &str,
    ) -> Result<Option<Expr>, Error> {
        let mut part = Part { types: Some(Types::STRING), ..Part::default() };
        self.spend(MEMBER + (kind.matching.len() + kind.not_matching.len()) as u64)?;
        if !names.is_empty() {
            part.not_values.push(Arc::clone(names));
        }
        let used = |(pattern, pointer): &(Arc<_>, Arc<str>), negated| PatternUse {
            pointer: Arc::clone(pointer),
            kind: TextKind::Key,
            pattern: Arc::clone(pattern),
            negated,
        };
        part.text.patterns.extend(kind.matching.iter().map(|pattern| used(pattern, false)));
        part.text.patterns.extend(kind.not_matching.iter().map(|pattern| used(pattern, true)));
        let mut key: Key = vec![Conjunct::Whole(self.add(part)?)];
        key.extend(shape.names.iter().map(|id| Conjunct::Whole(*id)));
        self.node(key, name)
    }

    fn add(&mut self, part: Part) -> Result<PartId, Error> {
        let too_many = || {
            Error::new(Kind::Limit, "the schema has too many subschemas").at(Place::Pointer(String::new()))
        };
        self.arena.add(part).ok_or_else(too_many)
    }

    /// Between `min` and `max` undeclared members.
    fn map(&mut self, member: Expr, min: u64, max: Option<u64>) -> Expr {
        if max == Some(0) {
            return Expr::empty();
        }
        let comma = self.json.comma(self.builder);
        let more = sequence([comma, member.clone()]);
        let rest = repeat(more, min.saturating_sub(1), max.map(|max| max.saturating_sub(1)));
        let members = sequence([member, rest]);
        if min == 0 { members.optional() } else { members }
    }

    /// Members without regard to their number. Before the first required property a comma follows each optional
    /// one, after it a comma comes before; only where none is required the first one written has to be found out.
    fn uncounted(&mut self, members: Vec<Member>, free: Option<Expr>, name: &str) -> Result<Expr, Error> {
        let comma = self.json.comma(self.builder);
        let more = free.clone().map(|free| sequence([comma.clone(), free]).repeat(0, None));
        let Some(first) = members.iter().position(|member| member.required) else {
            return self.all_optional(members, free, more, name);
        };
        let mut out = Vec::new();
        for (i, member) in members.into_iter().enumerate() {
            if i < first {
                out.push(sequence([member.text, comma.clone()]).optional());
            } else if i == first {
                out.push(member.text);
            } else {
                let text = sequence([comma.clone(), member.text]);
                out.push(if member.required { text } else { text.optional() });
            }
        }
        out.extend(more);
        Ok(sequence(out))
    }

    /// Two rules a property: what may be written if nothing has been, and if something has.
    fn all_optional(
        &mut self,
        members: Vec<Member>,
        free: Option<Expr>,
        more: Option<Expr>,
        name: &str,
    ) -> Result<Expr, Error> {
        let comma = self.json.comma(self.builder);
        if members.is_empty() {
            return Ok(free.map_or_else(Expr::empty, |free| self.map(free, 0, None)));
        }
        let count = members.len();
        let mut starts: Vec<Expr> = Vec::with_capacity(count + 1);
        let mut rest = more.unwrap_or_else(Expr::empty);
        if let Some(free) = free {
            starts.push(sequence([free, rest.clone()]));
        }
        for (i, member) in members.into_iter().enumerate().rev() {
            let text = if count > 1 {
                self.shared(&longer(name, &format!("member-{}", i + 1)), member.text)?
            } else {
                member.text
            };
            starts.push(sequence([text.clone(), rest.clone()]));
            if i > 0 {
                let after = sequence([sequence([comma.clone(), text]).optional(), rest]);
                rest = self.shared(&longer(name, &format!("from-{}", i + 1)), after)?;
            }
        }
        starts.reverse();
        Ok(Expr::choice(starts).optional())
    }

    /// A rule for each property and number of members already written; `None` if they are too many, which is
    /// then a checked keyword.
    fn counted(
        &mut self,
        members: &[Member],
        free: Option<&Expr>,
        min: u64,
        max: Option<u64>,
        name: &str,
        own: &[PartId],
    ) -> Result<Option<Expr>, Error> {
        let columns = max.unwrap_or(min).max(min).min(members.len() as u64);
        if columns.saturating_add(1).saturating_mul(members.len() as u64 + 1) > COUNTED {
            self.weaken_own(own, "minProperties", "too many properties to count");
            self.weaken_own(own, "maxProperties", "too many properties to count");
            return Ok(None);
        }
        // From the last property to the first, and for each number written before it: what may follow. With a
        // minimum alone, numbers past it need not be told apart.
        let comma = self.json.comma(self.builder);
        let top = max.map_or(columns.max(1), |max| max.min(members.len() as u64));
        let mut after: Vec<Option<Expr>> = Vec::new();
        for written in 0..=top {
            after.push(self.ending(free, written, min, max, &comma));
        }
        for (i, member) in members.iter().enumerate().rev() {
            let mut now: Vec<Option<Expr>> = Vec::new();
            let text = self.shared(&longer(name, &format!("member-{}", i + 1)), member.text.clone())?;
            for written in 0..=top.min(i as u64) {
                let next = usize::try_from((written + 1).min(top)).unwrap_or(usize::MAX);
                let lead = if written > 0 { comma.clone() } else { Expr::empty() };
                let full = max.is_some_and(|max| written >= max);
                let with = after.get(next).cloned().flatten().filter(|_| !full);
                let with = with.map(|rest| sequence([lead, text.clone(), rest]));
                let stay =
                    usize::try_from(written).ok().and_then(|written| after.get(written)).cloned().flatten();
                let without = stay.filter(|_| !member.required);
                let body = choice(with.into_iter().chain(without));
                let label = longer(name, &format!("from-{}-with-{written}", i + 1));
                now.push(body.map(|body| self.shared(&label, body)).transpose()?);
            }
            after = now;
        }
        Ok(Some(after.into_iter().next().flatten().unwrap_or_else(|| Expr::Choice(Vec::new()))))
    }

    /// What may follow the declared properties when `written` members stand already.
    fn ending(
        &mut self,
        free: Option<&Expr>,
        written: u64,
        min: u64,
        max: Option<u64>,
        comma: &Expr,
    ) -> Option<Expr> {
        let least = min.saturating_sub(written);
        let most = max.map(|max| max.checked_sub(written));
        match (free, most) {
            (_, Some(None)) => None,
            (None, _) => (least == 0).then(Expr::empty),
            (Some(free), most) => {
                let most = most.flatten();
                if most.is_some_and(|most| most < least) {
                    None
                } else if written == 0 {
                    Some(self.map(free.clone(), least, most))
                } else {
                    Some(repeat(sequence([comma.clone(), free.clone()]), least, most))
                }
            }
        }
    }

    /// Lists a keyword as checked in every part that has it.
    fn weaken_own(&mut self, own: &[PartId], keyword: &str, reason: &'static str) {
        let parts = own.iter().filter_map(|id| self.arena.part(*id));
        let with = parts.filter(|part| match keyword {
            "minProperties" => part.object.min > 0,
            _ => part.object.max.is_some(),
        });
        let pointers: Vec<String> = with.map(|part| format!("{}/{keyword}", part.pointer)).collect();
        for pointer in pointers {
            self.weaken(pointer, reason);
        }
    }
}
