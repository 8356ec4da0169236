//! All metrics at one time, in the format of Prometheus.

use std::fmt::Write as _;
use std::time::Duration;

use super::Histogram;

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

#[cfg(test)]
mod tests {
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
