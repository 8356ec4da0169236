//! Fuzz target: the file of peers kept over restarts.

use nisd::peer::saved_peers::{MAX_SAVED, read, write};

/// Checks that any file is read as peers, without duplicates and within the limit, and that they are the same after
/// writing and reading them again, whatever surrounds them. Returns their number.
pub fn check(data: &[u8]) -> usize {
    let kept = read(data);
    assert!(kept.len() <= MAX_SAVED);
    let mut keys: Vec<_> = kept.iter().map(|peer| peer.info.identity.key).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), kept.len());
    assert!(kept.is_sorted_by(|one, other| one.answered >= other.answered));
    assert!(kept.iter().all(|peer| peer.info.endpoint.to_connect().is_some()));
    let text = write(&kept);
    assert_eq!(read(&text), kept);
    assert_eq!(read(&[b"\n{\n\xff\n".as_slice(), &text, b"{\"publicKey\""].concat()), kept);
    kept.len()
}
