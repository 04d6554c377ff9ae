//! The string formats the compiler knows, each as a pattern read off its RFC.
//!
//! Invariant: a format enforced here is matched exactly, or a strict part of it where the note says what is left out.

use std::sync::{Arc, LazyLock};

use rustc_hash::FxHashMap;

use super::pattern::Pattern;
use super::regex::Reader;
use super::support::{Class, KeywordRule};
use crate::work::Work;

/// A known format.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    pub(crate) name: &'static str,
    pub(crate) pattern: Arc<Pattern>,
    /// What the pattern leaves to be validated afterwards.
    pub(crate) checked: Option<&'static str>,
}

/// The format of that name.
pub(crate) fn format(name: &str) -> Option<&'static Format> {
    static FORMATS: LazyLock<FxHashMap<&'static str, Format>> = LazyLock::new(|| {
        let work = Work::unbounded();
        let reader = Reader::new(&work);
        sources()
            .into_iter()
            .filter_map(|(name, source, checked)| {
                let pattern = Pattern::parse(&source, &reader).ok()?;
                Some((name, Format { name, pattern: Arc::new(pattern), checked }))
            })
            .collect()
    });
    FORMATS.get(name)
}

/// Formats that validators know and no automaton of ours stands for.
pub(crate) const CHECKED: [&str; 6] =
    ["regex", "iri", "iri-reference", "idn-email", "idn-hostname", "uri-template"];

/// Formats that bound a number.
const NUMBERS: [&str; 11] =
    ["int8", "int16", "int32", "int64", "int", "uint8", "uint16", "uint32", "uint64", "uint", "float"];

/// What becomes of each `format` that is known; others are annotations.
///
/// ```
/// use toolgate_grammar::schema::{Class, format_rules};
/// let formats = format_rules();
/// assert!(formats.iter().any(|rule| rule.keyword == "date" && rule.class == Class::Enforced));
/// assert!(formats.iter().all(|rule| rule.keyword != "colour"));
/// ```
pub fn format_rules() -> Vec<KeywordRule> {
    let enforced = sources().into_iter().map(|(name, _, left)| match left {
        None => {
            let seconds = matches!(name, "time" | "date-time");
            let note = if seconds { "a leap second is written in UTC alone" } else { "" };
            KeywordRule { keyword: name, class: Class::Enforced, note }
        }
        Some(left) => KeywordRule { keyword: name, class: Class::Checked, note: left },
    });
    let numbers = NUMBERS.iter().map(|name| KeywordRule {
        keyword: name,
        class: Class::Enforced,
        note: if *name == "float" { "numbers that fit 32 bits" } else { "bounds of integers" },
    });
    let checked = CHECKED.iter().map(|name| KeywordRule {
        keyword: name,
        class: Class::Checked,
        note: "no automaton stands for this format",
    });
    enforced.chain(numbers).chain(checked).collect()
}

/// Integer formats that bound the value, as schemars and OpenAPI write them.
pub(crate) fn integer_range(name: &str) -> Option<(i128, i128)> {
    Some(match name {
        "int8" => (i128::from(i8::MIN), i128::from(i8::MAX)),
        "int16" => (i128::from(i16::MIN), i128::from(i16::MAX)),
        "int32" => (i128::from(i32::MIN), i128::from(i32::MAX)),
        "int64" | "int" => (i128::from(i64::MIN), i128::from(i64::MAX)),
        "uint8" => (0, i128::from(u8::MAX)),
        "uint16" => (0, i128::from(u16::MAX)),
        "uint32" => (0, i128::from(u32::MAX)),
        "uint64" | "uint" => (0, i128::from(u64::MAX)),
        _ => return None,
    })
}

