//! Metrics of the running node: counting, writing for Prometheus, and reading back.
//!
//! | part | what it is |
//! |---|---|
//! | [`Histogram`] | counts of durations by bucket |
//! | [`RollingWindow`] | counts of the last 30 to 60 seconds |
//! | [`Exposition`] | all metrics at one time, in Prometheus' text format 0.0.4 |
//! | [`Scrape`] | a parsed page |
//!
//! Each module counts in plain fields where things happen; an [`Exposition`] is built only when a client requests it.

use std::fmt::Write as _;
use std::time::Duration;

/// Counts of durations, each in the first bucket whose bound it does not exceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// In microseconds.
    bounds: &'static [u64],
    /// One more than the bounds, for durations above all bounds.
    counts: Box<[u64]>,
    sum: Duration,
}

impl Histogram {
    /// Creates an empty histogram. The bounds are microseconds and must ascend.
    pub fn new(bounds: &'static [u64]) -> Histogram {
        Histogram { bounds, counts: vec![0; bounds.len() + 1].into(), sum: Duration::ZERO }
    }

    /// Counts a duration.
    pub fn observe(&mut self, time: Duration) {
        let fits = |bound: &u64| time <= Duration::from_micros(*bound);
        let step = self.bounds.iter().position(fits).unwrap_or(self.bounds.len());
        self.counts[step] += 1;
        self.sum = self.sum.saturating_add(time);
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of the durations.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// Returns each bound with the number of durations that do not exceed it.
    pub fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> {
        let up_to = self.counts.iter().scan(0, |total, count| {
            *total += count;
            Some(*total)
        });
        self.bounds.iter().copied().map(Duration::from_micros).zip(up_to)
    }
}

/// Length of a window.
pub const WINDOW: Duration = Duration::from_secs(30);

/// A count in the current window of time and in the previous one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RollingWindow<T> {
    /// Start of the current window.
    started: Duration,
    current: T,
    previous: T,
}

impl<T: Copy + Default> RollingWindow<T> {
    /// Returns the count of the current window. `now` must never decrease.
    pub fn current_mut(&mut self, now: Duration) -> &mut T {
        *self = self.advanced_to(now);
        &mut self.current
    }

    /// Returns the counts of the previous and the current window, and the time that both cover.
    pub fn last_two(&self, now: Duration) -> ([T; 2], Duration) {
        let window = self.advanced_to(now);
        ([window.previous, window.current], WINDOW + now.saturating_sub(window.started))
    }

    fn advanced_to(self, now: Duration) -> RollingWindow<T> {
        let passed = now.saturating_sub(self.started);
        if passed < WINDOW {
            return self;
        }
        let started = Duration::from_secs(now.as_secs() / WINDOW.as_secs() * WINDOW.as_secs());
        let previous = if passed < 2 * WINDOW { self.current } else { T::default() };
        RollingWindow { started, current: T::default(), previous }
    }
}

/// Media type of the text format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A number with a unit: bytes, seconds or a count. An unknown number is left out.
pub trait Quantity {
    /// Returns the number, if it is known.
    fn number(self) -> Option<f64>;
}

macro_rules! quantities {
    ($($integer:ty),*) => {
        $(impl Quantity for $integer {
            /// Exact up to 2^53.
            fn number(self) -> Option<f64> {
                Some(self as f64)
            }
        })*
    };
}

quantities!(f64, i32, i64, u32, u64, usize);

impl Quantity for bool {
    fn number(self) -> Option<f64> {
        Some(f64::from(u8::from(self)))
    }
}

impl Quantity for Duration {
    /// Seconds.
    fn number(self) -> Option<f64> {
        Some(self.as_secs_f64())
    }
}

impl<Q: Quantity> Quantity for Option<Q> {
    fn number(self) -> Option<f64> {
        self.and_then(Quantity::number)
    }
}

/// Label names and values that distinguish samples of one metric. Both are chosen by the program, never by a client.
pub type Labels<'a> = Vec<(&'static str, &'a str)>;

/// Value of a metric: its samples, or a histogram for each.
pub enum Value<'a> {
    /// Numbers. Unknown ones are left out.
    Samples(Vec<(Labels<'a>, f64)>),
    /// Histograms.
    Histograms(Vec<(Labels<'a>, &'a Histogram)>),
}

impl<Q: Quantity> From<Q> for Value<'_> {
    fn from(quantity: Q) -> Self {
        vec![(Labels::new(), quantity)].into()
    }
}

impl<'a, Q: Quantity> From<Vec<(Labels<'a>, Q)>> for Value<'a> {
    fn from(samples: Vec<(Labels<'a>, Q)>) -> Self {
        let known = samples.into_iter().filter_map(|(labels, value)| Some((labels, value.number()?)));
        Value::Samples(known.collect())
    }
}

/// Metrics in the order in which they were added. Each name must be added once.
#[derive(Default)]
pub struct Exposition {
    text: String,
}

