//! The plots of the page: inline SVG, each with its numbers in a table.

use super::html::{Head, escaped, folded, interval, number, rate, table, words};
use super::{Decision, Feature, Width};

/// Characters of a name that fit into a plot.
const MOST_LETTERS: usize = 34;

/// The width of every plot, in units of its own: about the pixels of a small phone, so that its text stays readable there.
const WIDE: f64 = 360.0;
/// The left end of the axes.
const LEFT: f64 = 54.0;
/// The right end of the axes.
const RIGHT: f64 = 344.0;
/// The upper end of the axes.
const TOP: f64 = 24.0;
/// The lower end of the axes.
const BOTTOM: f64 = 264.0;

/// Its beginning, where it is too long for a plot.
pub(super) fn short(name: &str) -> String {
    if name.chars().count() <= MOST_LETTERS {
        return escaped(name);
    }
    let start: String = name.chars().take(MOST_LETTERS.saturating_sub(1)).collect();
    format!("{}…", escaped(&start))
}

/// A plot, what it shows in words, and its numbers.
fn figure(id: &str, title: &str, height: f64, plot: &str, caption: &str, numbers: &str) -> String {
    let numbers = folded("The numbers", numbers);
    format!(
        "<figure>\n<svg viewBox=\"0 0 {WIDE} {height}\" role=\"img\" aria-labelledby=\"{id}\">\n<title id=\"{id}\">{title}</title>\n\
         {plot}</svg>\n<figcaption>{caption}</figcaption>\n{numbers}</figure>\n"
    )
}

/// A straight line of a plot.
fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> String {
    format!(
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>\n",
        from.0, from.1, to.0, to.1
    )
}

/// Words in a plot; `anchor` is `start`, `middle` or `end`. The words are HTML.
fn label(class: &str, anchor: &str, at: (f64, f64), words: &str) -> String {
    format!(
        "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{:.1}\" y=\"{:.1}\">{words}</text>\n",
        at.0, at.1
    )
}

fn dot(class: &str, at: (f64, f64), radius: f64) -> String {
    format!("<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius:.1}\"/>\n", at.0, at.1)
}

/// The name of the axis of heights, written upwards.
fn upwards(words: &str) -> String {
    let y = f64::midpoint(TOP, BOTTOM);
    format!("<text text-anchor=\"middle\" transform=\"translate(11 {y:.1}) rotate(-90)\">{words}</text>\n")
}

/// Where a share lies between two ends.
fn between(from: f64, to: f64, share: f64) -> f64 {
    from + (to - from) * share
}

/// How often a call was wanted, by the probability that was told of it.
pub(super) fn calibration(decision: &Decision) -> String {
    let seen = || decision.calibration.iter().filter(|bin| bin.n > 0);
    let most = seen().map(|bin| bin.n).max().unwrap_or(0);
    if most == 0 {
        return "<p>Nothing was measured.</p>\n".to_owned();
    }
    let at = |told: f64, wanted: f64| (between(LEFT, RIGHT, told), between(BOTTOM, TOP, wanted));
    let mut plot = String::new();
    for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let ((x, _), (_, y)) = (at(tick, 0.0), at(0.0, tick));
        plot += &line("grid", (x, TOP), (x, BOTTOM));
        plot += &line("grid", (LEFT, y), (RIGHT, y));
        let words = number(tick, if tick == 0.0 || tick == 1.0 { 0 } else { 2 });
        plot += &label("", "middle", (x, BOTTOM + 16.0), &words);
        plot += &label("", "end", (LEFT - 6.0, y + 4.0), &words);
    }
    plot += &line("even", at(0.0, 0.0), at(1.0, 1.0));
    // The largest are drawn first, so that none hides another.
    let mut dots: Vec<_> = seen().filter(|bin| bin.told.is_finite() && bin.wanted.is_finite()).collect();
    dots.sort_by_key(|bin| std::cmp::Reverse(bin.n));
    for bin in dots {
        let radius = 3.0 + 9.0 * (bin.n as f64 / most as f64).sqrt();
        plot += &dot("full", at(bin.told.clamp(0.0, 1.0), bin.wanted.clamp(0.0, 1.0)), radius);
    }
    plot += &label("", "middle", (f64::midpoint(LEFT, RIGHT), BOTTOM + 36.0), "probability told");
    plot += &upwards("share that wanted a call");
    let rows: Vec<Vec<String>> = decision
        .calibration
        .iter()
        .map(|bin| {
            let range = format!("{} to {}", number(bin.low, 2), number(bin.high, 2));
            let (told, wanted) = match bin.n {
                0 => ("–".to_owned(), "–".to_owned()),
                _ => (number(bin.told, 2), number(bin.wanted, 2)),
            };
            vec![range, bin.n.to_string(), told, wanted]
        })
        .collect();
    let heads = [
        Head::Text("Probability"),
        Head::Number("Requests"),
        Head::Number("Told, on average"),
        Head::Number("Wanted a call"),
    ];
    figure(
        "calibration",
        "The share of requests that wanted a call, by the probability told of it",
        BOTTOM + 46.0,
        &plot,
        "Each dot is a range of probabilities. The larger it is, the more requests fell into it. On the dashed line the \
         probabilities hold. Above it the model wants calls too seldom, below it too often.",
        &table(&heads, &rows),
    )
}

