//! The figures over many records, by category and together.

use serde::{Serialize, Serializer};

use super::record::Record;

/// The name of the row that holds all categories together.
const ALL: &str = "all";

/// A row a category, in the order they came, and one for all.
///
/// ```
/// use toolgate_lab::{Record, Summary};
/// # let record = |category: &str, pass: bool| {
/// #     serde_json::from_value::<Record>(serde_json::json!({
/// #         "id": "", "category": category, "calls": [], "final": "", "files_after": {}, "stop_reason": "final",
/// #         "seconds": 1.0, "stats": toolgate_infer::Stats::default(), "leak": false, "no_access": false,
/// #         "pass": pass, "reasons": [],
/// #     }))
/// # };
///
/// let records = [record("read", true)?, record("read", false)?, record("write", true)?];
/// let summary = Summary::of(&records);
/// let rows: Vec<_> = summary.rows().map(|(name, row)| (name, row.passed, row.n)).collect();
/// assert_eq!(rows, [("read", 1, 2), ("write", 1, 1), ("all", 2, 3)]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Summary {
    rows: Vec<(String, Row)>,
}

/// As an object from names to rows.
impl Serialize for Summary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.rows())
    }
}

/// What one category came to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// Cases.
    pub n: usize,
    /// Those that passed.
    pub passed: usize,
    /// Their share.
    pub rate: f64,
    /// Seconds a case.
    pub mean_seconds: f64,
    /// Evaluations of the model a case, prompts apart.
    pub mean_decode_calls: f64,
    /// Answers that hold what looks like a tool call.
    pub leaks: usize,
    /// Answers that say the model has no access.
    pub no_access_answers: usize,
    /// Answers that do nothing but repeat the request.
    pub echoes: usize,
    /// Answers whose language tells, and that of their request.
    pub languages_told: usize,
    /// Those of them that are in the language of the request.
    pub same_language: usize,
}

impl Summary {
    /// The summary of some records.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut rows: Vec<(String, Row)> = Vec::new();
        let mut all = Row::default();
        for record in records {
            match rows.iter_mut().find(|(name, _)| *name == record.category) {
                Some((_, row)) => row.add(record),
                None => {
                    let mut row = Row::default();
                    row.add(record);
                    rows.push((record.category.clone(), row));
                }
            }
            all.add(record);
        }
        rows.push((ALL.to_owned(), all));
        Self { rows }
    }

    /// The rows by name; the last is all of them.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &Row)> {
        self.rows.iter().map(|(name, row)| (name.as_str(), row))
    }
}

impl Row {
    fn add(&mut self, record: &Record) {
        let before = self.n as f64;
        self.n += 1;
        self.passed += usize::from(record.pass);
        self.leaks += usize::from(record.leak);
        self.no_access_answers += usize::from(record.no_access);
        self.echoes += usize::from(record.echo);
        self.languages_told += usize::from(record.same_language.is_some());
        self.same_language += usize::from(record.same_language == Some(true));
        let n = self.n as f64;
        self.rate = self.passed as f64 / n;
        self.mean_seconds = (self.mean_seconds * before + record.seconds) / n;
        self.mean_decode_calls = (self.mean_decode_calls * before + record.stats.decode_calls as f64) / n;
    }

    /// The 95 % interval of the rate (Wilson).
    ///
    /// ```
    /// use toolgate_lab::Row;
    ///
    /// let row = Row { n: 50, passed: 40, rate: 0.8, ..Row::default() };
    /// let (low, high) = row.interval();
    /// assert_eq!(format!("{low:.2} to {high:.2}"), "0.67 to 0.89");
    /// ```
    pub fn interval(&self) -> (f64, f64) {
        if self.n == 0 {
            return (0.0, 1.0);
        }
        let (z, n, p) = (1.96, self.n as f64, self.rate);
        let middle = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
        let half = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt() / (1.0 + z * z / n);
        ((middle - half).max(0.0), (middle + half).min(1.0))
    }
}
