//! Fuzz target: streams of events, their parameters and the ids with which they are resumed.

use crate::interface;

/// Events of a stream after which it is resumed.
const RESUMED: usize = 4;
/// What ends an event.
const END: &[u8] = b"\n\n";

/// Checks that a stream with any parameters is an error or tells events of the right form, the same for any size of the
/// steps, and that it goes on after any of them with exactly the next one. Returns the number of events.
///
/// The first line of the input is the query, the second one the id to begin with.
pub fn check(data: &[u8]) -> usize {
    let Ok(text) = std::str::from_utf8(data) else { return 0 };
    let (query, id) = text.split_once('\n').unwrap_or((text, ""));
    let is_line = |text: &str| !text.contains(|letter: char| letter.is_control() || letter == ' ');
    if !is_line(query) || !is_line(id) {
        return 0;
    }
    let Some(told) = stream(query, id) else { return 0 };
    let events = events(&told);
    for index in (0..events.len()).step_by(1 + events.len() / RESUMED) {
        let Event { id, .. } = &events[index];
        let rest = stream(query, id).expect("a stream can be resumed after any event");
        // It begins with the state of the node, as every stream does.
        assert_eq!(self::events(&rest)[1..], events[index + 1..]);
    }
    events.len()
}

/// Returns what a stream sends until it waits; `None` if it cannot be opened.
fn stream(query: &str, id: &str) -> Option<String> {
    let header = if id.is_empty() { String::new() } else { format!("Last-Event-ID: {id}\r\n") };
    let (status, body) = interface::get_with(&format!("/events?{query}"), &header)?;
    assert!([200, 400, 500].contains(&status), "{status}");
    (status == 200).then(|| String::from_utf8(body).expect("a stream is UTF-8"))
}

#[derive(Debug, PartialEq)]
struct Event {
    id: String,
    kind: String,
    data: serde_json::Value,
}

fn events(text: &str) -> Vec<Event> {
    assert!(text.as_bytes().ends_with(END));
    let blocks = text.split("\n\n").filter(|block| !block.is_empty() && !block.starts_with("retry: "));
    blocks.map(event).collect()
}

fn event(block: &str) -> Event {
    let mut lines = block.split('\n').map(|line| line.split_once(": ").expect("a field"));
    let mut field = |name| lines.next().filter(|(field, _)| *field == name).expect(name).1.to_owned();
    let (id, kind) = (field("id"), field("event"));
    let data = serde_json::from_str(&field("data")).expect("JSON in one line");
    assert!(lines.next().is_none(), "{block}");
    Event { id, kind, data }
}
