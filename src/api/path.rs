//! Normalization of paths: several spellings map to the same route.

use super::media::Accept;
use super::percent;

/// A normalized path.
#[derive(Debug, PartialEq, Eq)]
pub struct NormalisedPath {
    /// Path without its last extension.
    pub path: String,
    /// Extension, without its dot.
    pub extension: Option<String>,
}

impl NormalisedPath {
    /// Returns the format that the extension requests.
    pub fn accept(&self) -> Option<Accept<'static>> {
        self.extension.as_deref().map(Accept::by_extension)
    }
}

/// Result of normalizing a path.
#[derive(Debug, PartialEq, Eq)]
pub enum PathForm {
    /// The path was in another form and may have a route in this one.
    Normalised(NormalisedPath),
    /// The path is in plain form.
    Plain,
    /// The path is malformed; the web container rejects it.
    Malformed,
}

/// Strips one trailing slash, which any path may have.
pub fn without_trailing_slash(path: &str) -> &str {
    match path.strip_suffix('/') {
        Some("") | None => path,
        Some(shorter) => shorter,
    }
}

/// Collapses slashes, decodes escapes, strips path parameters and splits off the extension.
pub fn normalise(raw: &str) -> PathForm {
    if !raw.bytes().any(|byte| matches!(byte, b'%' | b';' | b'.')) && !raw.contains("//") {
        return PathForm::Plain;
    }
    let Some(decoded) = decode_path(raw) else { return PathForm::Malformed };
    if escapes_root(&decoded) {
        return PathForm::Malformed;
    }
    let mut path = String::with_capacity(decoded.len());
    for segment in decoded.split('/').filter(|segment| !segment.is_empty()) {
        path.push('/');
        path.push_str(segment);
    }
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    let dot = path[name..].rfind('.').map(|dot| name + dot);
    let extension = dot.map(|dot| path[dot + 1..].to_owned());
    path.truncate(dot.unwrap_or(path.len()));
    PathForm::Normalised(NormalisedPath { path, extension })
}

/// Decodes escapes and strips path parameters, which end with their segment.
fn decode_path(raw: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(raw.len());
    for (index, segment) in raw.split('/').enumerate() {
        if index > 0 {
            decoded.push(b'/');
        }
        let plain = segment.split(';').next().unwrap_or_default();
        // Escapes in parameters must be well-formed too.
        percent::decode(segment, false)?;
        decoded.extend(percent::decode(plain, false)?);
    }
    String::from_utf8(decoded).ok().filter(|path| !path.contains('\0'))
}

fn escapes_root(path: &str) -> bool {
    let mut depth = 0usize;
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => match depth.checked_sub(1) {
                Some(above) => depth = above,
                None => return true,
            },
            _ => depth += 1,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusual_path_spellings_are_normalised() {
        for (raw, extension) in [
            ("//chain//height", None),
            ("/chain/height;a=b", None),
            ("/chain;x/height", None),
            ("/chain%2Fheight", None),
            ("/%63hain/height", None),
            ("/chain/height.json", Some("json")),
            ("/chain/height.foo", Some("foo")),
            ("//chain/height/", None),
        ] {
            let PathForm::Normalised(normalised) = normalise(raw) else { panic!("{raw}") };
            assert_eq!((normalised.path.as_str(), normalised.extension.as_deref()), ("/chain/height", extension));
        }
        assert_eq!(normalise("/chain/height"), PathForm::Plain);
        assert_eq!(without_trailing_slash("/chain/height/"), "/chain/height");
        assert_eq!(without_trailing_slash("/"), "/");
    }

    #[test]
    fn dots_are_not_resolved() {
        for raw in ["/chain/./height", "/chain/../chain/height", "/chain/height%20"] {
            let PathForm::Normalised(normalised) = normalise(raw) else { panic!("{raw}") };
            assert_ne!(normalised.path, "/chain/height", "{raw}");
        }
    }

    #[test]
    fn malformed_paths_are_rejected() {
        for raw in ["/../x", "/chain/%00", "/chain/height%", "/%ff", "/a/../../b", "/a;%zz"] {
            assert_eq!(normalise(raw), PathForm::Malformed, "{raw}");
        }
    }
}
