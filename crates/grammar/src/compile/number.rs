//! Numbers: bounds and multiples read off the digits, without floats.
//!
//! Invariant: every number is of bounded length, so that a model cannot run on in digits, and none is so close to
//! an excluded bound that reading it as a float would land on the bound. See `decimals` for numbers with fractions.

use serde_json::Value;

use crate::schema::{Bound, Decimal, Leaf, NumberShape, Types};
use crate::{Error, Expr};

use super::decimals::{Decimals, PLACES};
use super::integers::{after, before, digits_of, integers, least, most};
use super::{Compiler, choice, longer, sequence};

/// Digits of a multiple that no bound ends, all of which 64 bits hold.
const MULTIPLE_DIGITS: u32 = 19;
/// Multiples up to which they are listed one by one.
const LISTED: i128 = 64;
/// Why multiples beyond 64 bits are let go.
const VAST_MULTIPLES: &str = "multiples of more than 64 bits are not told by their digits";
/// Bounds beyond this are outside of what a float holds, or of what the grammar of numbers writes.
const VAST: &str = "1e307";
/// What a digit of a multiple costs, in steps.
const DIGIT: u64 = 2;
/// What a number costs, in steps: a few expressions, and comparisons of digits.
const NUMBER: u64 = 32;
/// Bounds up to this are told by their digits.
const BOUND: i128 = 10_i128.pow(37);

