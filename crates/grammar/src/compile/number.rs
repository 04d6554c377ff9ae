//! Numbers: bounds and multiples read off the digits, without floats.
//!
//! Invariant: every number is of bounded length, so that a model cannot run on in digits, and none is so close to
//! an excluded bound that reading it as a float would land on the bound.

use serde_json::Value;

use crate::schema::{Bound, Decimal, Leaf, NumberShape, Types};
use crate::{Error, Expr};

use super::{Compiler, choice, sequence};

/// Digits of an integer without an upper bound, all of which 64 bits hold.
const DIGITS: u32 = 19;
/// Digits after the point, more than a float tells apart.
const PLACES: usize = 17;
/// Digits that a float always keeps apart.
const EXACT: usize = 15;
/// Multiples up to which they are listed one by one.
const LISTED: i128 = 64;
/// Bounds beyond this are outside of what a float holds, or of what the grammar of numbers writes.
const VAST: &str = "1e307";

impl Compiler<'_, '_> {
    /// A number; `None` if none satisfies.
    pub(super) fn number(&mut self, leaf: &Leaf, name: &str) -> Result<Option<Expr>, Error> {
        let shape = self.arena.number(leaf);
        let units_are_whole = shape.multiple_of.iter().any(|(unit, _)| unit.is_integral());
        if !leaf.types.has(Types::FRACTION) || (units_are_whole && leaf.types.has(Types::INTEGER)) {
            return self.integer(leaf, &shape, name);
        }
        if leaf.not_values.iter().any(Value::is_number) {
            self.weaken_exclusions(leaf, "single fractions cannot be left out by a grammar");
        }
        let mut places = PLACES;
        for (unit, pointer) in &shape.multiple_of {
            self.weaken(
                format!("{pointer}/multipleOf"),
                "multiples of fractions are not told by their digits",
            );
            if unit.whole().is_empty() {
                places = places.min(unit.fraction().len().max(1));
            }
        }
        if !leaf.types.has(Types::INTEGER) {
            return Ok(self.fraction_only(leaf, &shape));
        }
        let vast = Decimal::read(VAST).unwrap_or_default();
        let min = shape.min.filter(|bound| bound.value > vast.negated());
        let max = shape.max.filter(|bound| bound.value < vast);
        if min.is_none() && max.is_none() && places == PLACES {
            let number =
                if shape.single { self.json.single(self.builder) } else { self.json.number(self.builder) };
            return Ok(Some(number));
        }
        let from_zero = min.as_ref().is_some_and(|bound| bound.value.is_zero() && !bound.exclusive);
        if from_zero && max.is_none() && places == PLACES && !shape.single {
            return Ok(Some(self.json.magnitude(self.builder)));
        }
        Ok(decimal(min.as_ref(), max.as_ref(), places))
    }

    /// Numbers that are not whole: what `number` without `integer` leaves.
    fn fraction_only(&mut self, leaf: &Leaf, shape: &NumberShape) -> Option<Expr> {
        if shape.min.is_some() || shape.max.is_some() {
            self.weaken_bounds(leaf);
        }
        let digit = || Expr::class([('0', '9')]);
        let whole = Expr::choice([
            Expr::literal("0"),
            sequence([Expr::class([('1', '9')]), digit().repeat(0, Some(8))]),
        ]);
        // Few enough digits that the fraction survives as a float.
        let fraction = sequence([Expr::literal("."), digit().repeat(0, Some(4)), Expr::class([('1', '9')])]);
        Some(sequence([Expr::literal("-").optional(), whole, fraction]))
    }

