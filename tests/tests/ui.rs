//! Misuse does not compile, and the message is at the user's token, with a remedy and without noise.
//!
//! Each `ui/<topic>/<mistake>.rs` is one mistake (or a few of one kind), its `.stderr` what the compiler says.
//! `TRYBUILD=overwrite cargo test -p odm-tests --test ui` writes the latter anew: read what changed.

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("ui/*/*.rs");
}
