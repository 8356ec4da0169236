//! Tests of decoding and encoding frames.

use super::*;
use proptest::prelude::*;

/// The parts of a frame that tests compare.
type Read = (&'static str, Vec<(String, String)>, Vec<u8>);

fn read(frame: &Frame<'_>) -> Read {
    let headers = frame.headers();
    (frame.command, headers.map(|(n, v)| (n.into(), v.into())).collect(), frame.body.to_vec())
}

/// All frames of a sequence of messages, and the error texts.
fn decode_with(decoder: &mut Decoder, messages: &[&[u8]]) -> (Vec<Read>, Vec<String>) {
    let (mut frames, mut errors) = (Vec::new(), Vec::new());
    for message in messages {
        decoder.feed(message);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(read(&frame)),
                Ok(None) => break,
                Err(error) => errors.push(error.to_string()),
            }
        }
    }
    (frames, errors)
}

fn decode(messages: &[&[u8]]) -> (Vec<Read>, Vec<String>) {
    decode_with(&mut Decoder::default(), messages)
}

fn one(bytes: &[u8]) -> Read {
    let (mut frames, errors) = decode(&[bytes]);
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(frames.len(), 1);
    frames.pop().unwrap()
}

fn error_of(bytes: &[u8]) -> String {
    let (frames, mut errors) = decode(&[bytes]);
    assert_eq!((frames.len(), errors.len()), (0, 1));
    errors.pop().unwrap()
}

fn pairs(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = headers.iter().map(|&(n, v)| (n.into(), v.into()));
    owned.collect()
}

#[test]
fn a_bare_connect_is_a_frame_without_headers() {
    assert_eq!(one(b"CONNECT\n\n\0"), ("CONNECT", vec![], vec![]));
}

#[test]
fn cr_lf_and_lf_may_be_mixed() {
    let frame = one(b"\r\n\nSUBSCRIBE\r\nid:a\ndestination:/blocks\r\n\r\n\0");
    let headers = pairs(&[("id", "a"), ("destination", "/blocks")]);
    assert_eq!(frame, ("SUBSCRIBE", headers, vec![]));
}

#[test]
fn escapes_are_decoded_on_every_frame_and_blanks_are_kept() {
    let (_, headers, _) = one(b"CONNECT\nhost: a\\cb\\nc\\\\d \nx\\cy:\n\n\0");
    assert_eq!(headers, pairs(&[("host", " a:b\nc\\d "), ("x:y", "")]));
}

#[test]
fn the_body_ends_after_content_length_bytes_or_at_the_first_nul() {
    let with = |length: &str| format!("SEND\n{length}\n\nab\0").into_bytes();
    for length in ["a:b", "content-length:-1", "content-length:x", "content-length:2"] {
        assert_eq!(one(&with(length)).2, b"ab", "{length}");
    }
    assert_eq!(one(&with("content-length:99999999999")).2, b"ab");
    assert_eq!(one(&with("content-length:\t2 ")).2, b"ab");
    assert_eq!(one(b"SEND\ncontent-length:3\n\na\0b\0").2, b"a\0b");
    assert_eq!(one(b"SEND\ncontent-length:3\ncontent-length:1\n\na\0b\0").2, b"a\0b");
}

#[test]
fn several_frames_and_stray_nuls_fit_in_one_message() {
    let (frames, errors) = decode(&[b"\0\nSEND\n\nx\0\n\0\r\nCONNECT\n\n\0\n"]);
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(frames.iter().map(|f| f.0).collect::<Vec<_>>(), ["SEND", "CONNECT"]);
}

#[test]
fn a_heartbeat_is_no_frame_and_is_not_buffered() {
    let mut decoder = Decoder::default();
    assert_eq!(decode_with(&mut decoder, &[b"\n", b"\r\n\n"]), (vec![], vec![]));
    assert_eq!(decoder.buffered(), 0);
}

#[test]
fn the_error_texts_are_those_of_nis1() {
    let cases: [(&[u8], &str); 13] = [
        (b"X\n\n\0", "No enum constant org.springframework.messaging.simp.stomp.StompCommand.X"),
        (b"SUBSCRIBE\n\nabcd\0", "SUBSCRIBE shouldn't have a payload: length=4, headers={}"),
        (b"SEND\nbadheader\n\n\0", "Illegal header: 'badheader'. A header must be of the form <name>:[<value>]."),
        (b"SEND\n:x\n\n\0", "Illegal header: ':x'. A header must be of the form <name>:[<value>]."),
        (b"SEND\ndestination:/w/api/node/info\\x\n\n\0", "Illegal escape sequence at index 16: /w/api/node/info\\x"),
        (b"SEND\na:\xc3\xa9\\\n\n\0", "Illegal escape sequence at index 1: \u{e9}\\"),
        (b"SEND\ra:b\n\n\0", "'\\r' must be followed by '\\n'"),
        (b"\rSEND\n\n\0", "'\\r' must be followed by '\\n'"),
        (b"SEND\ncontent-length:1\n\nab\0", "Frame must be terminated with a null octet"),
        (
            b"SEND\ncontent-length:70000\n\nab",
            "STOMP 'content-length' header value 70000  exceeds configured buffer size limit 65536",
        ),
        (b"SEND\ncontent-type:bad\n\n\0", "Invalid mime type \"bad\": does not contain '/'"),
        (b"CONNECT\nheart-beat:a,b\n\n\0", "For input string: \"a\""),
        (b"CONNECT\nheart-beat: 10 , 20 \n\n\0", "For input string: \" 10 \""),
    ];
    for (bytes, text) in cases {
        assert_eq!(error_of(bytes), text);
    }
}

