//! The files of the page, as they are compiled in and as they are sent.

use std::borrow::Cow;
use std::sync::LazyLock;

use crate::crypto::hash::keccak256;
use crate::net::http::StaticText;

pub const HTML: &str = "text/html;charset=utf-8";
const CSS: &str = "text/css;charset=utf-8";
const JAVASCRIPT: &str = "text/javascript;charset=utf-8";
/// Bytes of a hash that tell two versions of a text apart.
const VERSION_BYTES: usize = 12;

/// The page itself, in which names in braces stand for what it must know.
pub const INDEX: &str = include_str!("page/index.html");

macro_rules! sources {
    ($($module:literal)*) => {
        &[
            ("style.css", CSS, include_str!("page/style.css")),
            $(($module, JAVASCRIPT, include_str!(concat!("page/", $module))),)*
        ]
    };
}

/// What the page is made of besides: names, types and texts.
pub const SOURCES: &[(&str, &str, &str)] = sources!(
    "account.js" "address.js" "binary.js" "block.js" "chain.js" "dom.js" "figures.js" "format.js" "home.js" "keccak.js"
    "kinds.js" "lists.js" "live.js" "main.js" "message.js" "mosaics.js" "multisig.js" "names.js" "node.js" "parts.js" "peers.js"
    "plot.js" "pool.js" "reorgs.js" "ripemd.js" "search.js" "settings.js" "transaction.js" "transactions.js"
);

/// A part of the page.
pub struct Part {
    /// Below the path of the page.
    pub name: &'static str,
    pub text: StaticText,
}

/// All that the page is made of besides, and the folder in which it is told to be, which is named after its version.
pub struct Parts {
    pub files: Vec<Part>,
    pub folder: String,
}

/// The parts; the same for all nodes of a process.
pub static PARTS: LazyLock<Parts> = LazyLock::new(|| {
    let sources = SOURCES.iter();
    let parts = sources.map(|(name, media_type, text)| Part { name, text: ready(media_type, (*text).into()) });
    let files: Vec<_> = parts.collect();
    let folder = version(&files.iter().map(|part| part.text.version()).collect::<String>());
    Parts { files, folder }
});

/// A text, ready to be sent.
pub fn ready(media_type: &'static str, text: Cow<'static, str>) -> StaticText {
    let version = version(&text);
    StaticText::new(media_type, text, version)
}

/// What tells a text from others.
fn version(text: &str) -> String {
    hex::encode(&keccak256(text.as_bytes())[..VERSION_BYTES])
}
