//! See `odm_fuzz::file`.

#![no_main]

libfuzzer_sys::fuzz_target!(init: odm_fuzz::start(), |data: &[u8]| odm_fuzz::file(data));