#[test]
fn harmless_header_values_are_accepted() {
    one(b"CONNECT\nheart-beat:10\n\n\0");
    one(b"CONNECT\nheart-beat:10000,10000\n\n\0");
    one(b"SEND\nheart-beat:a,b\ncontent-type:text/plain;charset=x\n\n\0");
    one(b"SEND\ncontent-type:*\n\n\0");
}

#[test]
fn an_error_drops_only_the_rest_of_its_message() {
    let (frames, errors) = decode(&[b"SEND\n\n1\0X\n\n\0SEND\n\n2\0", b"SEND\n\n3\0"]);
    assert_eq!(errors.len(), 1);
    assert_eq!(frames.iter().map(|f| &f.2[..]).collect::<Vec<_>>(), [b"1", b"3"]);
}

#[test]
fn a_frame_of_exactly_the_limit_is_read_and_one_more_byte_is_fatal() {
    let head = b"SEND\na:b\n\n";
    for (size, fits) in [(65_536, true), (65_537, false)] {
        let mut bytes = head.to_vec();
        bytes.resize(size - 1, b'x');
        bytes.push(0);
        let (first, second) = bytes.split_at(40_000);
        let (frames, errors) = decode(&[first, second]);
        assert_eq!(frames.len(), usize::from(fits));
        assert_eq!(errors.len(), usize::from(!fits));
    }
    let mut decoder = Decoder::default();
    decoder.feed(&[b'x'; 65_537]);
    let error = decoder.next_frame().unwrap_err();
    assert!(error.is_fatal);
    assert_eq!(error.to_string(), "The configured STOMP buffer size limit of 65536 bytes has been exceeded");
    assert_eq!(decoder.buffered(), 0);
}

#[test]
fn an_idle_decoder_releases_its_memory() {
    let mut decoder = Decoder::default();
    let mut bytes = b"SEND\n\n".to_vec();
    bytes.resize(60_000, b'x');
    bytes.push(0);
    assert_eq!(decode_with(&mut decoder, &[&bytes]).0.len(), 1);
    assert!(decoder.buffer.capacity() <= IDLE_CAPACITY_BYTES);
}

const STREAM: &[u8] = b"CONNECT\r\naccept-version:1.1,1.0\r\nheart-beat:10000,10000\r\n\r\n\0\r\n\
    SUBSCRIBE\nid:sub\\c0\ndestination:/blocks\n\n\0\0\
    SEND\ndestination:/w/api/account/get\ncontent-length:5\n\na\0\r\nb\0\
    SEND\ndestination:/w/api/node/info\n\nxyz\0DISCONNECT\n\n\0";

#[test]
fn a_stream_split_at_every_byte_yields_the_same_frames() {
    let whole = decode(&[STREAM]);
    assert_eq!((whole.0.len(), whole.1.len()), (5, 0));
    for at in 0..=STREAM.len() {
        let (left, right) = STREAM.split_at(at);
        assert_eq!(decode(&[left, right]), whole, "split at {at}");
    }
    let bytes: Vec<&[u8]> = STREAM.chunks(1).collect();
    assert_eq!(decode(&bytes), whole);
}

