//! Any bytes as a workflow file: it is read or refused, and what is read is written back as it was.

#![no_main]

use libfuzzer_sys::fuzz_target;
use workflow_model::Workflow;

fuzz_target!(|text: &str| {
    if let Ok(workflow) = Workflow::from_json(text) {
        let again = Workflow::from_json(&workflow.to_json()).expect("what was written can be read");
        assert_eq!(again, workflow);
    }
});
