//! Seeded randomness: one independent stream for each (seed, task, purpose).
//!
//! Streams have names and no numbers, so that a new use of randomness (a fault, another law) does
//! not change the numbers that other streams draw. PCG-64's output is the same in every version.

use rand_pcg::Pcg64;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// The stream of `seed` for `purpose`, a path such as `["worker:3", "straggler"]`.
pub fn stream(seed: u64, purpose: &[&str]) -> Pcg64 {
    let name = purpose.join("\0");
    let state = xxh3_128_with_seed(name.as_bytes(), seed);
    let sequence = xxh3_128_with_seed(name.as_bytes(), !seed);
    Pcg64::new(state, sequence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn streams_repeat_by_name_and_differ_by_seed_task_and_purpose() {
        let draw = |seed, purpose: &[&str]| stream(seed, purpose).next_u64();
        assert_eq!(draw(7, &["worker:0", "data"]), draw(7, &["worker:0", "data"]));
        let others = [
            draw(8, &["worker:0", "data"]),
            draw(7, &["worker:1", "data"]),
            draw(7, &["worker:0", "law"]),
        ];
        assert!(others.iter().all(|other| *other != draw(7, &["worker:0", "data"])));
    }
}
