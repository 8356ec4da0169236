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

/// Metrics in the order in which they were added. Each name must be added once.
#[derive(Default)]
pub struct Exposition {
    families: Vec<MetricFamily>,
}

impl Exposition {
    /// Adds a gauge.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Quantity) {
        self.gauges(name, help, [(Labels::new(), value)]);
    }

    /// Adds a gauge with several labelled samples.
    pub fn gauges<'a, Q: Quantity>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<'a>, Q)>,
    ) {
        self.samples(MetricType::GAUGE, name, help, values, |metric, value| {
            let mut gauge = proto::Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        });
    }

    /// Adds a counter, which counts from the start of the node.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Quantity) {
        self.counters(name, help, [(Labels::new(), value)]);
    }

    /// Adds a counter with several labelled samples.
    pub fn counters<'a, Q: Quantity>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<'a>, Q)>,
    ) {
        self.samples(MetricType::COUNTER, name, help, values, |metric, value| {
            let mut counter = proto::Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        });
    }

    /// Adds the samples whose numbers are known.
    fn samples<'a, Q: Quantity>(
        &mut self,
        kind: MetricType,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<'a>, Q)>,
        set: fn(&mut Metric, f64),
    ) {
        let metric = |(labels, value): (Labels<'_>, Q)| {
            let mut metric = labelled(&labels);
            set(&mut metric, value.number()?);
            Some(metric)
        };
        self.family(kind, name, help, values.into_iter().filter_map(metric).collect());
    }

    /// Adds a histogram with several labelled samples.
    pub fn histograms<'a>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<'a>, &'a Histogram)>,
    ) {
        let metric = |(labels, histogram): (Labels<'_>, &Histogram)| {
            let mut metric = labelled(&labels);
            metric.set_histogram(buckets(histogram));
            metric
        };
        self.family(MetricType::HISTOGRAM, name, help, values.into_iter().map(metric).collect());
    }

    /// Returns the text format. It contains all metrics that have a sample.
    pub fn to_text(&self) -> String {
        // Fails only for families without metrics, which `family` leaves out.
        TextEncoder::new().encode_to_string(&self.families).unwrap_or_default()
    }

    /// Returns the same for people: without help texts, and of histograms only count and sum.
    pub fn to_lines(&self) -> String {
        let text = self.to_text();
        let is_value = |line: &&str| !line.starts_with('#') && !line.contains("_bucket{");
        text.lines().filter(is_value).flat_map(|line| [line, "\n"]).collect()
    }

    fn family(&mut self, kind: MetricType, name: &str, help: &str, metrics: Vec<Metric>) {
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
        page.gauge("a_seconds", "One.", Duration::from_millis(1500));
        page.gauge("nothing", "Not known.", None::<u64>);
        page.counters("b_total", "Two.", [(vec![("name", "x\"y\\\n")], 7u64), (vec![], 8)]);
        let mut histogram = Histogram::new(&[250_000]);
        [1, 2000].iter().for_each(|millis| histogram.observe(Duration::from_millis(*millis)));
        page.histograms("c_seconds", "Three.", [(vec![("k", "v")], &histogram)]);
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
