//! Any bytes as a `flows.json`: it is read or refused.

#![no_main]

use executors_flow_system::FlowsFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(flows) = FlowsFile::from_json(text) {
        let _ = flows.to_json();
    }
});
