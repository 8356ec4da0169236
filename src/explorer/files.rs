//! The files of the page, as they are compiled in and as they are sent.

use std::borrow::Cow;
use std::io::Write;
use std::sync::{LazyLock, OnceLock};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::crypto::hash::keccak256;
use crate::net::http::Request;

const HTML: &str = "text/html;charset=utf-8";
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
    "kinds.js" "live.js" "main.js" "message.js" "mosaics.js" "multisig.js" "names.js" "node.js" "parts.js" "peers.js"
    "plot.js" "pool.js" "ripemd.js" "search.js" "settings.js" "transaction.js" "transactions.js"
);

/// A file, ready to be sent.
pub struct File {
    /// Below the path of the page.
    pub name: &'static str,
    pub media_type: &'static str,
    pub plain: Cow<'static, str>,
    /// Its entity tag: a weak one, as it is the same whether the file is compressed or not.
    pub tag: String,
    packed: OnceLock<Vec<u8>>,
}

/// All that the page is made of besides, and the folder in which it is told to be, which is named after its version.
pub struct Parts {
    pub files: Vec<File>,
    pub folder: String,
}

/// The parts; the same for all nodes of a process.
pub static PARTS: LazyLock<Parts> = LazyLock::new(|| {
    let sources = SOURCES.iter();
    let files: Vec<_> = sources.map(|(name, media_type, text)| File::new(name, media_type, (*text).into())).collect();
    let folder = version(&files.iter().map(|file| file.tag.as_str()).collect::<String>());
    Parts { files, folder }
});

impl File {
    /// The page itself, complete.
    pub fn index(text: String) -> File {
        File::new("", HTML, text.into())
    }

    fn new(name: &'static str, media_type: &'static str, plain: Cow<'static, str>) -> File {
        let tag = format!("W/\"{}\"", version(&plain));
        File { name, media_type, plain, tag, packed: OnceLock::new() }
    }

    /// The file compressed, which is done once.
    pub fn packed(&self) -> &[u8] {
        self.packed.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            // Memory takes everything.
            drop(encoder.write_all(self.plain.as_bytes()));
            encoder.finish().unwrap_or_default()
        })
    }

    /// Whether the client says that it has this version.
    pub fn is_known_to(&self, request: &Request<'_>) -> bool {
        fn opaque(tag: &str) -> &str {
            let tag = tag.trim();
            tag.strip_prefix("W/").unwrap_or(tag)
        }
        let mut known = request.header_values("If-None-Match").flat_map(|value| value.split(','));
        known.any(|tag| tag.trim() == "*" || opaque(tag) == opaque(&self.tag))
    }
}

/// What tells a text from others.
fn version(text: &str) -> String {
    hex::encode(&keccak256(text.as_bytes())[..VERSION_BYTES])
}