impl Exposition {
    /// Adds a metric unless it has no sample. Numbers are those of a counter, which counts from the start of the node, if
    /// the name ends with `_total`, else those of a gauge. `help` is one line without backslashes.
    pub fn add(&mut self, name: &str, help: &str, value: Value<'_>) {
        let (kind, is_empty) = match &value {
            Value::Samples(samples) if name.ends_with("_total") => ("counter", samples.is_empty()),
            Value::Samples(samples) => ("gauge", samples.is_empty()),
            Value::Histograms(histograms) => ("histogram", histograms.is_empty()),
        };
        if is_empty {
            return;
        }
        self.text.extend(["# HELP ", name, " ", help, "\n# TYPE ", name, " ", kind, "\n"]);
        match value {
            Value::Samples(samples) => {
                for (labels, number) in samples {
                    self.add_sample(name, "", &labels, None, number);
                }
            }
            Value::Histograms(histograms) => {
                for (labels, histogram) in histograms {
                    let of_all = (f64::INFINITY, histogram.count());
                    let buckets = histogram.cumulative().map(|(bound, count)| (bound.as_secs_f64(), count));
                    for (bound, count) in buckets.chain([of_all]) {
                        self.add_sample(name, "_bucket", &labels, Some(bound), count as f64);
                    }
                    self.add_sample(name, "_sum", &labels, None, histogram.sum().as_secs_f64());
                    self.add_sample(name, "_count", &labels, None, histogram.count() as f64);
                }
            }
        }
    }

    /// Adds a line. `bound` is the upper bound of a bucket.
    fn add_sample(&mut self, name: &str, suffix: &str, labels: &Labels<'_>, bound: Option<f64>, value: f64) {
        self.text.extend([name, suffix]);
        let mut separator = "{";
        for (label, value) in labels {
            self.text.extend([separator, label, "=\""]);
            for character in value.chars() {
                match character {
                    '\\' => self.text.push_str(r"\\"),
                    '"' => self.text.push_str(r#"\""#),
                    '\n' => self.text.push_str(r"\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
            separator = ",";
        }
        if let Some(bound) = bound {
            self.text.extend([separator, "le=\""]);
            self.add_number(bound);
            self.text.push('"');
        }
        if bound.is_some() || !labels.is_empty() {
            self.text.push('}');
        }
        self.text.push(' ');
        self.add_number(value);
        self.text.push('\n');
    }

    fn add_number(&mut self, number: f64) {
        let integer = number as i64;
        if integer as f64 == number {
            self.text.push_str(itoa::Buffer::new().format(integer));
        } else if number == f64::INFINITY {
            self.text.push_str("+Inf");
        } else {
            let _ = write!(self.text, "{number}");
        }
    }

    /// Returns the text format. It contains all metrics that have a sample.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the same for people: without help texts, and of histograms only count and sum.
    pub fn to_lines(&self) -> String {
        let is_value = |line: &&str| !line.starts_with('#') && !line.contains("_bucket{");
        self.text.lines().filter(is_value).flat_map(|line| [line, "\n"]).collect()
    }
}

/// A sample: one line of the page.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Metric name.
    pub name: String,
    /// Labels.
    pub labels: Vec<(String, String)>,
    /// Value.
    pub value: f64,
}

impl Sample {
    /// Creates a sample without labels.
    pub fn new(name: &str, value: f64) -> Sample {
        Sample { name: name.to_owned(), labels: Vec::new(), value }
    }

    /// Returns the value of a label; an empty text if the sample has no such label.
    pub fn label(&self, name: &str) -> &str {
        self.labels.iter().find(|(label, _)| label == name).map_or("", |(_, value)| value)
    }
}

/// A parsed page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scrape {
    /// All samples, in their order.
    pub samples: Vec<Sample>,
}

impl Scrape {
    /// Parses Prometheus' text format. The error names the wrong line, counted from 1.
    pub fn parse(text: &str) -> Result<Scrape, String> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let wrong = |index| format!("line {} is not in Prometheus' text format", index + 1);
        let samples = lines.map(|(index, line)| sample(line).ok_or_else(|| wrong(index)));
        Ok(Scrape { samples: samples.collect::<Result<_, _>>()? })
    }

    /// Returns the samples of a metric.
    pub fn samples_of<'r>(&'r self, name: &str) -> impl Iterator<Item = &'r Sample> {
        self.samples.iter().filter(move |sample| sample.name == name)
    }

    /// Returns the value of the first sample of a metric.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.samples_of(name).next().map(|sample| sample.value)
    }

    /// Returns the sum of the samples of a metric, if there are any.
    pub fn sum(&self, name: &str) -> Option<f64> {
        self.samples_of(name).map(|sample| sample.value).reduce(|sum, value| sum + value)
    }
}

