#![no_main]

#[path = "../../tests/it/fuzz/server.rs"]
mod server;
#[path = "../../tests/it/fuzz/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::npz(bytes));
