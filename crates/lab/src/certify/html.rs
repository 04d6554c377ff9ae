//! The report of `toolgate certify` as one page of HTML. It runs no script and loads nothing.
//!
//! Invariant: what comes from the model or from a file goes through [`escaped`].

use super::plots::{calibration, features, widths};
use super::{Area, Confusion, Decision, Report, RoundTrips, Speed, Tools, Views};

/// Confusions that the page shows.
const MOST_CONFUSIONS: usize = 12;
const STYLE: &str = "\
:root{color-scheme:light dark;--page:#fcfcfb;--ink:#0b0b0b;--soft:#52514e;--line:#dedcd3;--mark:#2a78d6;--box:#f2f1ec}
@media(prefers-color-scheme:dark){:root{--page:#1a1a19;--ink:#fff;--soft:#c3c2b7;--line:#3a3a37;--mark:#3987e5;--box:#262624}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem 1rem 3rem;max-width:46rem;background:var(--page);color:var(--ink);font:1rem/1.5 system-ui,sans-serif;\
overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0 1rem}
h2{font-size:1.2rem;margin:2.5rem 0 .5rem;padding-top:1rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.5rem 0 .25rem}
p{margin:.5rem 0}
.sum{font-size:1.1rem}
.soft,dt,figcaption,summary,th{color:var(--soft)}
dl{margin:.75rem 0}
dl div{display:flex;flex-wrap:wrap;gap:0 1rem;padding:.3rem 0;border-bottom:1px solid var(--line)}
dt{flex:0 1 14rem}
dd{flex:1 1 12rem;margin:0}
code,pre{font:.9em/1.45 ui-monospace,monospace;background:var(--box);border-radius:3px;white-space:pre-wrap}
code{padding:.1em .3em}
pre{padding:.75rem;margin:.5rem 0}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;margin:.5rem 0}
th,td{padding:.3rem .6rem .3rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{font-weight:600;font-size:.9em}
.n{text-align:right;font-variant-numeric:tabular-nums}
ul{padding-left:1.2rem}
figure{margin:1rem 0}
figcaption{font-size:.9rem}
summary{cursor:pointer;padding:.4rem 0}
svg{display:block;width:100%;max-width:30rem;height:auto;font:12px system-ui,sans-serif}
svg text{fill:var(--soft)}
svg .name{fill:var(--ink)}
.grid{stroke:var(--line);stroke-width:1}
.even{stroke:var(--soft);stroke-width:1;stroke-dasharray:4 3}
.bar{fill:var(--mark)}
.full{fill:var(--mark);stroke:var(--page);stroke-width:1.5}
.hollow{fill:var(--page);stroke:var(--mark);stroke-width:2}
.curve{fill:none;stroke:var(--mark);stroke-width:2;stroke-linejoin:round}
.span{stroke:var(--ink);stroke-width:1.5}
";

/// The page.
pub(crate) fn page(report: &Report) -> String {
    let model = escaped(&report.model);
    let sections = [
        head(report),
        form(report),
        round_trips(&report.round_trips),
        reasoning(report),
        decision(&report.decision),
        tools(&report.tools, report.parallel),
        answers(&report.views, report.refusals, report.echoes),
        speed(report),
    ]
    .concat();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>toolgate certify: {model}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{sections}</main>\n\
         </body>\n</html>\n"
    )
}

/// A text as HTML shows it, between tags and within quotes. Control characters, and those that turn the direction of a line, show
/// as Rust writes them. Line breaks and tabs stay.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(letter),
            '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}' => {
                out.extend(letter.escape_unicode());
            }
            _ if letter.is_control() => out.extend(letter.escape_default()),
            _ => out.push(letter),
        }
    }
    out
}

/// A text in the letters of code, with its line breaks as `\n`.
fn code(text: &str) -> String {
    match text.is_empty() {
        true => "<span class=\"soft\">empty</span>".to_owned(),
        false => format!("<code>{}</code>", escaped(&text.replace('\n', "\\n").replace('\t', "\\t"))),
    }
}

