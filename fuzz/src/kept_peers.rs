//! The file of the nodes that are kept over a restart.

use nisd::peer::kept_peers::{MAX_KEPT, read, write};

/// Any file is read as nodes, none of them twice and no more than may be kept. What of them is written is read again, and
/// is the same, whatever stands before and behind it. Returns how many there are.
pub fn check(data: &[u8]) -> usize {
    let kept = read(data);
    assert!(kept.len() <= MAX_KEPT);
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
