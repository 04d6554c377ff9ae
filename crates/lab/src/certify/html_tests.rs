//! Pages of reports: what every one holds, with all figures and with none.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::plots::{short, step};
use super::super::{Bin, DemonstrationsTried, Format, Kernels, Mark, Reasoning, ViewTried};
use super::super::{Feature, Width};
use super::*;

/// A report of nothing.
fn empty() -> Report {
    Report {
        model: String::new(),
        digest: String::new(),
        toolgate: String::new(),
        device: String::new(),
        quick: true,
        minutes: 0.0,
        format: Format { family: String::new(), source: "generic".to_owned(), why: String::new() },
        marks: Vec::new(),
        round_trips: RoundTrips { cases: 0, failed: Vec::new(), untried: BTreeMap::new() },
        reasoning: Reasoning { switches: Vec::new(), opens: String::new(), keeps: String::new() },
        decision: Decision {
            requests: 0,
            auc: None,
            right: f64::NAN,
            after: None,
            weights: Value::Null,
            features: Vec::new(),
            calibration: Vec::new(),
            changing: 0.5,
        },
        tools: Tools {
            accuracy: f64::NAN,
            asked: 0,
            demonstrations: String::new(),
            tried: Vec::new(),
            confusions: Vec::new(),
        },
        views: Views { answer: String::new(), tried: Vec::new() },
        refusals: f64::NAN,
        echoes: f64::NAN,
        parallel: None,
        speed: Speed { prefill: f64::NAN, decode: f64::NAN, widths: Vec::new() },
        kernels: Kernels { exact_len: 1, noise: None },
    }
}

fn filled() -> Report {
    let bin = |low: f64, n: usize, wanted: f64| Bin { low, high: low + 0.2, n, told: low + 0.1, wanted };
    let feature = |name: &str, area: Option<(f64, f64)>| {
        let area = area.map(|(area, within)| Area { area, within });
        Feature { name: name.to_owned(), area }
    };
    let width = |width: usize, ms: f64| Width { width, ms, same_bits: width < 4 };
    let confusion = |n: usize| Confusion { wanted: format!("tool_{n}"), chosen: "other".to_owned(), n };
    let shown = |name: &str, right: f64| DemonstrationsTried {
        name: name.to_owned(),
        requests: 53,
        right,
        likelihood: -0.4,
    };
    let view = |name: &str| ViewTried { name: name.to_owned(), answers: 40, told: 0.8, echoes: 0.05 };
    let mut report = Report {
        model: "small <script>alert('1')</script>".to_owned(),
        digest: "sha256:0123abcd".to_owned(),
        toolgate: "0.1.0".to_owned(),
        device: "CPU & more".to_owned(),
        quick: false,
        minutes: 12.4,
        refusals: 0.03,
        echoes: 0.125,
        parallel: Some(1),
        ..empty()
    };
    report.format =
        Format { family: "hermes".to_owned(), source: "learned".to_owned(), why: "<b>".to_owned() };
    let mark = |text: &str, token| Mark { text: text.to_owned(), token, trained: token.is_some() };
    report.marks = vec![mark("<tool_call>\n", Some(151_657)), mark("\u{202e}]", None)];
    report.round_trips = RoundTrips {
        cases: 40,
        failed: vec!["a \"quoted\" name".to_owned()],
        untried: [("no results in the template".to_owned(), 3)].into(),
    };
    report.reasoning.switches = vec!["enable_thinking".to_owned()];
    report.decision = Decision {
        requests: 746,
        auc: Some(Area { area: 0.871, within: 0.02 }),
        right: 0.81,
        after: Some(Area { area: 0.94, within: 0.05 }),
        weights: json!({"first": {"bias": 0.5, "note": "<i>"}}),
        features: vec![
            feature("free", Some((0.41, 0.05))),
            feature("none", None),
            feature("call", Some((0.9, 0.2))),
        ],
        calibration: vec![bin(0.0, 200, 0.02), bin(0.2, 0, 0.0), bin(0.4, 31, 0.6), bin(0.8, 9, f64::NAN)],
        changing: 0.4,
    };
    report.tools = Tools {
        accuracy: 0.92,
        asked: 300,
        demonstrations: "first".to_owned(),
        tried: vec![shown("none", 0.9), shown("calls", 0.92)],
        confusions: (1..=14).map(confusion).collect(),
    };
    report.views = Views { answer: "compact".to_owned(), tried: vec![view("compact"), view("full")] };
    let widths = [width(1, 30.0), width(8, 80.0), width(2, 33.0), width(7, 78.0), width(4, 0.0)];
    report.speed = Speed { prefill: 412.3, decode: 33.3, widths: widths.into() };
    report.kernels = Kernels { exact_len: 3, noise: Some(0.3) };
    report
}

