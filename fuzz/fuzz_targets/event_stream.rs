#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    nisd_fuzz::event_stream::check(data);
});
