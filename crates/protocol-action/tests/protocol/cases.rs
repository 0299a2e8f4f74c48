//! Whole replies, each in a separate folder beside its expected reading. A bug report
//! becomes a folder.

use crate::common::tools;
use protocol_action::parse;

#[test]
fn cases() {
    insta::glob!("../cases", "**/input.txt", |path| {
        let input = std::fs::read_to_string(path).expect("a case is readable");
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(path.parent().expect("a case has a folder"));
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.remove_snapshot_suffix();
        settings.bind(|| insta::assert_debug_snapshot!("parsed", parse(&input, &tools())));
    });
}
