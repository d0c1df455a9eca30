//! See `odm_fuzz::find`.

#![no_main]

libfuzzer_sys::fuzz_target!(init: odm_fuzz::start(), |data: &[u8]| odm_fuzz::find(data));
