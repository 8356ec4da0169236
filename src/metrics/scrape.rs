//! Parser of Prometheus' text format.

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
mod tests {
    use proptest::prelude::*;

    use super::super::Exposition;
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