fn sources() -> Vec<(&'static str, String, Option<&'static str>)> {
    // RFC 3339, 5.6, with the days of each month and leap years.
    let date = "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))\
                |(?:\\d{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)";
    // A leap second is the last of a day in UTC; with another offset it is left out.
    let time = "(?:(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d+)?(?:[Zz]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)\
                |23:59:60(?:\\.\\d+)?(?:[Zz]|[+-]00:00))";
    // RFC 3339, appendix A.
    let clock = "(?:T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S))";
    let duration = format!("P(?:\\d+W|{clock}|(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D){clock}?)");
    let octet = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
    let ipv4 = format!("(?:{octet}\\.{octet}\\.{octet}\\.{octet})");
    let ipv6 = ipv6(&ipv4);
    // RFC 1123; a label with "--" in its third place is an encoded one, whose decoding no automaton does.
    let label = "(?:[A-Za-z0-9](?:[A-Za-z0-9]|[A-Za-z0-9-][A-Za-z0-9]|[A-Za-z0-9-][A-Za-z0-9][A-Za-z0-9-]{0,59}[A-Za-z0-9]\
                 |[A-Za-z0-9-]-[A-Za-z0-9](?:[A-Za-z0-9-]{0,58}[A-Za-z0-9])?)?)";
    let hostname = format!("{label}(?:\\.{label})*");
    // RFC 5321, 4.1.2 and 4.1.3.
    let atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]";
    let quoted = "\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\"";
    let local = format!("(?:{atom}+(?:\\.{atom}+)*|{quoted})");
    let email = format!("{local}@(?:{hostname}|\\[{ipv4}\\]|\\[IPv6:{ipv6}\\])");
    let (uri, reference) = uris(&ipv6);
    let pointer = "(?:/(?:[^/~]|~[01])*)*";
    let total = "the total length of 253 is checked on the finished value";
    let anchored = |source: &str| format!("^(?:{source})$");
    vec![
        ("date", anchored(date), None),
        ("time", anchored(time), None),
        ("date-time", anchored(&format!("{date}[Tt]{time}")), None),
        ("duration", anchored(&duration), None),
        (
            "uuid",
            anchored("[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"),
            None,
        ),
        ("ipv4", anchored(&ipv4), None),
        ("ipv6", anchored(&ipv6), None),
        ("hostname", anchored(&hostname), Some(total)),
        (
            "email",
            anchored(&email),
            Some("the lengths of the local part and the domain are checked on the finished value"),
        ),
        ("uri", anchored(&uri), None),
        ("uri-reference", anchored(&reference), None),
        ("json-pointer", anchored(pointer), None),
        ("relative-json-pointer", anchored(&format!("(?:0|[1-9]\\d*)(?:#|{pointer})")), None),
    ]
}

/// RFC 4291, 2.2, as the ABNF of RFC 3986 lists its forms.
fn ipv6(ipv4: &str) -> String {
    let group = "[0-9A-Fa-f]{1,4}";
    let last = format!("(?:{group}:{group}|{ipv4})");
    let mut forms = vec![format!("(?:{group}:){{6}}{last}")];
    for before in 0..=7_u32 {
        let start = match before {
            0 => String::new(),
            1 => format!("(?:{group})?"),
            n => format!("(?:(?:{group}:){{0,{}}}{group})?", n - 1),
        };
        let after = match before {
            0..=4 if before < 4 => format!("(?:{group}:){{{}}}{last}", 5 - before),
            4 => format!("{group}:{last}"),
            5 => last.clone(),
            6 => group.to_owned(),
            _ => String::new(),
        };
        forms.push(format!("{start}::{after}"));
    }
    format!("(?:{})", forms.join("|"))
}