/// How well each number alone tells the requests apart.
pub(super) fn features(features: &[Feature]) -> String {
    const ROW: f64 = 36.0;
    let (left, right) = (8.0, RIGHT);
    if features.is_empty() {
        return "<p>Nothing was measured.</p>\n".to_owned();
    }
    // The areas first that are furthest from chance, and those that are not known last.
    let far = |feature: &Feature| feature.area.as_ref().map_or(-1.0, |area| (area.area - 0.5).abs());
    let mut sorted: Vec<&Feature> = features.iter().collect();
    sorted.sort_by(|a, b| far(b).total_cmp(&far(a)));
    let x = |area: f64| between(left, right, area.clamp(0.0, 1.0));
    let bottom = TOP + ROW * sorted.len() as f64;
    let mut plot = String::new();
    for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let class = if tick == 0.5 { "even" } else { "grid" };
        plot += &line(class, (x(tick), TOP), (x(tick), bottom));
    }
    plot += &label("", "start", (x(0.0), bottom + 16.0), "0");
    plot += &label("", "middle", (x(0.5), bottom + 16.0), "0.5, chance");
    plot += &label("", "end", (x(1.0), bottom + 16.0), "1");
    plot += &label("", "middle", (x(0.5), bottom + 34.0), "area under the curve");
    for (row, feature) in sorted.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        plot += &label("name", "start", (left, y + 13.0), &short(&feature.name));
        let known = feature.area.as_ref().filter(|area| area.area.is_finite() && area.within.is_finite());
        let Some(area) = known else {
            plot += &label("", "end", (right, y + 13.0), "not known");
            continue;
        };
        plot += &label("name", "end", (right, y + 13.0), &number(area.area, 2));
        let (from, to) = (x(area.area.min(0.5)), x(area.area.max(0.5)));
        plot += &format!(
            "<rect class=\"bar\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"10\"/>\n",
            y + 19.0,
            to - from
        );
        let (low, high) = interval(area.area, area.within);
        plot += &line("span", (x(low), y + 24.0), (x(high), y + 24.0));
        for end in [low, high] {
            plot += &line("span", (x(end), y + 20.0), (x(end), y + 28.0));
        }
    }
    let rows: Vec<Vec<String>> = sorted
        .iter()
        .map(|feature| {
            let (area, range) = feature.area.as_ref().map_or(("–".to_owned(), "–".to_owned()), |area| {
                let (low, high) = interval(area.area, area.within);
                (number(area.area, 3), format!("{} to {}", number(low, 3), number(high, 3)))
            });
            vec![words(&feature.name), area, range]
        })
        .collect();
    figure(
        "features",
        "The area under the curve of each number alone, with its 95 % interval",
        bottom + 44.0,
        &plot,
        "A bar begins at chance: the longer it is, the better the number tells. To the left of chance a low number \
         speaks for a call. The thin line is the 95 % interval.",
        &table(&[Head::Text("Number"), Head::Number("Area"), Head::Number("95 % interval")], &rows),
    )
}

