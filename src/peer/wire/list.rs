//! Lists.

use crate::codec::{Decoder, Encoder, ReadError, Readable, Writable};

/// `{"data": […]}`, bounded by the length of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

impl<T: Readable> Readable for List<T> {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        source.need_list("data", T::read).map(List)
    }
}

impl<T: Writable> Writable for List<T> {
    fn write(&self, sink: &mut impl Encoder) {
        write_list(sink, "data", &self.0);
    }
}

/// Writes a list.
pub fn write_list<T: Writable>(sink: &mut impl Encoder, label: &'static str, items: &[T]) {
    sink.list(label, items, |sink, item| item.write(sink));
}

/// Reads a list of at most `max` elements. Rejects a longer one after reading that many.
pub fn read_at_most<'a, S: Decoder<'a>, T>(
    source: &mut S,
    label: &'static str,
    max: usize,
    mut read: impl FnMut(&mut S) -> Result<T, ReadError>,
) -> Result<Vec<T>, ReadError> {
    let mut count = 0;
    source.need_list(label, |source| {
        count += 1;
        match count > max {
            true => Err(ReadError::Argument(format!("property {label} has more than {max} elements"))),
            false => read(source),
        }
    })
}
