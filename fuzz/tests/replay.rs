//! Each target on fixed inputs: what the fuzzer has found before, and some that nobody has chosen.

use std::fs;
use std::path::Path;

/// How many inputs of chance each target gets, and how long they are at most.
const INPUTS: u64 = 300;
const LENGTH: u64 = 600;

/// The same numbers for the same seed (splitmix64).
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *seed;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

fn run(name: &str) {
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
    for number in 0..INPUTS {
        let mut seed = number;
        let length = next(&mut seed) % LENGTH;
        let bytes: Vec<u8> = (0..length).map(|_| next(&mut seed) as u8).collect();
        target(&bytes);
    }
}

#[test]
fn bson() {
    run("bson");
}

#[test]
fn file() {
    run("file");
}

#[test]
fn filter() {
    run("filter");
}

#[test]
fn keys() {
    run("keys");
}

#[test]
fn reading() {
    run("reading");
}

#[test]
fn stored() {
    run("stored");
}

#[test]
fn update() {
    run("update");
}
