//! See `odm_fuzz::decoding`.

#![no_main]

libfuzzer_sys::fuzz_target!(init: odm_fuzz::start(), |data: &[u8]| odm_fuzz::decoding(data));