impl Compiler<'_, '_> {
    /// A number; `None` if none satisfies.
    pub(super) fn number(&mut self, leaf: &Leaf, name: &str) -> Result<Option<Expr>, Error> {
        self.spend(NUMBER)?;
        let mut shape = self.arena.number(leaf);
        self.reachable(leaf, &mut shape);
        let units_are_whole = shape.multiple_of.iter().any(|(unit, _)| unit.is_integral());
        if !leaf.types.has(Types::FRACTION) || (units_are_whole && leaf.types.has(Types::INTEGER)) {
            return self.integer(leaf, &shape, name);
        }
        if leaf.excludes_any(Types::NUMBER) {
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
        let most = if shape.single { Some(i128::from(u64::MAX)) } else { None };
        Ok(Decimals { compiler: self, places, most }.between(min.as_ref(), max.as_ref()))
    }

    /// Moves bounds whose digits are too many to where they are told, and lists them as checked.
    fn reachable(&mut self, leaf: &Leaf, shape: &mut NumberShape) {
        let bound = Decimal::integer(BOUND);
        let (far, low) = (bound.clone(), bound.negated());
        let high_min = shape.min.as_ref().is_some_and(|min| min.value > bound);
        let low_max = shape.max.as_ref().is_some_and(|max| max.value < low);
        if high_min {
            shape.min = Some(Bound { value: far, exclusive: false });
        }
        if low_max {
            shape.max = Some(Bound { value: low, exclusive: false });
        }
        if high_min || low_max {
            self.weaken_bounds(leaf, "bounds of more than 37 digits are not told by digits");
        }
    }

    /// Numbers that are not whole: what `number` without `integer` leaves.
    fn fraction_only(&mut self, leaf: &Leaf, shape: &NumberShape) -> Option<Expr> {
        if shape.min.is_some() || shape.max.is_some() {
            self.weaken_bounds(leaf, "bounds of numbers that must not be whole are not told by digits");
        }
        let digit = || Expr::class([('0', '9')]);
        let first = || Expr::class([('1', '9')]);
        // Few enough digits that the fraction survives as a float.
        let fraction = |places| sequence([Expr::literal("."), digit().repeat(0, Some(places)), first()]);
        let magnitude = Expr::choice([
            sequence([Expr::literal("0"), fraction(14)]),
            sequence([first(), digit().repeat(0, Some(4)), fraction(9)]),
            sequence([first(), digit().repeat(5, Some(8)), fraction(5)]),
        ]);
        Some(sequence([Expr::literal("-").optional(), magnitude]))
    }

    fn weaken_bounds(&mut self, leaf: &Leaf, reason: &'static str) {
        let parts = leaf.own.iter().filter_map(|id| self.arena.part(*id));
        let mut pointers = Vec::new();
        for part in parts {
            let mut add = |keyword: &str| pointers.push(format!("{}/{keyword}", part.pointer));
            for bound in &part.number.min {
                add(if bound.exclusive { "exclusiveMinimum" } else { "minimum" });
            }
            for bound in &part.number.max {
                add(if bound.exclusive { "exclusiveMaximum" } else { "maximum" });
            }
        }
        for pointer in pointers {
            self.weaken(pointer, reason);
        }
    }

    fn integer(&mut self, leaf: &Leaf, shape: &NumberShape, name: &str) -> Result<Option<Expr>, Error> {
        let (min, max) = (shape.min.as_ref().map(least), shape.max.as_ref().map(most));
        let mut excluded: Vec<i128> = Vec::new();
        for values in &leaf.not_values {
            self.spend(4 * values.size)?;
            for value in values.iter() {
                if let (Value::Number(number), true) = (value, Types::INTEGER.has(Types::of(value))) {
                    excluded.push(Decimal::of(number).floor());
                }
            }
        }
        let mut unit: i128 = 1;
        for (value, pointer) in &shape.multiple_of {
            self.spend(4)?;
            match whole_unit(value).and_then(|whole| least_common_multiple(unit, whole)) {
                Some(common) => unit = common,
                None => self.weaken(format!("{pointer}/multipleOf"), "its digits are too many"),
            }
        }
        if min.is_none() && max.is_none() && excluded.is_empty() && unit == 1 {
            return Ok(Some(self.json.integer(self.builder)));
        }
        excluded.sort_unstable();
        excluded.dedup();
        let outside = |hole: &i128| min.is_some_and(|min| *hole < min) || max.is_some_and(|max| *hole > max);
        excluded.retain(|hole| !outside(hole));
        let mut branches = Vec::new();
        let mut from = min;
        // Why multiples are let go, once however many holes there are.
        let mut untold = None;
        for hole in excluded {
            branches.extend(self.multiples(from, Some(before(hole)), unit, &mut untold, name)?);
            from = Some(after(hole));
        }
        branches.extend(self.multiples(from, max, unit, &mut untold, name)?);
        if let Some(reason) = untold {
            for (_, pointer) in &shape.multiple_of {
                self.weaken(format!("{pointer}/multipleOf"), reason);
            }
        }
        Ok(choice(branches))
    }

    /// Multiples of `unit` from `low` to `high`.
    fn multiples(
        &mut self,
        low: Option<i128>,
        high: Option<i128>,
        unit: i128,
        untold: &mut Option<&'static str>,
        name: &str,
    ) -> Result<Option<Expr>, Error> {
        self.spend(NUMBER)?;
        if low.zip(high).is_some_and(|(low, high)| low > high) {
            return Ok(None);
        }
        if unit == 1 {
            return Ok(integers(low, high));
        }
        // What 64 bits do not hold is read as a float, which is no multiple of what its digits were.
        let (least, most) = (i128::from(i64::MIN), i128::from(u64::MAX));
        if low.is_some_and(|low| low > most) || high.is_some_and(|high| high < least) {
            untold.get_or_insert(VAST_MULTIPLES);
            return Ok(integers(low, high));
        }
        let (from, to) = (low, high);
        let unbounded = low.is_none_or(|low| low < least) || high.is_none_or(|high| high > most);
        let low = low.unwrap_or(least).max(least);
        let high = high.unwrap_or(10_i128.pow(MULTIPLE_DIGITS) - 1).min(most);
        // Counted in units, the bounds are those of any integer.
        let (first, last) =
            (low.div_euclid(unit) + i128::from(low.rem_euclid(unit) != 0), high.div_euclid(unit));
        if first > last {
            return if unbounded {
                untold.get_or_insert(VAST_MULTIPLES);
                Ok(integers(from, to))
            } else {
                Ok(None)
            };
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
        let states = usize::try_from(core.saturating_mul(i128::from(MULTIPLE_DIGITS))).unwrap_or(usize::MAX);
        let states = if known { 0 } else { states };
        if core > 1 && states > self.states {
            untold.get_or_insert("its automaton has too many states");
            return Ok(integers(Some(low), Some(high)));
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
            return Ok(integers(Some(low), Some(high)));
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
        compiler.spend(DIGIT)?;
        if length == 0 {
            return Ok((remainder == 0).then(Expr::empty));
        }
        // Digits that rule nothing out any more leave the rest free, so that it is shared.
        let low = low.filter(|digits| digits.iter().any(|digit| *digit != 0));
        let high = high.filter(|digits| digits.iter().any(|digit| *digit != 9));
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
        let label = longer(self.name, &format!("{length}-{remainder}"));
        let expr = expr.map(|expr| compiler.shared(&label, expr)).transpose()?;
        compiler.remainders.insert((self.unit, length, remainder), expr.clone());
        Ok(expr)
    }
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
    (a / greatest_common_divisor(a, b)).checked_mul(b).filter(|common| *common < 10_i128.pow(18))
}
