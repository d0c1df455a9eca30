//! Runs each target on fixed inputs: earlier findings of the fuzzer, and pseudo-random inputs.

use std::fs;
use std::path::Path;

/// The maximum length of pseudo-random inputs.
const MAX_INPUT_BYTES: u64 = 2400;

/// Returns the next number of the seed (splitmix64).
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *seed;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Runs a target on the regression inputs, and on a number of pseudo-random inputs.
fn run(name: &str, inputs: u64) {
    let (_, target) = odm_fuzz::TARGETS
        .iter()
        .find(|(known, _)| *known == name)
        .unwrap();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("regressions")
        .join(name);
    for file in fs::read_dir(kept).into_iter().flatten() {
        target(&fs::read(file.unwrap().path()).unwrap());
    }
    for number in 0..inputs {
        let mut seed = number;
        let length = next(&mut seed) % MAX_INPUT_BYTES;
        let bytes: Vec<u8> = (0..length).map(|_| next(&mut seed) as u8).collect();
        target(&bytes);
    }
}

#[test]
fn bson() {
    run("bson", 300);
}

#[test]
fn decoding() {
    run("decoding", 60);
}

#[test]
fn file() {
    run("file", 60);
}

#[test]
fn filter() {
    run("filter", 600);
}

#[test]
fn keys() {
    run("keys", 300);
}

#[test]
fn pipeline() {
    run("pipeline", 600);
}

#[test]
fn find() {
    run("find", 600);
}

#[test]
fn stored() {
    run("stored", 20);
}

#[test]
fn wire() {
    run("wire", 600);
}

#[test]
fn update() {
    run("update", 600);
}