    fn weaken_bounds(&mut self, leaf: &Leaf) {
        let parts = leaf.own.iter().filter_map(|id| self.arena.part(*id));
        let bounded = parts.filter(|part| !part.number.min.is_empty() || !part.number.max.is_empty());
        let pointers: Vec<String> = bounded.map(|part| part.pointer.clone()).collect();
        for pointer in pointers {
            for keyword in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"] {
                self.weaken(
                    format!("{pointer}/{keyword}"),
                    "bounds of numbers that must not be whole are not told by digits",
                );
            }
        }
    }

    fn integer(&mut self, leaf: &Leaf, shape: &NumberShape, name: &str) -> Result<Option<Expr>, Error> {
        let min = shape.min.as_ref().map(|bound| {
            if bound.exclusive { bound.value.floor().saturating_add(1) } else { bound.value.ceil() }
        });
        let max = shape.max.as_ref().map(|bound| {
            if bound.exclusive { bound.value.ceil().saturating_sub(1) } else { bound.value.floor() }
        });
        let mut excluded: Vec<i128> = Vec::new();
        for value in &leaf.not_values {
            if let (Value::Number(number), true) = (value, Types::INTEGER.has(Types::of(value))) {
                excluded.push(Decimal::of(number).floor());
            }
        }
        let mut unit: i128 = 1;
        for (value, pointer) in &shape.multiple_of {
            match whole_unit(value).and_then(|whole| least_common_multiple(unit, whole)) {
                Some(common) => unit = common,
                None => self.weaken(format!("{pointer}/multipleOf"), "its digits are too many"),
            }
        }
        if min.is_none() && max.is_none() && excluded.is_empty() && unit == 1 {
            return Ok(Some(self.json.integer(self.builder)));
        }
        let (low, high) = finite(min, max);
        excluded.sort_unstable();
        excluded.dedup();
        let mut branches = Vec::new();
        let mut from = low;
        for hole in excluded.into_iter().filter(|hole| (low..=high).contains(hole)) {
            branches.extend(self.multiples(from, hole - 1, unit, shape, name)?);
            from = hole + 1;
        }
        branches.extend(self.multiples(from, high, unit, shape, name)?);
        Ok(choice(branches))
    }

    /// Multiples of `unit` from `low` to `high`.
    fn multiples(
        &mut self,
        low: i128,
        high: i128,
        unit: i128,
        shape: &NumberShape,
        name: &str,
    ) -> Result<Option<Expr>, Error> {
        if low > high {
            return Ok(None);
        }
        if unit == 1 {
            return Ok(integers(low, high));
        }
        // Counted in units, the bounds are those of any integer.
        let (first, last) =
            (low.div_euclid(unit) + i128::from(low.rem_euclid(unit) != 0), high.div_euclid(unit));
        if first > last {
            return Ok(None);
        }
        if last - first < LISTED {
            return Ok(choice((first..=last).map(|n| Expr::literal((n * unit).to_string()))));
        }
        let (mut core, mut zeros) = (unit, String::new());
        while core % 10 == 0 {
            core /= 10;
            zeros.push('0');
        }
        let known = self.remainders.contains_key(&(core, 1, 0));
        let states = usize::try_from(core.saturating_mul(i128::from(DIGITS))).unwrap_or(usize::MAX);
        let states = if known { 0 } else { states };
        if core > 1 && states > self.states {
            let pointers: Vec<String> =
                shape.multiple_of.iter().map(|(_, pointer)| pointer.clone()).collect();
            for pointer in pointers {
                self.weaken(format!("{pointer}/multipleOf"), "its automaton has too many states");
            }
            return Ok(integers(low, high));
        }
        if core > 1 {
            self.states -= states;
        }
        let scale = unit / core;
        let (low, high) =
            (low.div_euclid(scale) + i128::from(low.rem_euclid(scale) != 0), high.div_euclid(scale));
        let mut branches = Vec::new();
        if low <= 0 && high >= 0 {
            branches.push(Expr::literal("0"));
        }
        let positive = self.digit_multiples(low.max(1), high, core, name)?;
        branches.extend(positive.map(|expr| sequence([expr, Expr::literal(zeros.as_str())])));
        let negative = self.digit_multiples((-high).max(1), -low, core, name)?;
        branches.extend(negative.map(|expr| sequence([Expr::literal("-"), expr, Expr::literal(zeros)])));
        Ok(choice(branches))
    }

    /// Multiples of `unit` from `low`, at least 1, to `high`, by the remainder of the digits so far.
    fn digit_multiples(
        &mut self,
        low: i128,
        high: i128,
        unit: i128,
        name: &str,
    ) -> Result<Option<Expr>, Error> {
        if low > high {
            return Ok(None);
        }
        if unit == 1 {
            return Ok(integers(low, high));
        }
        let (low, high) = (digits_of(low), digits_of(high));
        let automaton = Remainders { unit, name };
        let mut branches = Vec::new();
        for length in low.len()..=high.len() {
            let mut from = vec![0; length];
            if let Some(first) = from.first_mut() {
                *first = 1;
            }
            let from = if length == low.len() { low.clone() } else { from };
            let to = if length == high.len() { high.clone() } else { vec![9; length] };
            branches.extend(automaton.digits(self, Some(&from), Some(&to), length, 0)?);
        }
        Ok(choice(branches))
    }
}

/// Digits whose number is a multiple of a unit: a state for each remainder and number of digits to come.
struct Remainders<'a> {
    unit: i128,
    name: &'a str,
}