/// What holds for the page of every report.
fn checked(report: &Report) -> String {
    let page = page(report);
    for tag in ["svg", "table", "details", "figure", "dl", "div", "text", "ul", "pre", "code", "main"] {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}: {page}");
    }
    let plots = page.matches("<svg").count();
    assert_eq!(page.matches("<title id=").count(), plots);
    assert_eq!(page.matches("The numbers").count(), plots);
    for heading in
        ["The form of calls", "Round trips", "Thoughts", "Call or answer", "Which tool", "Answers", "Speed"]
    {
        assert_eq!(page.matches(&format!("<h2>{heading}</h2>")).count(), 1, "{heading}");
    }
    for no in ["http", "<script", "NaN", "inf\"", "url(", "@import", " src=", "href"] {
        assert!(!page.contains(no), "{no}: {page}");
    }
    page
}

#[test]
fn what_html_reads_as_its_own_is_escaped() {
    assert_eq!(
        escaped("<a href=\"x\">'&amp;'</a>"),
        "&lt;a href=&quot;x&quot;&gt;&#39;&amp;amp;&#39;&lt;/a&gt;"
    );
    assert_eq!(escaped("größer\n\t∞"), "größer\n\t∞");
    assert_eq!(escaped("\u{0}\u{1b}[1m\u{202e}\r"), "\\u{0}\\u{1b}[1m\\u{202e}\\r");
    assert_eq!(code("\n<"), "<code>\\n&lt;</code>");
    assert_eq!(short(&"<".repeat(40)), format!("{}…", "&lt;".repeat(33)));
}

#[test]
fn a_page_has_what_the_report_has() {
    let page = checked(&filled());
    for part in [
        "small &lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;",
        "CPU &amp; more",
        "<code>&lt;tool_call&gt;\\n</code>",
        "\\u{202e}]",
        "a &quot;quoted&quot; name",
        "&quot;&lt;i&gt;&quot;",
        "in 87 of 100 pairs",
        "39 of 40 calls and results",
        "0.871 (95 % interval 0.851 to 0.891)",
        "It reads 412 tokens a second and writes 33.",
        "2 rarer ones are not shown.",
        "whole, 12 minutes",
        "none of its own",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(page.matches("<svg").count(), 3);
    assert!(page.contains("tool_3<") && !page.contains("tool_2<"), "{page}");
    assert!(page.find("tool_14<").unwrap() < page.find("tool_13<").unwrap());
    // Two dots of the calibration, and two widths with the bits of single tokens and two without, each with one that explains it.
    assert_eq!(page.matches("class=\"full\"").count(), 2 + 2 + 1);
    assert_eq!(page.matches("class=\"hollow\"").count(), 2 + 1);
}

#[test]
fn a_page_of_nothing_is_a_page() {
    let page = checked(&empty());
    assert_eq!(page.matches("<svg").count(), 0);
    assert!(page.contains("a quick one"), "{page}");
    let mut one = empty();
    one.speed.widths = vec![Width { width: 1, ms: 0.5, same_bits: true }];
    one.decision.features = vec![Feature { name: String::new(), area: None }];
    one.decision.calibration = vec![Bin { low: 0.0, high: 1.0, n: 1, told: 0.5, wanted: 7.0 }];
    assert_eq!(checked(&one).matches("<svg").count(), 3);
}

#[test]
fn steps_are_round_and_four_reach_the_top() {
    let steps = [33.3, 102.6, 400.0, 9000.0, 0.3].map(step);
    assert_eq!(steps.map(|step| format!("{step:.3}")), ["10.000", "50.000", "100.000", "5000.000", "0.100"]);
}