/// Parses `name{label="value",…} number`.
fn sample(line: &str) -> Option<Sample> {
    let end = line.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':')?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(mut inner) = rest.strip_prefix('{') {
        rest = loop {
            inner = inner.strip_prefix(',').unwrap_or(inner);
            if let Some(rest) = inner.strip_prefix('}') {
                break rest;
            }
            let (label, quoted) = inner.split_once("=\"")?;
            let (value, behind) = unquoted(quoted)?;
            labels.push((label.to_owned(), value));
            inner = behind;
        };
    }
    let value = rest.strip_prefix(' ')?.parse().ok()?;
    (!name.is_empty()).then(|| Sample { name: name.to_owned(), labels, value })
}

/// Splits off a text at its closing quotation mark.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    loop {
        match chars.next()? {
            (at, '"') => return Some((value, &text[at + 1..])),
            (_, '\\') => value.push(match chars.next()?.1 {
                'n' => '\n',
                c => c,
            }),
            (_, c) => value.push(c),
        }
    }
}

#[cfg(test)]
mod histogram_tests {
    use super::*;

    const BOUNDS: &[u64] = &[1_000, 10_000];

    #[test]
    fn a_time_counts_in_every_bucket_whose_bound_it_does_not_exceed() {
        let mut histogram = Histogram::new(BOUNDS);
        [0, 1, 2, 10, 11].iter().for_each(|millis| histogram.observe(Duration::from_millis(*millis)));
        let counts: Vec<u64> = histogram.cumulative().map(|(_, count)| count).collect();
        assert_eq!((counts, histogram.count(), histogram.sum()), (vec![2, 4], 5, Duration::from_millis(24)));
    }
}

#[cfg(test)]
mod rolling_window_tests {
    use super::*;

    #[test]
    fn a_count_is_forgotten_after_two_windows_at_the_latest() {
        let at = Duration::from_secs;
        let mut recent = RollingWindow::default();
        *recent.current_mut(at(3)) += 1;
        *recent.current_mut(at(29)) += 2;
        assert_eq!(recent.last_two(at(29)), ([0, 3], at(59)));
        assert_eq!(recent.last_two(at(31)), ([3, 0], at(31)));
        *recent.current_mut(at(59)) += 4;
        assert_eq!(recent.last_two(at(59)), ([3, 4], at(59)));
        assert_eq!(recent.last_two(at(61)), ([4, 0], at(31)));
        assert_eq!(recent.last_two(at(90)), ([0, 0], at(30)));
    }
}

#[cfg(test)]
mod exposition_tests {
    use super::*;

    #[test]
    fn metrics_are_written_with_help_type_and_labels() {
        let mut page = Exposition::default();
        page.add("a_seconds", "One.", Duration::from_millis(1500).into());
        page.add("nothing", "Not known.", None::<u64>.into());
        page.add("b_total", "Two.", vec![(vec![("name", "x\"y\\\n")], 7u64), (vec![], 8)].into());
        let mut histogram = Histogram::new(&[250_000]);
        [1, 2000].iter().for_each(|millis| histogram.observe(Duration::from_millis(*millis)));
        page.add("c_seconds", "Three.", Value::Histograms(vec![(vec![("k", "v")], &histogram)]));
        let expected = r#"# HELP a_seconds One.
# TYPE a_seconds gauge
a_seconds 1.5
# HELP b_total Two.
# TYPE b_total counter
b_total{name="x\"y\\\n"} 7
b_total 8
# HELP c_seconds Three.
# TYPE c_seconds histogram
c_seconds_bucket{k="v",le="0.25"} 1
c_seconds_bucket{k="v",le="+Inf"} 2
c_seconds_sum{k="v"} 2.001
c_seconds_count{k="v"} 2
"#;
        assert_eq!(page.text(), expected);
    }
}

#[cfg(test)]
mod scrape_tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_invalid_sample_is_reported_with_its_line() {
        for line in ["a", "a{", "a{b} 1", "a{b=\"c} 1", "a 1x", " 1", "{} 1", "a{b=\"c\"}1"] {
            let error = Scrape::parse(&format!("# HELP a\n\nb 1\n{line}")).unwrap_err();
            assert!(error.starts_with("line 4 "), "{line}: {error}");
        }
        assert!(Scrape::parse("a +Inf\nb NaN\n").unwrap().samples[0].value.is_infinite());
    }

    proptest! {
        #[test]
        fn an_exposition_round_trips(value in "[^\r]*", number: u32) {
            let mut page = Exposition::default();
            let samples = vec![(vec![("x", "1"), ("y", value.as_str())], number), (vec![], 0)];
            page.add("a", "Help.", samples.into());
            let reading = Scrape::parse(page.text()).unwrap();
            prop_assert_eq!(reading.samples[0].label("y"), value);
            prop_assert_eq!((reading.value("a"), reading.sum("a")), (Some(number.into()), Some(number.into())));
            prop_assert_eq!((reading.samples.len(), reading.samples[0].label("x")), (2, "1"));
        }

        #[test]
        fn arbitrary_text_does_not_panic_the_parser(text: String) {
            let _ = Scrape::parse(&text);
        }
    }
}