/// Tokens a second at this width; none where no time was measured.
fn per_second(width: &Width) -> Option<f64> {
    let rate = width.width as f64 * 1000.0 / width.ms;
    (width.width > 0 && width.ms > 0.0 && rate.is_finite()).then_some(rate)
}

/// The least of 1, 2 and 5, times a power of ten, of which four reach so high.
pub(super) fn step(high: f64) -> f64 {
    let quarter = high / 4.0;
    let power = 10_f64.powf(quarter.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= quarter).unwrap_or(10.0 * power)
}

/// Tokens a second by the width of a batch.
pub(super) fn widths(widths: &[Width]) -> String {
    let mut known: Vec<(&Width, f64)> =
        widths.iter().filter_map(|width| Some((width, per_second(width)?))).collect();
    known.sort_by_key(|(width, _)| width.width);
    let (Some((first, _)), Some((last, _))) = (known.first(), known.last()) else {
        return "<p>Nothing was measured.</p>\n".to_owned();
    };
    let (low, high) = ((first.width as f64).ln(), (last.width as f64).ln());
    let x = |width: &Width| {
        let share = ((width.width as f64).ln() - low) / (high - low);
        between(LEFT + 10.0, RIGHT - 10.0, if share.is_finite() { share } else { 0.5 })
    };
    let most = known.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let step = step(most);
    let top = step * (most / step).ceil();
    let y = |rate: f64| between(BOTTOM, TOP, rate / top);
    let mut plot = String::new();
    for tick in (0..5_u8).map(|n| step * f64::from(n)).filter(|tick| *tick <= top * 1.001) {
        plot += &line("grid", (LEFT, y(tick)), (RIGHT, y(tick)));
        let digits = if step < 1.0 { 2 } else { 0 };
        plot += &label("", "end", (LEFT - 6.0, y(tick) + 4.0), &number(tick, digits));
    }
    let points: Vec<String> =
        known.iter().map(|(width, rate)| format!("{:.1},{:.1}", x(width), y(*rate))).collect();
    plot += &format!("<polyline class=\"curve\" points=\"{}\"/>\n", points.join(" "));
    let mut free = 0.0;
    for (width, rate) in &known {
        let class = if width.same_bits { "full" } else { "hollow" };
        plot += &dot(class, (x(width), y(*rate)), if width.same_bits { 5.5 } else { 4.5 });
        // A number is left out that would touch the one before it.
        if x(width) >= free {
            plot += &label("", "middle", (x(width), BOTTOM + 16.0), &width.width.to_string());
            free = x(width) + 7.0 * (width.width.to_string().len() as f64 + 1.0);
        }
    }
    if let Some((width, rate)) = known.iter().max_by(|(_, a), (_, b)| a.total_cmp(b)) {
        plot += &label("name", "middle", (x(width), y(*rate) - 10.0), &self::rate(*rate));
    }
    plot += &label("", "middle", (f64::midpoint(LEFT, RIGHT), BOTTOM + 36.0), "tokens in a batch");
    plot += &upwards("tokens a second");
    plot += &dot("full", (LEFT + 6.0, BOTTOM + 54.0), 5.5);
    plot += &label("", "start", (LEFT + 16.0, BOTTOM + 58.0), "same bits as single tokens");
    plot += &dot("hollow", (LEFT + 206.0, BOTTOM + 54.0), 4.5);
    plot += &label("", "start", (LEFT + 216.0, BOTTOM + 58.0), "other bits");
    let mut sorted: Vec<&Width> = widths.iter().collect();
    sorted.sort_by_key(|width| width.width);
    let rows: Vec<Vec<String>> = sorted
        .iter()
        .map(|width| {
            let rate = per_second(width).map_or("–".to_owned(), rate);
            let same = if width.same_bits { "yes" } else { "no" };
            vec![width.width.to_string(), number(width.ms, 2), rate, same.to_owned()]
        })
        .collect();
    let heads = [
        Head::Number("Tokens"),
        Head::Number("Milliseconds"),
        Head::Number("Tokens a second"),
        Head::Text("Same bits"),
    ];
    figure(
        "widths",
        "Tokens a second by the tokens of a batch",
        BOTTOM + 68.0,
        &plot,
        "The axis of tokens is logarithmic. Batches whose logits have the bits of single tokens \
         have filled dots.",
        &table(&heads, &rows),
    )
}
