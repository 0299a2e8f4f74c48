//! A value never swallows its only close tag: tables of tiny cases, whole and in pieces.

use crate::common::{check, check_error};

#[test]
fn the_only_close_tag_ends_a_value() {
    let behind = "text behind `</path>`, outside of a parameter";
    check_error("<ACTION><read_file><path>notes/x</path> (the old one)</read_file></ACTION>", behind);
    check_error("<ACTION><read_file><path>a</path>\n```\n</read_file></ACTION>", behind);
    check_error(
        "<ACTION><read_file><path>a</path> <!-- c --> x<limit>5</limit></read_file></ACTION>",
        behind,
    );
    check_error("<ACTION><write_file><path>a</path> words<content>x</content></write_file></ACTION>", behind);
    check_error("<ACTION><read_file><path><![CDATA[a]]></path> (old)</read_file></ACTION>", behind);
    check_error(
        "<ACTION><read_file><path>a</path> (old)</read_file><read_file><path>b</path></read_file></ACTION>",
        behind,
    );
    check_error(
        "<ACTION><read_file><limit>5</limit> (old)</read_file></ACTION>",
        "text behind `</limit>`, outside of a parameter",
    );
    check_error(
        "<ACTION><address><home><street>a</street> words<city>b</city></home></address></ACTION>",
        "text behind `</street>`, outside of a parameter",
    );
}

#[test]
fn two_items_never_become_one() {
    let behind = "text behind `</item>`, outside of a parameter";
    check_error(
        "<ACTION><send><to><item>a</item> x<item>b</item></to><body>y</body></send></ACTION>",
        behind,
    );
    check_error("<ACTION><send><to><item>a</item>, <item>b</item></to></send></ACTION>", behind);
    check_error("<ACTION><send><to><item>a</item> x</to></send></ACTION>", behind);
}

#[test]
fn other_forms_have_the_same_rule() {
    let behind = "text behind `</param>`, outside of a parameter";
    check_error(
        "<tool_call name=\"write_file\"><param name=\"path\">a</param> x<param name=\"content\">b</param></tool_call>",
        behind,
    );
    check_error("<ACTION><write_file><param name=\"path\">a</param> (old)</write_file></ACTION>", behind);
    check_error(
        "<tool_use><tool_name>read_file</tool_name><parameters><path>a</path> (old)</parameters></tool_use>",
        "text behind `</path>`, outside of a parameter",
    );
}

#[test]
fn a_close_tag_is_data_where_a_later_one_ends_the_value() {
    check(
        "<ACTION><write_file><content>see </content> and more</content></write_file></ACTION>",
        "write_file(content=\"see </content> and more\") | ! raw_markup",
    );
    check(
        "<ACTION><write_file><content>a</content> b <content>c</content> d</content></write_file></ACTION>",
        "write_file(content=\"a</content> b <content>c</content> d\") | ! raw_markup",
    );
    check(
        "<ACTION><write_file><content>a</content> b</content><zzz>1</zzz></write_file></ACTION>",
        "write_file(content=\"a</content> b\", zzz=\"1\") | ! raw_markup",
    );
    check("<ACTION><foo><a>x</a> words</foo></ACTION>", "foo(a=\"x</a> words\") | ! missing_close");
}
