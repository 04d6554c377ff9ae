//! Exact decimal numbers, as JSON writes them: bounds are compared digit by digit, never as floats.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// A decimal number without rounding. Zero has no digits and is not negative.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Decimal {
    negative: bool,
    /// Digits before the point, most significant first, no leading zeros.
    integer: Vec<u8>,
    /// Digits after the point, no trailing zeros.
    fraction: Vec<u8>,
}

impl Decimal {
    /// The value of a JSON number.
    pub(crate) fn of(number: &Number) -> Self {
        Self::read(&number.to_string()).unwrap_or_default()
    }

    /// The value of a whole number.
    pub(crate) fn integer(value: i128) -> Self {
        Self::read(&value.to_string()).unwrap_or_default()
    }

    /// Reads `-?digits(.digits)?([eE][+-]?digits)?`; none for another form or an exponent beyond ±5,000.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        if exponent.unsigned_abs() > 5_000 {
            return None;
        }
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut integer: Vec<u8> = digits(whole)?;
        let mut fraction: Vec<u8> = digits(part)?;
        let shift = exponent.unsigned_abs() as usize;
        if exponent >= 0 {
            let length = integer.len() + shift;
            integer.extend(fraction.drain(..shift.min(fraction.len())));
            integer.resize(length, 0);
        } else {
            let moved = integer.split_off(integer.len().saturating_sub(shift));
            let zeros = std::iter::repeat_n(0, shift - moved.len());
            fraction = zeros.chain(moved).chain(fraction).collect();
        }
        let leading = integer.iter().take_while(|digit| **digit == 0).count();
        integer.drain(..leading);
        while fraction.last() == Some(&0) {
            fraction.pop();
        }
        let negative = negative && !(integer.is_empty() && fraction.is_empty());
        Some(Self { negative, integer, fraction })
    }

    pub(crate) fn is_integral(&self) -> bool {
        self.fraction.is_empty()
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.integer.is_empty() && self.fraction.is_empty()
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.negative
    }

    /// Digits before the point, without leading zeros.
    pub(crate) fn whole(&self) -> &[u8] {
        &self.integer
    }

    /// Digits after the point, without trailing zeros.
    pub(crate) fn fraction(&self) -> &[u8] {
        &self.fraction
    }

    /// The same with the other sign.
    pub(crate) fn negated(&self) -> Self {
        Self { negative: !self.negative && !self.is_zero(), ..self.clone() }
    }

    /// The greatest whole number not above it, kept within ±10^37.
    pub(crate) fn floor(&self) -> i128 {
        let truncated = self.truncated();
        if self.negative && !self.is_integral() { truncated - 1 } else { truncated }
    }

    /// The least whole number not below it, kept within ±10^37.
    pub(crate) fn ceil(&self) -> i128 {
        let truncated = self.truncated();
        if !self.negative && !self.is_integral() { truncated + 1 } else { truncated }
    }

    fn truncated(&self) -> i128 {
        const BOUND: i128 = 10_i128.pow(37);
        let magnitude = if self.integer.len() > 37 {
            BOUND
        } else {
            self.integer.iter().fold(0_i128, |sum, digit| sum * 10 + i128::from(*digit))
        };
        if self.negative { -magnitude } else { magnitude }
    }

    /// Whether it is a whole multiple of `unit`; none if the digits are too many to tell.
    pub(crate) fn is_multiple_of(&self, unit: &Self) -> Option<bool> {
        let places = self.fraction.len().max(unit.fraction.len());
        let (value, unit) = (self.scaled(places)?, unit.scaled(places)?);
        if unit == 0 { None } else { Some(value % unit == 0) }
    }

    fn scaled(&self, places: usize) -> Option<u128> {
        let padding = places.checked_sub(self.fraction.len())?;
        let all = self.integer.iter().chain(&self.fraction).copied().chain(std::iter::repeat_n(0, padding));
        all.into_iter().try_fold(0_u128, |sum, digit| sum.checked_mul(10)?.checked_add(u128::from(digit)))
    }
}

fn digits(text: &str) -> Option<Vec<u8>> {
    text.bytes().map(|byte| byte.is_ascii_digit().then(|| byte - b'0')).collect()
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let magnitude = || {
            (self.integer.len().cmp(&other.integer.len()))
                .then_with(|| self.integer.cmp(&other.integer))
                .then_with(|| self.fraction.cmp(&other.fraction))
        };
        match (self.negative, other.negative) {
            (false, false) => magnitude(),
            (true, true) => magnitude().reverse(),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

/// Whether two JSON values are equal as JSON Schema counts it: `1` and `1.0` are, key order does not matter.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        // What is held alike is equal if it is the same; a float and an integer are compared by their digits.
        (Value::Number(a), Value::Number(b)) => {
            a == b || (a.is_f64() != b.is_f64() && Decimal::of(a) == Decimal::of(b))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn numbers_compare_by_their_digits() {
        let ascending = [
            "-1e3", "-10.5", "-10.49", "-1", "-0.5", "0", "1e-7", "0.1", "0.10001", "1", "9", "10", "1e2",
            "101",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(Decimal::read(a).unwrap().cmp(&Decimal::read(b).unwrap()), i.cmp(&j), "{a} {b}");
            }
        }
        assert_eq!(Decimal::read("-0.0"), Decimal::read("0e9"));
        assert_eq!(Decimal::read("1x"), None);
    }

    #[test]
    fn rounding_goes_down_and_up_on_both_sides_of_zero() {
        for (text, floor, ceil) in
            [("1.5", 1, 2), ("-1.5", -2, -1), ("3", 3, 3), ("-3", -3, -3), ("0.1", 0, 1)]
        {
            let value = Decimal::read(text).unwrap();
            assert_eq!((value.floor(), value.ceil()), (floor, ceil), "{text}");
        }
    }

    #[test]
    fn multiples_are_exact_where_floats_are_not() {
        let unit = Decimal::read("0.01").unwrap();
        assert_eq!(Decimal::read("0.07").unwrap().is_multiple_of(&unit), Some(true));
        assert_eq!(Decimal::read("0.075").unwrap().is_multiple_of(&unit), Some(false));
        assert_eq!(Decimal::read("-1e2").unwrap().is_multiple_of(&Decimal::read("25").unwrap()), Some(true));
    }
}
