#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    nisd_fuzz::key_files::check(data);
});
