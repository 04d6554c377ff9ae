//! Decimals between two bounds, compared digit by digit. Used by `number`.
//!
//! Invariant: what is written is within the bounds both by its digits and as the float it is read as.

use crate::Expr;
use crate::schema::{Bound, Decimal};

use super::integers::{digit_class, digits, float_above, float_below, integers, is_float, least, most};
use super::{Compiler, choice, sequence};

/// Digits after the point: all that the shortest spelling of a float takes before it turns to an exponent.
pub(super) const PLACES: usize = 24;
/// What telling numbers by a digit of a bound costs, in steps.
const DIGIT: u64 = 8;
/// Digits that a float always keeps apart.
const EXACT: usize = 15;
/// What is below this, and above zero, may be written with an exponent.
const TINY: &str = "1e-7";

/// How decimals are written.
pub(super) struct Decimals<'c, 'a, 's> {
    pub(super) compiler: &'c mut Compiler<'a, 's>,
    /// Digits after the point, at most.
    pub(super) places: usize,
    /// The greatest whole part where no bound says less. Without it, exponents go on where digits end.
    pub(super) most: Option<i128>,
}

impl Decimals<'_, '_, '_> {
    /// The decimals between two bounds; `None` if there are none.
    pub(super) fn between(&mut self, min: Option<&Bound>, max: Option<&Bound>) -> Option<Expr> {
        let zero = Bound { value: Decimal::default(), exclusive: false };
        let mirrored = |bound: &Bound| Bound { value: bound.value.negated(), exclusive: bound.exclusive };
        let mut branches = Vec::new();
        if max.is_none_or(|max| max.value > zero.value || (max.value.is_zero() && !max.exclusive)) {
            let low = min.filter(|min| !min.value.is_negative()).unwrap_or(&zero);
            branches.extend(self.magnitude(low, max));
        }
        if min.is_none_or(|min| min.value.is_negative()) {
            let low = max.filter(|max| max.value.is_negative() || max.value.is_zero()).map(mirrored);
            let high = min.map(mirrored);
            let negative = self.magnitude(low.as_ref().unwrap_or(&zero), high.as_ref());
            branches.extend(negative.map(|expr| sequence([Expr::literal("-"), expr])));
        }
        choice(branches)
    }

    /// Decimals from `low`, at least 0, to `high`.
    fn magnitude(&mut self, low: &Bound, high: Option<&Bound>) -> Option<Expr> {
        // Between bounds that a step moves far, whole numbers are still told exactly.
        let whole = if far(low) || high.is_some_and(far) {
            integers(Some(least(low)), high.map(most).or(self.most))
        } else {
            None
        };
        let (low, high) = (&inward(low, true), high.map(|high| inward(high, false)));
        let high = high.as_ref();
        if high.is_some_and(|high| {
            high.value < low.value || (high.value == low.value && (high.exclusive || low.exclusive))
        }) {
            return whole;
        }
        let mut budget = self.places;
        // Every digit of a bound branches.
        let digits_of = |bound: &Bound| bound.value.whole().len() + bound.value.fraction().len();
        let digits_told = digits_of(low) + high.map_or(0, digits_of);
        self.compiler.arena.count(DIGIT * digits_told as u64);
        if self.places == PLACES {
            let longest = low.value.fraction().len().max(high.map_or(0, |high| high.value.fraction().len()));
            budget = budget.max(longest);
        }
        let (low_whole, low_part) = (low.value.floor(), low.value.fraction());
        let any = || point(Some(digits(1, budget as u64)), true);
        let fits_above = Edge { digits: low_part, exclusive: low.exclusive };
        let (mut branches, mut from) = (Vec::from_iter(whole), low_whole);
        let high_whole = high.map(|high| high.value.floor());
        if let (Some(high), true) = (high, high_whole == Some(low_whole)) {
            let fits_below = Edge { digits: high.value.fraction(), exclusive: high.exclusive };
            let rest = places_between(Some(fits_above), Some(fits_below), budget);
            let bare = fits_above.ends_here_from_below() && fits_below.ends_here_from_above();
            branches.extend(rest_of(low_whole, rest, bare));
        } else {
            if !low_part.is_empty() || low.exclusive {
                let rest = places_between(Some(fits_above), None, budget);
                branches.extend(rest_of(low_whole, rest, fits_above.ends_here_from_below()));
                from += 1;
            }
            let to = high_whole.map(|whole| whole - 1).or(self.most.map(|most| most.max(from)));
            if let Some(whole) = integers(Some(from), to).filter(|_| to.is_none_or(|to| from <= to)) {
                branches.push(sequence([whole, any()?]));
            }
            if let (Some(high), Some(whole)) = (high, high_whole) {
                let fits_below = Edge { digits: high.value.fraction(), exclusive: high.exclusive };
                let rest = places_between(None, Some(fits_below), budget);
                branches.extend(rest_of(whole, rest, fits_below.ends_here_from_above()));
            }
        }
        if self.places == PLACES && self.most.is_none() {
            let Compiler { json, builder, .. } = &mut *self.compiler;
            let tiny = Decimal::read(TINY).unwrap_or_default();
            if low.value.is_zero() && high.is_none_or(|high| high.value >= tiny) {
                branches.push(json.tiny(builder));
            }
            if high.is_none() {
                branches.push(json.vast(builder));
            }
        }
        choice(branches)
    }
}

/// Whether what is next to a bound, written with a fraction, would be read as a float beyond it.
fn far(bound: &Bound) -> bool {
    let floor = bound.value.floor();
    bound.value.whole().len() > EXACT && (bound.exclusive || !is_float(floor))
}

/// A bound that is included in place of one that is not, by a step that floats tell apart. Above or below zero every
/// digit counts, so that bound stays as it is.
fn inward(bound: &Bound, up: bool) -> Bound {
    let (whole, fraction) = (bound.value.whole().len(), bound.value.fraction());
    if !far(bound) && (!bound.exclusive || bound.value.is_zero()) {
        return bound.clone();
    }
    if whole > EXACT {
        let value = if up {
            float_above(bound.value.floor(), bound.exclusive)
        } else {
            float_below(bound.value.ceil(), bound.exclusive)
        };
        return Bound { value, exclusive: false };
    }
    let zeros = if whole == 0 { fraction.iter().take_while(|digit| **digit == 0).count() } else { 0 };
    let places = EXACT - whole + zeros;
    let kept = fraction.iter().copied().chain(std::iter::repeat(0)).take(places);
    let scaled = bound.value.whole().iter().copied().chain(kept);
    let scaled = scaled.fold(0_i128, |sum, digit| sum * 10 + i128::from(digit));
    let step = 1 + i128::from(up && fraction.len() > places);
    let moved = if up { scaled + step } else { scaled - step };
    let value = Decimal::read(&format!("{moved}e-{places}")).unwrap_or_default();
    Bound { value, exclusive: false }
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
    // They begin with different digits. Comparing them would go through all that is in them, at every digit.
    if branches.is_empty() { None } else { Some(Expr::choice(branches)) }
}

/// The expression or nothing, as a counter where it is one.
fn optional(expr: Expr) -> Expr {
    match expr {
        Expr::Repeat { item, min: 1, max } => Expr::Repeat { item, min: 0, max },
        Expr::Class(class) => Expr::Class(class).repeat(0, Some(1)),
        other => other.optional(),
    }
}
