//! Numbers: their bounds, their digits and their multiples.

use super::*;

#[test]
fn integers_keep_their_bounds_exactly() {
    for (low, high) in [(0, 255), (-17, 42), (10, 99), (-5, -1), (99, 1001), (7, 7), (-1000, 0), (101, 109)] {
        let result = compiled(&json!({"type": "integer", "minimum": low, "maximum": high}), &compact());
        let automaton =
            Automaton::new(&result.grammar, Arc::new(Vocabulary::bytes_only()), &Limits::default()).unwrap();
        for n in -1100..1200 {
            let mut matcher = automaton.matcher();
            let matches = matcher.accept_bytes(n.to_string().as_bytes()).is_ok() && matcher.is_complete();
            assert_eq!(matches, (low..=high).contains(&n), "{n} in {low}..={high}\n{}", result.grammar);
        }
    }
    check(
        json!({"type": "integer", "exclusiveMinimum": 5, "exclusiveMaximum": 7.5}),
        &["6", "7"],
        &["5", "8"],
    );
    check(json!({"type": "integer", "minimum": 0.5}), &["1", "99999"], &["0", "-1"]);
    check(
        json!({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer", "minimum": 3, "exclusiveMinimum": true}),
        &["4"],
        &["3"],
    );
    check(
        json!({"type": "integer", "minimum": -9_223_372_036_854_775_808_i64, "maximum": 9_223_372_036_854_775_807_i64}),
        &["-9223372036854775808", "9223372036854775807"],
        &["9.5"],
    );
    check_unwritten(json!({"type": "integer", "format": "uint8"}), &["256", "-1"]);
}

#[test]
fn numbers_beyond_64_bits_are_bounded_by_their_digits_and_as_floats() {
    let integer = json!({"type": "integer"});
    check(
        integer.clone(),
        &[
            "18446744073709551615",
            "-9223372036854775809",
            "12345678910111213141516171819202122232425262728293031",
        ],
        &["1.5", "\"1\""],
    );
    check_unwritten(integer, &[&"9".repeat(65), "1e3", "1.0", "-0"]);
    check(json!({"type": "integer", "minimum": 0}), &["18446744073709551615", "0"], &["-1"]);
    check(
        json!({"type": "integer", "maximum": u64::MAX}),
        &["18446744073709551615", "-100000000000000000000"],
        &["18446744073709551617"],
    );
    check(
        json!({"type": "integer", "exclusiveMinimum": 1e20}),
        &["100000000000000020000"],
        &["100000000000000000000"],
    );
    // Read as a float this is the excluded bound.
    check_unwritten(json!({"type": "integer", "exclusiveMinimum": 1e20}), &["100000000000000000001"]);
    check(
        json!({"type": "number", "maximum": u64::MAX}),
        &["18446744073709551615", "0.5"],
        &["18446744073709551615.0"],
    );
    check(
        json!({"type": "number", "exclusiveMinimum": 9_007_199_254_740_993_u64}),
        &["9007199254740994"],
        &["9007199254740993"],
    );
    check(
        json!({"enum": [u64::MAX, 1e300, 1e-300]}),
        &["18446744073709551615", "1e+300", "1e-300"],
        &["1", "1e+299"],
    );
    check(json!({"type": "number", "minimum": 1}), &["1e+100", "1.5e300", &"9".repeat(60)], &["0.5", "1e-9"]);
    check(json!({"type": "number", "maximum": -1}), &["-1e+100", "-7"], &["1e+100", "-0.5"]);
    check(
        json!({"type": "number", "minimum": 0, "maximum": 1}),
        &["0.0012345678901234567", "1.2345678901234567e-10", "5e-300"],
        &["1e+100", "-1e-9", "1.0000000001"],
    );
    check(
        json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
        &["0.12345678901234567", "1e-300", "0.99999999999999"],
        &["0", "1", "0.99999999999999999"],
    );
    check(
        json!({"type": "number", "not": {"type": "integer"}}),
        &["0.123456789", "-12345.5"],
        &["1", "2.0", "0.99999999999999999"],
    );
    check(
        json!({"type": "integer", "multipleOf": 3}),
        &["9999999999999999999", "-9223372036854775806"],
        &["9999999999999999998"],
    );
    let far = compiled(&json!({"type": "integer", "minimum": 1e60}), &compact());
    assert!(far.contract.checked().any(|entry| entry.pointer() == "/minimum"));
    let huge = compiled(&json!({"type": "integer", "multipleOf": 1e25}), &compact());
    assert!(huge.contract.checked().any(|entry| entry.pointer() == "/multipleOf"));
}

#[test]
fn multiples_are_told_by_their_digits() {
    for (unit, low, high) in
        [(7, -300, 5_000), (100, -1000, 9_999), (15, 16, 3_000), (2, -9, 700), (250, 0, 9_000)]
    {
        let schema = json!({"type": "integer", "multipleOf": unit, "minimum": low, "maximum": high});
        let result = compiled(&schema, &compact());
        let automaton =
            Automaton::new(&result.grammar, Arc::new(Vocabulary::bytes_only()), &Limits::default()).unwrap();
        for n in -1_100..10_000 {
            let mut matcher = automaton.matcher();
            let matches = matcher.accept_bytes(n.to_string().as_bytes()).is_ok() && matcher.is_complete();
            assert_eq!(
                matches,
                (low..=high).contains(&n) && n % unit == 0,
                "{n} of {schema}\n{}",
                result.grammar
            );
        }
    }
    check(json!({"type": "number", "multipleOf": 3}), &["0", "-3", "300000000000000000"], &["1", "4"]);
    check(json!({"type": "integer", "multipleOf": 2.5}), &["5", "-10", "0"], &["2", "7"]);
}

#[test]
fn decimals_keep_their_bounds_exactly() {
    check(
        json!({"type": "number", "minimum": -1.5, "maximum": 2.25}),
        &["-1.5", "-1.50", "-1.499", "-0.5", "0", "0.0", "2.25", "2.2499", "2.250", "1.999", "2", "-1"],
        &["-1.51", "2.251", "3", "-2", "2.3", "-1.6"],
    );
    check(
        json!({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
        &["0.1", "1", "1.000", "0.00001"],
        &["0", "0.0", "1.01", "-1"],
    );
    check(
        json!({"type": "number", "exclusiveMinimum": 0.5, "exclusiveMaximum": 0.625}),
        &["0.51", "0.6249", "0.500001"],
        &["0.5", "0.625", "0.50", "0.6250", "0.63"],
    );
    check(json!({"type": "number", "minimum": 0}), &["0", "1e9", "0.25"], &["-1", "-0.1"]);
    check(json!({"type": "number", "maximum": -3}), &["-3", "-3.5", "-400"], &["-2.9", "0", "3"]);
    check(
        json!({"type": "number", "minimum": 1e6}),
        &["1000000", "1000000.5", "123456789"],
        &["999999", "999999.9"],
    );
    check(
        json!({"type": "number", "minimum": -1.7976931348623157e308, "maximum": 1.7976931348623157e308}),
        &["1e200", "-5"],
        &["\"\""],
    );
    check_unwritten(json!({"type": "number", "exclusiveMaximum": 1}), &["0.99999999999999999"]);
}
