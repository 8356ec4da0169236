#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    nisd_fuzz::store_files::check(data);
});
