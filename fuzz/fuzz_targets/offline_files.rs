#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    nisd_fuzz::offline_files::check(data);
});
