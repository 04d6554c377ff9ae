//! Whole numbers between bounds as digits, and what floats make of such bounds. Below `number` and `decimals`.
//!
//! Invariant: a number has one spelling, without zeros in front.

use serde_json::Number;

use crate::Expr;
use crate::schema::{Bound, Decimal};

use super::{choice, sequence};

/// Digits of an integer that no bound ends.
pub(super) const DIGITS: usize = 64;

/// The least integer that a lower bound allows.
pub(super) fn least(bound: &Bound) -> i128 {
    if bound.exclusive { after(bound.value.floor()) } else { bound.value.ceil() }
}

/// The greatest integer that an upper bound allows.
pub(super) fn most(bound: &Bound) -> i128 {
    if bound.exclusive { before(bound.value.ceil()) } else { bound.value.floor() }
}

/// The integer after one. Beyond 64 bits, where integers are read as floats, that is the next one read as another.
pub(super) fn after(value: i128) -> i128 {
    if in_64_bits(value) { value + 1 } else { float_above(value, true).ceil() }
}

/// The integer before one.
pub(super) fn before(value: i128) -> i128 {
    if in_64_bits(value) { value - 1 } else { float_below(value, true).floor() }
}

fn in_64_bits(value: i128) -> bool {
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&value)
}

/// The least float from `value` on, or past it.
pub(super) fn float_above(value: i128, past: bool) -> Decimal {
    float_below(-value, past).negated()
}

/// The greatest float up to `value`, or before it; a float that is spelled as `value` is it.
pub(super) fn float_below(value: i128, before: bool) -> Decimal {
    let decimal = |float| Number::from_f64(float).map(|number| Decimal::of(&number)).unwrap_or_default();
    let float = value as f64;
    let same = is_float(value);
    let beyond = if same { before } else { float as i128 > value };
    decimal(if beyond { float.next_down() } else { float })
}

/// Whether a float stands for an integer, exactly or as it is spelled.
pub(super) fn is_float(value: i128) -> bool {
    let float = value as f64;
    let spelled = || Number::from_f64(float).map(|number| Decimal::of(&number));
    float as i128 == value || spelled() == Some(Decimal::integer(value))
}

pub(super) fn digits_of(value: i128) -> Vec<u8> {
    value.unsigned_abs().to_string().bytes().map(|byte| byte - b'0').collect()
}

/// The integers from `low` to `high`, of at most [`DIGITS`] where there is no bound; none if that is empty. Zero has
/// no sign.
pub(super) fn integers(low: Option<i128>, high: Option<i128>) -> Option<Expr> {
    let (up, down) = (high.is_none_or(|high| high > 0), low.is_none_or(|low| low < 0));
    let mut branches = Vec::new();
    if low.is_none_or(|low| low <= 0) && high.is_none_or(|high| high >= 0) {
        branches.push(Expr::literal("0"));
    }
    let positive = if up { magnitudes(low.unwrap_or(1).max(1), high) } else { None };
    let negative =
        if down { magnitudes(high.map_or(1, |high| (-high).max(1)), low.map(|low| -low)) } else { None };
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
fn magnitudes(low: i128, high: Option<i128>) -> Option<Expr> {
    if high.is_some_and(|high| low > high) {
        return None;
    }
    let (low, high) = (digits_of(low), high.map_or_else(|| vec![9; DIGITS], digits_of));
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

pub(super) fn digits(min: u64, max: u64) -> Expr {
    match (min, max) {
        (_, 0) => Expr::empty(),
        (1, 1) => Expr::class([('0', '9')]),
        _ => Expr::class([('0', '9')]).repeat(min, Some(max)),
    }
}

pub(super) fn digit_class(low: u8, high: u8) -> Expr {
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