impl Remainders<'_> {
    fn digits(
        &self,
        compiler: &mut Compiler<'_, '_>,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
        length: usize,
        remainder: i128,
    ) -> Result<Option<Expr>, Error> {
        if length == 0 {
            return Ok((remainder == 0).then(Expr::empty));
        }
        let free = low.is_none() && high.is_none();
        if let (true, Some(known)) = (free, compiler.remainders.get(&(self.unit, length, remainder))) {
            return Ok(known.clone());
        }
        let bottom = low.and_then(|digits| digits.first().copied()).unwrap_or(0);
        let top = high.and_then(|digits| digits.first().copied()).unwrap_or(9);
        let mut branches: Vec<(Vec<(char, char)>, Expr)> = Vec::new();
        for digit in bottom..=top {
            let low = low.filter(|_| digit == bottom).and_then(|digits| digits.get(1..));
            let high = high.filter(|_| digit == top).and_then(|digits| digits.get(1..));
            let next = (remainder * 10 + i128::from(digit)) % self.unit;
            let Some(rest) = self.digits(compiler, low, high, length - 1, next)? else { continue };
            let c = char::from(b'0' + digit);
            match branches.iter_mut().find(|(_, known)| *known == rest) {
                Some((digits, _)) => digits.push((c, c)),
                None => branches.push((vec![(c, c)], rest)),
            }
        }
        let expr = choice(branches.into_iter().map(|(digits, rest)| sequence([Expr::class(digits), rest])));
        if !free {
            return Ok(expr);
        }
        let label = format!("{}-{length}-{remainder}", self.name);
        let expr = expr.map(|expr| compiler.shared(&label, expr)).transpose()?;
        compiler.remainders.insert((self.unit, length, remainder), expr.clone());
        Ok(expr)
    }
}

/// Bounds where there are none, so that digits end.
fn finite(min: Option<i128>, max: Option<i128>) -> (i128, i128) {
    let (least, usual) = (i128::from(i64::MIN), 10_i128.pow(DIGITS) - 1);
    let beyond = |bound: i128| {
        let digits = u32::try_from(bound.unsigned_abs().to_string().len()).unwrap_or(37);
        10_i128.pow((digits + 1).min(38)) - 1
    };
    let low = min.unwrap_or_else(|| match max {
        Some(max) if max <= least / 10 => -beyond(max),
        _ => least,
    });
    let high = max.unwrap_or_else(|| match min {
        Some(min) if min >= usual / 10 => beyond(min),
        _ => usual,
    });
    (low, high)
}

/// The integers that are multiples of a decimal are the multiples of this.
fn whole_unit(unit: &Decimal) -> Option<i128> {
    let places = u32::try_from(unit.fraction().len()).ok()?;
    let mut scaled: i128 = 0;
    for digit in unit.whole().iter().chain(unit.fraction()) {
        scaled = scaled.checked_mul(10)?.checked_add(i128::from(*digit))?;
    }
    let power = 10_i128.checked_pow(places)?;
    if scaled == 0 { None } else { Some(scaled / greatest_common_divisor(scaled, power)) }
}

