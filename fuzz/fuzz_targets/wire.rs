//! See `odm_fuzz::wire`.

#![no_main]

libfuzzer_sys::fuzz_target!(init: odm_fuzz::start(), |data: &[u8]| odm_fuzz::wire(data));
