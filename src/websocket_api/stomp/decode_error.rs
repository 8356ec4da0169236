//! Errors of decoding a STOMP frame, with NIS1's texts.

use std::fmt;

/// A decoding error. `Display` gives the `message` header of the ERROR frame, unescaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The command line is not a STOMP command.
    UnknownCommand(String),
    /// A body of `length` bytes on a frame that must not have one.
    UnexpectedBody {
        /// The command's name.
        command: &'static str,
        /// Length of the body in bytes.
        length: usize,
    },
    /// A header line without a name or without `:`.
    IllegalHeader(String),
    /// An unknown escape sequence or a trailing backslash.
    IllegalEscape {
        /// Position of the backslash, in UTF-16 code units.
        index: usize,
        /// The header name or value that contains it.
        text: String,
    },
    /// The frame has too many header lines.
    TooManyHeaders {
        /// The limit.
        limit: usize,
    },
    /// A CR without a following LF.
    LoneCarriageReturn,
    /// The byte after `content-length` bytes of body is not NUL.
    NotTerminated,
    /// `content-length` exceeds the limit for frames. The session must be closed.
    ContentLengthLimit {
        /// The announced length.
        length: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The frame exceeds the limit. The session must be closed.
    FrameLimit {
        /// The limit, in bytes.
        limit: usize,
    },
    /// `content-type` is not of the form `type/subtype`.
    IllegalContentType(String),
    /// A part of the `heart-beat` header of a CONNECT is not an integer.
    IllegalNumber(String),
}

impl DecodeError {
    /// Returns whether the session must be closed. NIS1 leaves it open but ignores its input; this node closes it with
    /// code 1002 after the ERROR frame.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::ContentLengthLimit { .. } | Self::FrameLimit { .. })
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownCommand(line) => {
                write!(f, "No enum constant org.springframework.messaging.simp.stomp.StompCommand.{line}")
            }
            Self::UnexpectedBody { command, length } => {
                write!(f, "{command} shouldn't have a payload: length={length}, headers={{}}")
            }
            Self::IllegalHeader(line) => {
                write!(f, "Illegal header: '{line}'. A header must be of the form <name>:[<value>].")
            }
            Self::IllegalEscape { index, text } => {
                write!(f, "Illegal escape sequence at index {index}: {text}")
            }
            Self::TooManyHeaders { limit } => write!(f, "A frame must not have more than {limit} headers"),
            Self::LoneCarriageReturn => f.write_str("'\\r' must be followed by '\\n'"),
            Self::NotTerminated => f.write_str("Frame must be terminated with a null octet"),
            Self::ContentLengthLimit { length, limit } => write!(
                f,
                "STOMP 'content-length' header value {length}  exceeds configured buffer size \
                 limit {limit}"
            ),
            Self::FrameLimit { limit } => {
                write!(f, "The configured STOMP buffer size limit of {limit} bytes has been exceeded")
            }
            Self::IllegalContentType(value) => {
                write!(f, "Invalid mime type \"{value}\": does not contain '/'")
            }
            Self::IllegalNumber(text) => write!(f, "For input string: \"{text}\""),
        }
    }
}

impl std::error::Error for DecodeError {}