fn greatest_common_divisor(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

fn least_common_multiple(a: i128, b: i128) -> Option<i128> {
    (a / greatest_common_divisor(a, b)).checked_mul(b).filter(|common| *common < 10_i128.pow(30))
}

fn digits_of(value: i128) -> Vec<u8> {
    value.unsigned_abs().to_string().bytes().map(|byte| byte - b'0').collect()
}

/// The integers from `low` to `high`; none if that is empty. Zero has no sign.
fn integers(low: i128, high: i128) -> Option<Expr> {
    let mut branches = Vec::new();
    if low <= 0 && high >= 0 {
        branches.push(Expr::literal("0"));
    }
    let positive = magnitudes(low.max(1), high);
    let negative = magnitudes((-high).max(1), -low);
    match (positive, negative) {
        (Some(positive), Some(negative)) if positive == negative => {
            branches.push(sequence([Expr::literal("-").optional(), positive]));
        }
        (positive, negative) => {
            branches.extend(positive);
            branches.extend(negative.map(|expr| sequence([Expr::literal("-"), expr])));
        }
    }
    choice(branches)
}

/// The integers from `low`, at least 1, to `high`.
fn magnitudes(low: i128, high: i128) -> Option<Expr> {
    if low > high {
        return None;
    }
    let (low, high) = (digits_of(low), digits_of(high));
    let full_low = low.first() == Some(&1) && low.iter().skip(1).all(|digit| *digit == 0);
    let full_high = high.iter().all(|digit| *digit == 9);
    if low.len() == high.len() && !(full_low && full_high) {
        return Some(between(&low, &high));
    }
    let first_full = low.len() + usize::from(!full_low);
    let last_full = high.len() - usize::from(!full_high);
    let mut branches = Vec::new();
    if !full_low {
        branches.push(between(&low, &vec![9; low.len()]));
    }
    if first_full <= last_full {
        let more = digits((first_full - 1) as u64, (last_full - 1) as u64);
        branches.push(sequence([Expr::class([('1', '9')]), more]));
    }
    if !full_high {
        let mut from = vec![0; high.len()];
        if let Some(first) = from.first_mut() {
            *first = 1;
        }
        branches.push(between(&from, &high));
    }
    Some(Expr::choice(branches))
}

fn digits(min: u64, max: u64) -> Expr {
    match (min, max) {
        (_, 0) => Expr::empty(),
        (1, 1) => Expr::class([('0', '9')]),
        _ => Expr::class([('0', '9')]).repeat(min, Some(max)),
    }
}

fn digit_class(low: u8, high: u8) -> Expr {
    let (low, high) = (char::from(b'0' + low), char::from(b'0' + high));
    if low == high { Expr::literal(low.to_string()) } else { Expr::class([(low, high)]) }
}

/// Numbers of as many digits as both bounds have.
fn between(low: &[u8], high: &[u8]) -> Expr {
    let (Some((a, low_rest)), Some((b, high_rest))) = (low.split_first(), high.split_first()) else {
        return Expr::empty();
    };
    let n = low_rest.len();
    if a == b {
        return sequence([digit_class(*a, *a), between(low_rest, high_rest)]);
    }
    let (zeros, nines) = (vec![0; n], vec![9; n]);
    let low_is_free = low_rest == zeros.as_slice();
    let high_is_free = high_rest == nines.as_slice();
    let mut branches = Vec::new();
    if !low_is_free {
        branches.push(sequence([digit_class(*a, *a), between(low_rest, &nines)]));
    }
    let (from, to) = (a + u8::from(!low_is_free), b.saturating_sub(u8::from(!high_is_free)));
    if from <= to {
        branches.push(sequence([digit_class(from, to), digits(n as u64, n as u64)]));
    }
    if !high_is_free {
        branches.push(sequence([digit_class(*b, *b), between(&zeros, high_rest)]));
    }
    Expr::choice(branches)
}

/// Decimals between two bounds, written without an exponent.
fn decimal(min: Option<&Bound>, max: Option<&Bound>, places: usize) -> Option<Expr> {
    let zero = Bound { value: Decimal::default(), exclusive: false };
    let mirrored = |bound: &Bound| Bound { value: bound.value.negated(), exclusive: bound.exclusive };
    let mut branches = Vec::new();
    if max.is_none_or(|max| max.value > zero.value || (max.value.is_zero() && !max.exclusive)) {
        let low = min.filter(|min| !min.value.is_negative()).unwrap_or(&zero);
        branches.extend(magnitude(low, max, places));
    }
    if min.is_none_or(|min| min.value.is_negative()) {
        let low = max.filter(|max| max.value.is_negative() || max.value.is_zero()).map(mirrored);
        let high = min.map(mirrored);
        let negative = magnitude(low.as_ref().unwrap_or(&zero), high.as_ref(), places);
        branches.extend(negative.map(|expr| sequence([Expr::literal("-"), expr])));
    }
    choice(branches)
}

/// Decimals from `low`, at least 0, to `high`.
fn magnitude(low: &Bound, high: Option<&Bound>, places: usize) -> Option<Expr> {
    if high.is_some_and(|high| {
        high.value < low.value || (high.value == low.value && (high.exclusive || low.exclusive))
    }) {
        return None;
    }
    let strict = |bound: &Bound| bound.exclusive && !bound.value.is_zero();
    let mut budget = places;
    if places == PLACES {
        let longest = low.value.fraction().len().max(high.map_or(0, |high| high.value.fraction().len()));
        if strict(low) || high.is_some_and(strict) {
            let whole = low.value.whole().len().max(high.map_or(0, |high| high.value.whole().len()));
            budget = EXACT.saturating_sub(whole).max(1);
        }
        budget = budget.max(longest + usize::from(strict(low)));
    }
    let (low_whole, low_part) = (low.value.floor(), low.value.fraction());
    let cap = finite(Some(low_whole), None).1;
    let any = || point(Some(digits(1, budget as u64)), true);
    let fits_above = Edge { digits: low_part, exclusive: low.exclusive };
    let (mut branches, mut from) = (Vec::new(), low_whole);
    let high_whole = high.map(|high| high.value.floor());
    if let (Some(high), true) = (high, high_whole == Some(low_whole)) {
        let fits_below = Edge { digits: high.value.fraction(), exclusive: high.exclusive };
        let rest = places_between(Some(fits_above), Some(fits_below), budget);
        let bare = fits_above.ends_here_from_below() && fits_below.ends_here_from_above();
        return rest_of(low_whole, rest, bare);
    }
    if !low_part.is_empty() || low.exclusive {
        let rest = places_between(Some(fits_above), None, budget);
        branches.extend(rest_of(low_whole, rest, fits_above.ends_here_from_below()));
        from += 1;
    }
    let to = high_whole.map_or(cap, |whole| whole - 1);
    if let Some(whole) = integers(from, to) {
        branches.push(sequence([whole, any()?]));
    }
    if let (Some(high), Some(whole)) = (high, high_whole) {
        let fits_below = Edge { digits: high.value.fraction(), exclusive: high.exclusive };
        let rest = places_between(None, Some(fits_below), budget);
        branches.extend(rest_of(whole, rest, fits_below.ends_here_from_above()));
    }
    choice(branches)
}

/// A whole part and what may follow it.
fn rest_of(whole: i128, places: Option<Expr>, bare: bool) -> Option<Expr> {
    Some(sequence([Expr::literal(whole.to_string()), point(places, bare)?]))
}

/// A point and digits; `bare` allows neither.
fn point(places: Option<Expr>, bare: bool) -> Option<Expr> {
    let with = places.map(|places| sequence([Expr::literal("."), places]));
    match (with, bare) {
        (Some(with), true) => Some(with.optional()),
        (Some(with), false) => Some(with),
        (None, true) => Some(Expr::empty()),
        (None, false) => None,
    }
}

/// Digits of a bound that are still to be compared.
#[derive(Clone, Copy)]
struct Edge<'a> {
    digits: &'a [u8],
    exclusive: bool,
}

