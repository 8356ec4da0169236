#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    nisd_fuzz::json_transaction_and_block::check(data);
});