/// A text, or a word for none.
pub(super) fn words(text: &str) -> String {
    if text.trim().is_empty() { "none".to_owned() } else { escaped(text) }
}

/// A number with so many digits behind the point; a dash for what is none.
pub(super) fn number(x: f64, digits: usize) -> String {
    // Adding 0 makes 0 of -0.
    if x.is_finite() { format!("{:.digits$}", x + 0.0) } else { "–".to_owned() }
}

/// A figure of speed: small ones with a digit behind the point.
pub(super) fn rate(x: f64) -> String {
    number(x, if x.abs() < 10.0 { 1 } else { 0 })
}

fn percent(share: f64) -> String {
    if share.is_finite() { format!("{} %", number(share * 100.0, 0)) } else { "–".to_owned() }
}

/// A share as words say it.
fn of_hundred(share: f64) -> String {
    format!("{} of 100", number(share * 100.0, 0))
}

fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// The ends of the interval of an area, cut to what an area can be.
pub(super) fn interval(area: f64, within: f64) -> (f64, f64) {
    ((area - within).max(0.0), (area + within).min(1.0))
}

fn facts(rows: &[(&str, String)]) -> String {
    let rows: String =
        rows.iter().map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>\n")).collect();
    format!("<dl>\n{rows}</dl>\n")
}