/// `URI` and `URI-reference` of RFC 3986, appendix A.
fn uris(ipv6: &str) -> (String, String) {
    // The dash comes first, so that it is no range whatever follows.
    let unreserved = "-A-Za-z0-9._~";
    let sub = "!$&'()*+,;=";
    let escaped = "%[0-9A-Fa-f]{2}";
    let pchar = format!("(?:[{unreserved}{sub}:@]|{escaped})");
    let no_colon = format!("(?:[{unreserved}{sub}@]|{escaped})");
    let user = format!("(?:(?:[{unreserved}{sub}:]|{escaped})*@)?");
    let name = format!("(?:[{unreserved}{sub}]|{escaped})*");
    let future = format!("[vV][0-9A-Fa-f]+\\.[{unreserved}{sub}:]+");
    // An IPv4 address is a registered name as well, so it needs no form of its own.
    let authority = format!("{user}(?:\\[(?:{ipv6}|{future})\\]|{name})(?::\\d*)?");
    let tail = format!("(?:/{pchar}*)*");
    let rooted = format!("/(?:{pchar}+{tail})?");
    let rootless = format!("{pchar}+{tail}");
    let relative = format!("{no_colon}+{tail}");
    let rest = format!("(?:\\?(?:{pchar}|[/?])*)?(?:#(?:{pchar}|[/?])*)?");
    let uri = format!("[A-Za-z][A-Za-z0-9+.-]*:(?://{authority}{tail}|{rooted}|{rootless}|){rest}");
    let reference = format!("(?:{uri}|(?://{authority}{tail}|{rooted}|{relative}|){rest})");
    (uri, reference)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;
    use crate::schema::nfa::Nfa;

    /// Both our pattern and an independent validator have to agree with the table.
    fn check(name: &str, valid: &[&str], invalid: &[&str]) {
        let nfa = Nfa::search(&format(name).unwrap().pattern.node, 100_000).unwrap();
        let schema = json!({"format": name});
        let other = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        for (texts, holds) in [(valid, true), (invalid, false)] {
            for text in texts {
                assert_eq!(nfa.is_match(text, u64::MAX).0, Some(holds), "{name} {text:?}");
                assert_eq!(other.is_valid(&json!(text)), holds, "the validator: {name} {text:?}");
            }
        }
    }

    #[test]
    fn every_format_has_a_pattern() {
        for (name, source, _) in sources() {
            assert!(Pattern::parse(&source, &Reader::unbounded()).is_ok(), "{name}: {source}");
        }
    }

    #[test]
    fn dates_know_their_months_and_leap_years() {
        check(
            "date",
            &["2024-02-29", "2000-02-29", "1999-12-31", "2023-04-30"],
            &[
                "2023-02-29",
                "1900-02-29",
                "2023-04-31",
                "2023-13-01",
                "2023-1-1",
                "2023-00-10",
                "2023-01-00",
                "23-01-01",
            ],
        );
        check(
            "time",
            &["00:00:00Z", "23:59:60Z", "12:30:15.123+05:30", "23:59:59-23:59"],
            &["24:00:00Z", "12:60:00Z", "12:00:61Z", "22:59:60Z", "12:00:00", "12:00:00.Z", "12:00:00+24:00"],
        );
        check(
            "date-time",
            &["2024-02-29T12:00:00Z", "2024-01-01t00:00:00z"],
            &["2024-02-30T12:00:00Z", "2024-01-01 00:00:00Z"],
        );
        check(
            "duration",
            &["P1Y2M3DT4H5M6S", "P4W", "PT1M", "P1D"],
            &["P", "P1YT", "PT", "P1Y2W", "P1Y3D", "1D", "PT1H3S"],
        );
    }

    #[test]
    fn addresses_follow_their_rfcs() {
        check("ipv4", &["0.0.0.0", "255.249.199.99"], &["256.0.0.1", "01.2.3.4", "1.2.3", "1.2.3.4.5"]);
        check(
            "ipv6",
            &[
                "::",
                "::1",
                "1::",
                "1:2:3:4:5:6:7:8",
                "1:2:3:4:5:6:1.2.3.4",
                "::ffff:1.2.3.4",
                "1:2:3:4:5:6:7::",
                "1::8",
                "1:2::7:8",
            ],
            &[
                "1",
                ":1",
                "1:2:3:4:5:6:7",
                "1:2:3:4:5:6:7:8:9",
                "1::2::3",
                "12345::",
                "::1.2.3.256",
                "1:2:3:4:5:6:7:1.2.3.4",
                "fe80::1%eth0",
            ],
        );
        check(
            "hostname",
            &["a", "example.com", "a-b.c-d.e", "0.1.2", "ab-c", "a--b", "a-b"],
            &["", "-a", "a-", "a..b", "a_b", ".a", "a."],
        );
        check(
            "email",
            &["a@b", "\"joe b\\\"@\"@b", "joe.bloggs@example.com", "o'x+y@[1.2.3.4]", "a@[IPv6:::1]"],
            &["a", "@b", "a@", ".a@b", "a.@b", "a..b@c", "a b@c"],
        );
        check(
            "uuid",
            &["2EB8AA08-aa98-11ea-b4aa-73b441d16380"],
            &["2eb8aa08-aa98-11ea-b4aa73b441d16380", "2eb8aa08"],
        );
    }

    #[test]
    fn uris_follow_rfc_3986() {
        let uris = [
            "http://a.b/c?d=e#f",
            "urn:x:y",
            "mailto:a@b.c",
            "http://[::1]:80/",
            "a:",
            "http://u:p@h:1/%41;x/?y/?#z/?",
            "file:///etc",
        ];
        check(
            "uri",
            &uris,
            &["//a/b", "/a", "a", "http://a b", "http://a/%4", "http://[1]/", "1a:b", "a:\u{e9}"],
        );
        check(
            "uri-reference",
            &["", "/a/b", "a/b:c", "?q", "#f", "//h/p", "a:b", "./a:b"],
            &["\\a", "a b", "%zz", "1a:b"],
        );
        check("json-pointer", &["", "/", "/a~0b~1c/0"], &["a", "/~", "/~2"]);
        check("relative-json-pointer", &["0", "12#", "1/a"], &["01", "", "a", "-1"]);
    }
}
