//! Repairs with one meaning, each by name: tables of tiny cases, whole and in pieces.

use crate::common::{check, check_error};

#[test]
fn a_line_of_its_own_has_no_layout_in_its_value() {
    let layout = |value: &str, read: &str| {
        let repaired = if read == value { "" } else { " | ! value_layout" };
        check(
            &format!("<ACTION><find><query>{value}</query></find></ACTION>"),
            &format!("find(query={read:?}){repaired}"),
        );
    };
    layout("\n    dock\n  ", "dock");
    layout("\r\n\tdock \r\n", "dock");
    layout("\n  two words  \n", "two words");
    layout("\n  a &amp; b\n", "a & b");
    layout(" dock ", " dock ");
    layout("dock\n", "dock\n");
}

#[test]
fn several_lines_keep_their_indentation() {
    let value = |value: &str, read: &str| {
        check(
            &format!("<ACTION><find><query>{value}</query></find></ACTION>"),
            &format!("find(query={read:?})"),
        );
    };
    value("\n    a\n  b\n  ", "    a\n  b");
    value("\n\n  a\n", "\n  a");
    value("\ndock\n  ", "dock");
    value("\n    a&#10;b", "    a\nb");
    value("<![CDATA[\n  dock\n]]>", "  dock");
    value("\n  <![CDATA[ dock ]]>\n", " dock ");
    check(
        "<ACTION><event><type>\n  t\n</type><extra>\n  x\n</extra></event></ACTION>",
        "event(type=\"t\", extra=\"  x\") | ! value_layout",
    );
    check(
        "<ACTION><send><to><item>\n  a\n  </item></to><body>x</body></send></ACTION>",
        "send(to={item=\"a\"}, body=\"x\") | ! value_layout",
    );
}

#[test]
fn text_alone_is_the_one_required_string() {
    check("<ACTION><find>dock</find></ACTION>", "find(query=\"dock\") | ! bare_text");
    check("<ACTION><find>\n  a &lt; b < c\n</find></ACTION>", "find(query=\"a < b < c\") | ! bare_text");
    check("<ACTION><tool name=\"find\">dock</tool></ACTION>", "find(query=\"dock\") | ! bare_text");
    check("<ACTION><find>dock</find><ping/></ACTION>", "find(query=\"dock\") | ping() | ! bare_text");
    let outside = "text outside of a parameter";
    check_error("<ACTION><find>dock <query>x</query></find></ACTION>", outside);
    check_error(
        "<ACTION><find><query>x</query> dock</find></ACTION>",
        "text behind `</query>`, outside of a parameter",
    );
    check_error("<ACTION><write_file>dock</write_file></ACTION>", outside);
    check_error("<ACTION><ping>now</ping></ACTION>", outside);
    check_error("<ACTION><find>dock", outside);
}

#[test]
fn names_are_those_that_the_schema_has() {
    check(
        "<ACTION><foo><城市>上海</城市><user.name>a</user.name></foo></ACTION>",
        "foo(城市=\"上海\", user.name=\"a\")",
    );
    check("<ACTION><foo><$filter>a</$filter></foo></ACTION>", "foo($filter=\"a\")");
}