/// The head of a column.
#[derive(Clone, Copy)]
pub(super) enum Head {
    Text(&'static str),
    Number(&'static str),
}

/// A table. The cells are HTML.
pub(super) fn table(heads: &[Head], rows: &[Vec<String>]) -> String {
    let class = |head: &Head| if matches!(head, Head::Number(_)) { " class=\"n\"" } else { "" };
    let top: String = heads
        .iter()
        .map(|head| {
            let (Head::Text(name) | Head::Number(name)) = head;
            format!("<th scope=\"col\"{}>{name}</th>", class(head))
        })
        .collect();
    let row = |cells: &Vec<String>| -> String {
        let cells = heads.iter().zip(cells);
        let cells: String = cells.map(|(head, cell)| format!("<td{}>{cell}</td>", class(head))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let body: String = rows.iter().map(row).collect();
    format!(
        "<div class=\"wide\"><table>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n"
    )
}

/// A table, or this sentence where there is no row.
fn table_or(heads: &[Head], rows: &[Vec<String>], none: &str) -> String {
    if rows.is_empty() { format!("<p>{none}</p>\n") } else { table(heads, rows) }
}

/// What is long and seldom read.
pub(super) fn folded(name: &str, content: &str) -> String {
    format!("<details><summary>{name}</summary>\n{content}</details>\n")
}

fn list(items: &[String]) -> String {
    let items: String = items.iter().map(|item| format!("<li>{}</li>\n", code(item))).collect();
    format!("<ul>\n{items}</ul>\n")
}

fn head(report: &Report) -> String {
    let run = if report.quick { "quick" } else { "whole" };
    let facts = facts(&[
        ("Model", code(&report.model)),
        ("Digest", code(&report.digest)),
        ("toolgate", words(&report.toolgate)),
        ("Device", words(&report.device)),
        ("Run", format!("{run}, {} minutes", rate(report.minutes))),
    ]);
    format!(
        "<h1>What {} can do with tools</h1>\n<p class=\"sum\">{}</p>\n{facts}",
        escaped(&report.model),
        summary(report)
    )
}

/// The report in a few sentences.
fn summary(report: &Report) -> String {
    let family = escaped(&report.format.family);
    let mut said = vec![match report.format.source.as_str() {
        "known" => format!("The model writes calls in the form {family}, which toolgate knows."),
        "learned" => format!("The model writes calls in the form {family}, learned from its chat template."),
        "generic" => "No form of calls is known of the model. It gets the generic one.".to_owned(),
        _ => format!("The model writes calls in the form {family}."),
    }];
    let RoundTrips { cases, failed, .. } = &report.round_trips;
    if *cases > 0 {
        let kept = cases.saturating_sub(failed.len());
        said.push(match failed.is_empty() {
            true => format!("All of {cases} calls and results come back as they were written."),
            false => format!("{kept} of {cases} calls and results come back as they were written."),
        });
    }
    let Decision { requests, auc, right, .. } = &report.decision;
    if let Some(auc) = auc.as_ref().filter(|auc| auc.area.is_finite()) {
        let pairs = of_hundred(auc.area);
        said.push(format!("It tells a request that wants a call from one that wants none in {pairs} pairs."));
    }
    if *requests > 0 && right.is_finite() {
        said.push(format!("It decides {} requests right.", of_hundred(*right)));
    }
    if report.tools.asked > 0 && report.tools.accuracy.is_finite() {
        let right = of_hundred(report.tools.accuracy);
        said.push(format!("Where a call is wanted, it finds the right tool for {right} requests."));
    }
    let Speed { prefill, decode, .. } = &report.speed;
    if *prefill > 0.0 && *decode > 0.0 {
        let (reads, writes) = (rate(*prefill), rate(*decode));
        said.push(format!("It reads {reads} tokens a second and writes {writes}."));
    }
    if report.quick {
        said.push("The run was a quick one, and its figures are rough.".to_owned());
    }
    said.join(" ")
}

fn form(report: &Report) -> String {
    let format = &report.format;
    let facts = facts(&[
        ("Form", code(&format.family)),
        ("Known from", words(&format.source)),
        ("Why", words(&format.why)),
    ]);
    let rows: Vec<Vec<String>> = report
        .marks
        .iter()
        .map(|mark| {
            let token = mark.token.map_or("none of its own".to_owned(), |token| token.to_string());
            let trained = if mark.trained { "yes" } else { "no" };
            vec![code(&mark.text), token, trained.to_owned()]
        })
        .collect();
    let heads = [Head::Text("Mark"), Head::Number("Token"), Head::Text("Trained")];
    let marks = table_or(&heads, &rows, "The form has no marks.");
    format!("<h2>The form of calls</h2>\n{facts}<h3>Marks</h3>\n{marks}")
}

fn round_trips(trips: &RoundTrips) -> String {
    let RoundTrips { cases, failed, untried } = trips;
    let said = match (*cases, failed.len()) {
        (0, _) => "Nothing was tried.".to_owned(),
        (1, 0) => "The one case came back as it was written.".to_owned(),
        (cases, 0) => format!("All {cases} cases came back as they were written."),
        (cases, wrong) => {
            format!("Of {}, {wrong} did not come back as written:", counted(cases, "case", "cases"))
        }
    };
    let failed = if failed.is_empty() { String::new() } else { list(failed) };
    let rows: Vec<Vec<String>> = untried.iter().map(|(why, n)| vec![words(why), n.to_string()]).collect();
    let untried = match rows.is_empty() {
        true => String::new(),
        false => {
            let heads = [Head::Text("Not tried"), Head::Number("Cases")];
            format!("<h3>What was not tried</h3>\n{}", table(&heads, &rows))
        }
    };
    format!("<h2>Round trips</h2>\n<p>{said}</p>\n{failed}{untried}")
}

fn reasoning(report: &Report) -> String {
    let thoughts = &report.reasoning;
    let switches = match thoughts.switches.is_empty() {
        true => "none".to_owned(),
        false => thoughts.switches.iter().map(|switch| code(switch)).collect::<Vec<_>>().join(" "),
    };
    let facts = facts(&[
        ("Switches of the template", switches),
        ("What opens a thought", words(&thoughts.opens)),
        ("What is kept of thoughts", words(&thoughts.keeps)),
    ]);
    format!("<h2>Thoughts</h2>\n{facts}")
}

fn decision(decision: &Decision) -> String {
    let known = |area: Option<Area>| {
        area.map_or("not known".to_owned(), |Area { area, within }| {
            let (low, high) = interval(area, within);
            format!("{} (95 % interval {} to {})", number(area, 3), number(low, 3), number(high, 3))
        })
    };
    let facts = facts(&[
        ("Requests", decision.requests.to_string()),
        ("Area under the curve", known(decision.auc)),
        ("Decided right", percent(decision.right)),
        ("Area behind results", known(decision.after)),
        ("Threshold for changes", number(decision.changing, 2)),
    ]);
    let weights = match decision.weights.is_null() {
        true => String::new(),
        false => {
            let weights = escaped(&format!("{:#}", decision.weights));
            folded("The weights", &format!("<pre>{weights}</pre>\n"))
        }
    };
    format!(
        "<h2>Call or answer</h2>\n{facts}{weights}<h3>Whether its probabilities hold</h3>\n{}\
         <h3>What tells</h3>\n{}",
        calibration(decision),
        features(&decision.features)
    )
}

fn tools(tools: &Tools, parallel: Option<u32>) -> String {
    let facts = facts(&[
        ("Requests", tools.asked.to_string()),
        ("Right tool", percent(tools.accuracy)),
        ("Demonstrations", words(&tools.demonstrations)),
        ("Calls a turn, at most", parallel.map_or("no bound".to_owned(), |most| most.to_string())),
    ]);
    let rows: Vec<Vec<String>> = tools
        .tried
        .iter()
        .map(|kind| {
            let requests = kind.requests.to_string();
            vec![words(&kind.name), requests, percent(kind.right), number(kind.likelihood, 2)]
        })
        .collect();
    let heads = [
        Head::Text("In front"),
        Head::Number("Requests"),
        Head::Number("Right tool"),
        Head::Number("Mean log-likelihood of the right turn"),
    ];
    let tried = table_or(&heads, &rows, "None was tried.");
    let mut sorted: Vec<&Confusion> = tools.confusions.iter().collect();
    sorted.sort_by_key(|confusion| std::cmp::Reverse(confusion.n));
    let left_out = sorted.len().saturating_sub(MOST_CONFUSIONS);
    let rows: Vec<Vec<String>> = sorted
        .iter()
        .take(MOST_CONFUSIONS)
        .map(|confusion| vec![code(&confusion.wanted), code(&confusion.chosen), confusion.n.to_string()])
        .collect();
    let heads = [Head::Text("Wanted"), Head::Text("Chosen"), Head::Number("Times")];
    let confusions = table_or(&heads, &rows, "None.");
    let more = match left_out {
        0 => String::new(),
        n => format!("<p class=\"soft\">{} not shown.</p>\n", counted(n, "rarer one is", "rarer ones are")),
    };
    format!(
        "<h2>Which tool</h2>\n{facts}<h3>Demonstrations</h3>\n{tried}<h3>Confusions</h3>\n{confusions}{more}"
    )
}

fn answers(views: &Views, refusals: f64, echoes: f64) -> String {
    let facts = facts(&[
        ("What it sees when it answers", words(&views.answer)),
        ("Answers that refuse", percent(refusals)),
        ("Answers that repeat the request", percent(echoes)),
    ]);
    let rows: Vec<Vec<String>> = views
        .tried
        .iter()
        .map(|view| {
            vec![words(&view.name), view.answers.to_string(), percent(view.told), percent(view.echoes)]
        })
        .collect();
    let heads = [
        Head::Text("It sees"),
        Head::Number("Answers"),
        Head::Number("Tell the result"),
        Head::Number("Repeat the request"),
    ];
    let tried = table_or(&heads, &rows, "None was tried.");
    format!("<h2>Answers</h2>\n{facts}<h3>What was tried</h3>\n{tried}")
}

fn speed(report: &Report) -> String {
    let (speed, kernels) = (&report.speed, &report.kernels);
    let noise =
        kernels.noise.map_or("none: turns do without wider batches".to_owned(), |noise| number(noise, 2));
    let facts = facts(&[
        ("Reads", format!("{} tokens a second", rate(speed.prefill))),
        ("Writes", format!("{} tokens a second", rate(speed.decode))),
        (
            "Batches with the bits of single tokens",
            format!("up to {}", counted(kernels.exact_len, "token", "tokens")),
        ),
        ("What wider batches change of two logits", noise),
    ]);
    format!("<h2>Speed</h2>\n{facts}<h3>Batches</h3>\n{}", widths(&speed.widths))
}

#[cfg(test)]
#[path = "html_tests.rs"]
mod tests;
