//! All metrics at one time, in the format of Prometheus.

use std::time::Duration;

use prometheus::TextEncoder;
use prometheus::proto::{self, LabelPair, Metric, MetricFamily, MetricType};

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
    families: Vec<MetricFamily>,
}

impl Exposition {
    /// Adds a metric unless it has no sample. Numbers are those of a counter, which counts from the start of the node, if
    /// the name ends with `_total`, else those of a gauge.
    pub fn add(&mut self, name: &str, help: &str, value: Value<'_>) {
        let is_counter = name.ends_with("_total");
        let number = |(labels, value): (Labels<'_>, f64)| {
            let mut metric = labelled(&labels);
            if is_counter {
                let mut counter = proto::Counter::default();
                counter.set_value(value);
                metric.set_counter(counter);
            } else {
                let mut gauge = proto::Gauge::default();
                gauge.set_value(value);
                metric.set_gauge(gauge);
            }
            metric
        };
        let histogram = |(labels, histogram): (Labels<'_>, &Histogram)| {
            let mut metric = labelled(&labels);
            metric.set_histogram(buckets(histogram));
            metric
        };
        let (kind, metrics) = match value {
            Value::Samples(samples) if is_counter => (MetricType::COUNTER, samples.into_iter().map(number).collect()),
            Value::Samples(samples) => (MetricType::GAUGE, samples.into_iter().map(number).collect()),
            Value::Histograms(of) => (MetricType::HISTOGRAM, of.into_iter().map(histogram).collect::<Vec<_>>()),
        };
        if metrics.is_empty() {
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.set_metric(metrics);
        self.families.push(family);
    }

    /// Returns the text format. It contains all metrics that have a sample.
    pub fn to_text(&self) -> String {
        // Fails only for families without metrics, which `add` leaves out.
        TextEncoder::new().encode_to_string(&self.families).unwrap_or_default()
    }

    /// Returns the same for people: without help texts, and of histograms only count and sum.
    pub fn to_lines(&self) -> String {
        let text = self.to_text();
        let is_value = |line: &&str| !line.starts_with('#') && !line.contains("_bucket{");
        text.lines().filter(is_value).flat_map(|line| [line, "\n"]).collect()
    }
}

fn labelled(labels: &[(&str, &str)]) -> Metric {
    let pair = |(name, value): &(&str, &str)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    };
    Metric::from_label(labels.iter().map(pair).collect())
}

fn buckets(histogram: &Histogram) -> proto::Histogram {
    let bucket = |(bound, count): (Duration, u64)| {
        let mut bucket = proto::Bucket::default();
        bucket.set_upper_bound(bound.as_secs_f64());
        bucket.set_cumulative_count(count);
        bucket
    };
    let mut written = proto::Histogram::default();
    written.set_bucket(histogram.cumulative().map(bucket).collect());
    written.set_sample_count(histogram.count());
    written.set_sample_sum(histogram.sum().as_secs_f64());
    written
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
        assert_eq!(page.to_text(), expected);
    }
}
