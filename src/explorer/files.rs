//! The compiled-in files of the page.

use std::borrow::Cow;
use std::sync::LazyLock;

use crate::crypto::hash::keccak256;
use crate::net::http::StaticText;

pub const HTML: &str = "text/html;charset=utf-8";
const CSS: &str = "text/css;charset=utf-8";
const JAVASCRIPT: &str = "text/javascript;charset=utf-8";
/// Bytes of the hash that identifies a version of a text.
const VERSION_BYTES: usize = 12;

/// The page itself, with placeholders in braces.
pub const INDEX: &str = include_str!("page/index.html");

macro_rules! sources {
    ($($module:literal)*) => {
        &[
            ("style.css", CSS, include_str!("page/style.css")),
            $(($module, JAVASCRIPT, include_str!(concat!("page/", $module))),)*
        ]
    };
}

/// The other files of the page: names, media types and texts.
pub const SOURCES: &[(&str, &str, &str)] = sources!(
    "account.js" "address.js" "binary.js" "block.js" "chain.js" "dom.js" "figures.js" "format.js" "home.js" "keccak.js"
    "kinds.js" "lists.js" "live.js" "main.js" "message.js" "mosaics.js" "multisig.js" "names.js" "node.js" "parts.js" "peers.js"
    "plot.js" "pool.js" "reorgs.js" "ripemd.js" "search.js" "settings.js" "transaction.js" "transactions.js"
);

/// A file of the page.
pub struct PageFile {
    /// Name below the path of the page.
    pub name: &'static str,
    pub text: StaticText,
}

/// All files of the page, and their folder, which is named after their version.
pub struct PageFiles {
    pub files: Vec<PageFile>,
    pub folder: String,
}

/// The files; the same for all nodes of a process.
pub static PAGE_FILES: LazyLock<PageFiles> = LazyLock::new(|| {
    let sources = SOURCES.iter();
    let parts =
        sources.map(|(name, media_type, text)| PageFile { name, text: static_text(media_type, (*text).into()) });
    let files: Vec<_> = parts.collect();
    let folder = version(&files.iter().map(|part| part.text.version()).collect::<String>());
    PageFiles { files, folder }
});

/// Prepares a text for sending.
pub fn static_text(media_type: &'static str, text: Cow<'static, str>) -> StaticText {
    let version = version(&text);
    StaticText::new(media_type, text, version)
}

/// Returns the version of a text, a hash.
fn version(text: &str) -> String {
    hex::encode(&keccak256(text.as_bytes())[..VERSION_BYTES])
}