impl<'a> Edge<'a> {
    /// Whether a number that ends here, compared from above with this lower bound, satisfies it.
    fn ends_here_from_below(self) -> bool {
        self.digits.is_empty() && !self.exclusive
    }

    /// The same for an upper bound.
    fn ends_here_from_above(self) -> bool {
        !self.digits.is_empty() || !self.exclusive
    }

    fn first(self) -> u8 {
        self.digits.first().copied().unwrap_or(0)
    }

    fn after(self) -> Self {
        Self { digits: self.digits.get(1..).unwrap_or_default(), ..self }
    }
}

/// One to `budget` digits after the point that stay within the bounds; `None` for a bound already cleared.
fn places_between(low: Option<Edge<'_>>, high: Option<Edge<'_>>, budget: usize) -> Option<Expr> {
    if budget == 0 {
        return None;
    }
    if low.is_none() && high.is_none() {
        return Some(digits(1, budget as u64));
    }
    if let (None, Some(Edge { digits: [], exclusive: false })) = (low, high) {
        return Some(Expr::literal("0").repeat(1, Some(budget as u64)));
    }
    let bottom = low.map_or(0, Edge::first);
    let top = high.map_or(9, Edge::first);
    let mut branches = Vec::new();
    let mut digit = bottom;
    while digit <= top {
        let next_low = low.filter(|_| digit == bottom).map(Edge::after);
        let next_high = high.filter(|_| digit == top).map(Edge::after);
        // Digits strictly between leave nothing to compare, so they are one class.
        let last = if next_low.is_none() && next_high.is_none() && high.is_some() && top > digit {
            top - 1
        } else if next_low.is_none() && next_high.is_none() {
            top
        } else {
            digit
        };
        let more = places_between(next_low, next_high, budget - 1);
        let may_end = next_low.is_none_or(Edge::ends_here_from_below)
            && next_high.is_none_or(Edge::ends_here_from_above);
        let rest = match (more, may_end) {
            (Some(more), true) => Some(optional(more)),
            (Some(more), false) => Some(more),
            (None, true) => Some(Expr::empty()),
            (None, false) => None,
        };
        branches.extend(rest.map(|rest| sequence([digit_class(digit, last), rest])));
        digit = last + 1;
    }
    choice(branches)
}

/// The expression or nothing, as a counter where it is one.
fn optional(expr: Expr) -> Expr {
    match expr {
        Expr::Repeat { item, min: 1, max } => Expr::Repeat { item, min: 0, max },
        Expr::Class(class) => Expr::Class(class).repeat(0, Some(1)),
        other => other.optional(),
    }
}
