//! What is done to valid bytes, and bytes that never were valid.

use quorate_base::Rng;

/// Numbers at which lengths and offsets go wrong.
const EDGES: [i64; 14] = [
    -2,
    -1,
    0,
    1,
    127,
    128,
    255,
    i16::MAX as i64,
    i16::MAX as i64 + 1,
    i32::MAX as i64 - 1,
    i32::MAX as i64,
    i32::MIN as i64,
    i64::MAX,
    i64::MIN,
];

/// Changes a few places.
pub fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..=rng.below(4) {
        damage_once(bytes, rng);
    }
}

fn damage_once(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.below(bytes.len() as u64 + 1) as usize;
    let end = (at + rng.below(24) as usize).min(bytes.len());
    match rng.below(9) {
        0 => bytes.truncate(at),
        1 => bytes.extend(noise(rng, 40)),
        2 => drop(bytes.drain(at..end)),
        3 => bytes[at..end].fill(0xff),
        4 => {
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        5 => drop(bytes.splice(at..at, noise(rng, 12))),
        6 => {
            let number = EDGES[rng.below(EDGES.len() as u64) as usize].to_be_bytes();
            let width = [2, 4, 8][rng.below(3) as usize];
            if let Some(place) = bytes.get_mut(at..at + width) {
                place.copy_from_slice(&number[8 - width..]);
            }
        }
        7 if at < bytes.len() => bytes[at] = bytes[at].wrapping_add(1),
        _ if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
        _ => {}
    }
}

/// Fewer than `limit` bytes; half of the time small ones, which lead deeper into a format.
pub fn noise(rng: &mut Rng, limit: u64) -> Vec<u8> {
    let top = if rng.one_in(2) { 4 } else { 256 };
    (0..rng.below(limit)).map(|_| rng.below(top) as u8).collect()
}