/// Fragments that resemble frames, so that random input gets beyond the command line.
fn stomp_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            &b"SEND\n"[..],
            b"CONNECT\r\n",
            b"SUBSCRIBE\n",
            b"\n",
            b"\r",
            b"\0",
            b"\n\n",
            b"id:1\n",
            b"content-length:3\n",
            b"content-length:65535\n",
            b"a:\\c\n",
            b"\\",
        ])
        .prop_map(<[u8]>::to_vec),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn a_stream_cut_anywhere_yields_the_same_frames(
        cuts in prop::collection::vec(0..=STREAM.len(), 0..12)
    ) {
        let mut cuts = cuts;
        cuts.sort_unstable();
        let mut messages = Vec::new();
        let mut from = 0;
        for to in cuts.into_iter().chain([STREAM.len()]) {
            messages.push(&STREAM[from..to]);
            from = to;
        }
        prop_assert_eq!(decode(&messages), decode(&[STREAM]));
    }

    #[test]
    fn encoded_frames_round_trip(
        headers in prop::collection::vec(("[a-z:\\\\\r\n]{1,9}", any::<String>()), 0..5),
        body in prop::collection::vec(any::<u8>(), 0..99),
    ) {
        let headers: Vec<_> = headers.into_iter().map(|(n, v)| (format!("x{n}"), v)).collect();
        let mut bytes = Vec::new();
        let borrowed = headers.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        encoder::frame(&mut bytes, "MESSAGE", borrowed, Some(&body));
        let (command, mut found, found_body) = one(&bytes);
        let length = found.pop().unwrap();
        prop_assert_eq!(length, ("content-length".to_owned(), body.len().to_string()));
        prop_assert_eq!((command, found, found_body), ("MESSAGE", headers, body));
    }

    #[test]
    fn random_input_neither_panics_nor_fills_the_buffer(
        messages in prop::collection::vec(stomp_like(), 0..20),
        limit in 0..200usize,
    ) {
        let mut decoder = Decoder::new(limit);
        for message in &messages {
            decode_with(&mut decoder, &[message]);
            prop_assert!(decoder.buffered() <= limit.max(1));
        }
    }

    #[test]
    fn a_random_message_without_errors_may_be_cut_anywhere(
        message in stomp_like(),
        at in any::<prop::sample::Index>(),
    ) {
        let whole = decode(&[&message]);
        if whole.1.is_empty() {
            let (left, right) = message.split_at(at.index(message.len() + 1));
            prop_assert_eq!(decode(&[left, right]), whole);
        }
    }
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

#[test]
fn connected_has_a_version_only_if_one_was_agreed() {
    assert_eq!(written(|out| encoder::connected(out, None)), b"CONNECTED\nheart-beat:0,0\n\n\0");
    assert_eq!(written(|out| encoder::connected(out, Some("1.2"))), b"CONNECTED\nversion:1.2\nheart-beat:0,0\n\n\0");
}

#[test]
fn receipt_has_no_content_length_and_error_always_has_one() {
    assert_eq!(written(|out| encoder::receipt(out, "close-1")), b"RECEIPT\nreceipt-id:close-1\n\n\0");
    assert_eq!(
        written(|out| encoder::error(out, "a:b\\\r\n", None)),
        b"ERROR\nmessage:a\\cb\\\\\\r\\n\ncontent-length:0\n\n\0"
    );
}

#[test]
fn a_message_is_the_bytes_of_test_vector_13() {
    let hex = "4d4553534147450a64657374696e6174696f6e3a2f626c6f636b732f6e65770a73756273637269\
               7074696f6e3a7375622d300a6d6573736167652d69643a31633838346639642d300a636f6e74656e\
               742d6c656e6774683a31340a0a7b22686569676874223a327d0d0a00";
    let bytes = [
        &written(|out| encoder::message_head(out, "/blocks/new", "sub-0", "1c884f9d", 0, 14)),
        &b"{\"height\":2}"[..],
        encoder::MESSAGE_END,
    ]
    .concat();
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(text, hex);
}

#[test]
fn the_first_value_of_a_repeated_header_wins() {
    let frame = Frame { command: "SEND", head: b"a:1\r\nb:x\\cy\\nz\\r\\\\\na:2\n", body: b"" };
    let picked = frame.pick(["b", "c", "a"]).map(|value| value.map(Cow::into_owned));
    assert_eq!(picked, [Some("x:y\nz\r\\".to_owned()), None, Some("1".to_owned())]);
    assert_eq!(frame.headers().count(), 3);
}

#[test]
fn a_command_is_one_of_fifteen_words() {
    assert!(COMMANDS.split(' ').all(|name| command_of(name.as_bytes()) == Ok(name)));
    for line in ["send", "SEND ", " SEND", "", "SENDX"] {
        assert!(command_of(line.as_bytes()).is_err(), "{line:?}");
    }
}

#[test]
fn the_value_keeps_its_blanks_and_further_colons() {
    assert_eq!(split_header(b"a: b:c "), Some((&b"a"[..], &b" b:c "[..])));
    assert_eq!(split_header(b":x"), None);
    assert_eq!(split_header(b"x"), None);
    assert_eq!(split_header(b"x:"), Some((&b"x"[..], &b""[..])));
}

#[test]
fn a_bad_or_trailing_escape_is_found_at_its_backslash() {
    assert_eq!(check_header(b"a:\\n\\r\\c\\\\"), Ok(()));
    for (value, index) in [(&b"ab\\x"[..], 2), (b"\\\\\\", 2), (b"\\", 0)] {
        let text = check_header(&[b"a:", value].concat()).unwrap_err().text;
        assert!(text.starts_with(&format!("Illegal escape sequence at index {index}: ")), "{text}");
    }
}

#[test]
fn bytes_that_are_not_utf8_become_replacement_characters() {
    assert_eq!(unescape(b"a\xffb\\c"), "a\u{fffd}b:");
}
