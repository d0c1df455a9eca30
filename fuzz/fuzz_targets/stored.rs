//! See `odm_fuzz::stored`.

#![no_main]

libfuzzer_sys::fuzz_target!(init: odm_fuzz::start(), |data: &[u8]| odm_fuzz::stored(data));
