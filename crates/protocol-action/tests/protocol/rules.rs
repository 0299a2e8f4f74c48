//! Reading rules as tables: what is read of each text, in the notation of `common::short`.

use crate::common::{check, check_with};
use protocol_action::FinishReason;

/// Rule 1: where a block opens.
#[test]
fn openers_in_prose() {
    check("\u{feff}<ACTION><ping/></ACTION>", "ping()");
    check(
        "The `<ACTION>` tag opens, `</ACTION>` closes.\n<ACTION><ping/></ACTION>",
        "\"The `<ACTION>` tag opens, `</ACTION>` closes.\" | ping()",
    );
    check("Use <ACTION></ACTION> around calls.", "\"Use\" | then \"around calls.\" | ! empty_action");
    check("Between <ACTION> and </ACTION> is a call.", "\"Between <ACTION> and </ACTION> is a call.\"");
    check("<action><ping/></action>", "ping()");
    check("<Action >\n  <ping/>\n</ACTION>", "ping()");
    check(
        "> quoted <ACTION><ping/></ACTION>\n> more\nreal: <ACTION><ping/></ACTION>",
        "\"> quoted <ACTION><ping/></ACTION>\\n> more\\nreal:\" | ping() | ! opener_ignored",
    );
    check(
        "   > indented quote <ACTION><ping/></ACTION>",
        "\"> indented quote <ACTION><ping/></ACTION>\" | ! opener_ignored",
    );
    check("Observation: x\n<ACTION><ping/></ACTION>", "\"Observation: x\" | ping()");
    check(
        "<example>\n<ACTION><ping/></ACTION>\n</example>",
        "\"<example>\\n<ACTION><ping/></ACTION>\\n</example>\" | ! opener_ignored",
    );
    check(
        "<example>\n<ACTION><ping/></ACTION>\n</example>\n<ACTION><read_file><path>a</path></read_file></ACTION>",
        "\"<example>\\n<ACTION><ping/></ACTION>\\n</example>\" | read_file(path=\"a\") | ! opener_ignored",
    );
    check("<div>\nI start. <ACTION><ping/></ACTION>", "\"<div>\\nI start.\" | ping()");
    check(
        "I use Vec<String> and <b>bold</b>: <ACTION><ping/></ACTION> </String>",
        "\"I use Vec<String> and <b>bold</b>:\" | ping() | then \"</String>\"",
    );
    check(
        "{\"answer\": \"use <ACTION><ping/></ACTION>\"}",
        "\"{\\\"answer\\\": \\\"use <ACTION><ping/></ACTION>\\\"}\" | ! opener_ignored",
    );
    check("[1] first source. <ACTION><ping/></ACTION>", "\"[1] first source.\" | ping()");
    check("[Note \"x] <ACTION><ping/></ACTION>", "\"[Note \\\"x]\" | ping()");
    check(
        "[\"<ACTION><ping/></ACTION>\"] <ACTION><ping/></ACTION>",
        "\"[\\\"<ACTION><ping/></ACTION>\\\"]\" | ping() | ! opener_ignored",
    );
    check(
        "```xml\n<ACTION><ping/></ACTION>\n```\nNow: <ACTION><ping/></ACTION>",
        "\"```xml\\n<ACTION><ping/></ACTION>\\n```\\nNow:\" | ping() | ! opener_ignored",
    );
    check(
        "````\n```\n<ACTION><ping/></ACTION>\n```\n````\n<ACTION><ping/></ACTION>",
        "\"````\\n```\\n<ACTION><ping/></ACTION>\\n```\\n````\" | ping() | ! opener_ignored",
    );
    check(
        "- item\n  ```\n  <ACTION><ping/></ACTION>\n  ```\n<ACTION><ping/></ACTION>",
        "\"- item\\n  ```\\n  <ACTION><ping/></ACTION>\\n  ```\" | ping() | ! opener_ignored",
    );
    check(
        "```unclosed\n<ACTION><ping/></ACTION>",
        "\"```unclosed\\n<ACTION><ping/></ACTION>\" | ! opener_ignored",
    );
    check(
        "Text ``a `<ACTION><ping/></ACTION>` b`` then\n<ACTION><ping/></ACTION>",
        "\"Text ``a `<ACTION><ping/></ACTION>` b`` then\" | ping() | ! opener_ignored",
    );
    check("A lone ` tick\n<ACTION><ping/></ACTION>", "\"A lone ` tick\" | ping()");
    check(
        "<!-- <ACTION><ping/></ACTION> -->\n<ACTION><read_file><path>p</path></read_file></ACTION>",
        "\"<!-- <ACTION><ping/></ACTION> -->\" | read_file(path=\"p\") | ! opener_ignored",
    );
    check("<!-- never closed <ACTION><ping/></ACTION>", "\"<!-- never closed\" | ping()");
    check("<ACTION>\n```xml\n<ping/>\n```\n</ACTION>", "ping() | ! fenced_block fenced_block");
    check(
        "```\n<ACTION>\n<ping/>\n</ACTION>\n```",
        "\"```\\n<ACTION>\\n<ping/>\\n</ACTION>\\n```\" | ! opener_ignored",
    );
    check("<ACTION>", "\"<ACTION>\"");
    check("<ACTION>\n<", "! truncated");
    check("<ACTION>\n<pin", "! truncated");
    check_with("<ACTION>\n<ping/>", FinishReason::Length, "ping() | ! truncated");
}

/// Rule 7: what runs when the end is missing.
#[test]
fn ends_of_blocks() {
    check_with("<ACTION><ping/></ACTION>", FinishReason::Length, "ping()");
    check("<ACTION><ping/></ACTION", "ping() | ! mangled_close missing_close");
    check("<ACTION><ping/></", "ping() | ! mangled_close missing_close");
    check("<ACTION><ping/>", "ping() | ! missing_close");
    check("<ACTION><ping/>\nI have called it.", "ping() | then \"I have called it.\" | ! missing_close");
    check(
        "<ACTION><ping/>\nI have called it. <ACTION><ping/></ACTION>",
        "ping() | then \"I have called it.\" | ! missing_close second_block",
    );
    check("<ACTION><ping/></ping></ACTION>", "ping() | ! mangled_close");
    check("<ACTION><ping></ping></ping></ACTION>", "ping() | ! mangled_close");
    check("<ACTION><ping/></foo></ACTION>", "ping() | ! malformed_xml");
    check("<ACTION><ping/></tool></ACTION> after", "ping() | then \"after\" | ! malformed_xml");
    check("<think>a</think><ACTION><ping/></ACTION>", "thought \"a\" | ping()");
}

/// Rule 2: what is reasoning.
#[test]
fn reasoning() {
    check(
        "<thinking>\na <ACTION><ping/></ACTION>\n</thinking>\n\n<ACTION><read_file><path>x</path></read_file></ACTION>",
        "thought \"a <ACTION><ping/></ACTION>\" | read_file(path=\"x\")",
    );
    check(
        "I think <ACTION><ping/></ACTION>\n</think>\nHello <ACTION><read_file><path>x</path></read_file></ACTION>",
        "\"Hello\" | thought \"I think <ACTION><ping/></ACTION>\" | read_file(path=\"x\")",
    );
    check("Plan.\n</think>\n\nAnswer.", "\"Answer.\" | thought \"Plan.\"");
    check(
        "Maybe <ACTION><search> with the query...\n</think>\nFine.\n<ACTION><read_file><path>x</path></read_file></ACTION>",
        "\"Fine.\" | thought \"Maybe <ACTION><search> with the query...\" | read_file(path=\"x\")",
    );
    check(
        "Mid <think> open never closed <ACTION><ping/></ACTION>",
        "\"Mid <think> open never closed\" | ping()",
    );
    check("Mid <think>closed</think> <ACTION><ping/></ACTION>", "\"Mid\" | thought \"closed\" | ping()");
    check(
        "The tags `<think>` and `</think>`\nare used. <ACTION><ping/></ACTION>",
        "\"The tags `<think>` and `</think>`\\nare used.\" | ping()",
    );
    check(
        "<think>\nNow <ACTION><ping/></ACTION>",
        "thought \"Now <ACTION><ping/></ACTION>\" | ! action_in_reasoning",
    );
    check("<think>\nNow <ACTION><ping>", "thought \"Now <ACTION><ping>\"");
    check(
        "<ACTION><ping/></ACTION>\n<think>after</think> done",
        "thought \"after\" | ping() | then \"done\"",
    );
}

/// Rule 3: where a string ends.
#[test]
fn ends_of_strings() {
    check(
        "<ACTION><write_file><path>a</path><content>x <b>y</b> <path>p</path> z</content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"x <b>y</b> <path>p</path> z\") | ! raw_markup",
    );
    check(
        "<ACTION><write_file><path>a</path><content>say </content></write_file></ACTION> to end</content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"say \") | then \"to end</content></write_file></ACTION>\" | ! malformed_xml",
    );
    check(
        "<ACTION><write_file><path>a</path><content>Use <write_file><path>x</path><content>y</content></write_file> like so</content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"Use <write_file><path>x</path><content>y\") | ! raw_markup raw_markup malformed_xml",
    );
    check(
        "<ACTION><write_file><path>a</path><content>one</content></content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"one\") | ! mangled_close",
    );
    check(
        "<ACTION><write_file><path>a</path><content>one</content>\n</content>\n</write_file></ACTION>",
        "write_file(path=\"a\", content=\"one\") | ! mangled_close",
    );
    check(
        "<ACTION><write_file><path>a</path><content>a <content> b</content></content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"a <content> b</content>\") | ! raw_markup",
    );
    check(
        "<ACTION><write_file><path>a</path><content>one</content></content></content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"one\") | ! mangled_close",
    );
    check(
        "<ACTION><write_file><path>a</path><content>one\n</write_file></ACTION>",
        "write_file(path=\"a\", content=\"one\") | ! missing_close",
    );
    check(
        "<ACTION><write_file><path>a<content>one</content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"one\") | ! missing_close",
    );
    check(
        "<ACTION><write_file><path>a</filename><content>one</text></write_file></ACTION>",
        "write_file(path=\"a\", content=\"one\") | ! missing_close",
    );
    check(
        "<ACTION><write_file><path>a</path><content><p>one</p></write_file></ACTION>",
        "write_file(path=\"a\", content=\"<p>one</p>\") | ! missing_close raw_markup",
    );
    check(
        "<ACTION><write_file><path>a</path><content>one</write_file><write_file><path>b</path><content>two</content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"one\") | write_file(path=\"b\", content=\"two\") | ! missing_close",
    );
    check(
        "<ACTION><write_file><path>a</path><content>one</write_file></ACTION> and <ACTION><write_file><path>b</path><content>two</content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"one\") | then \"and\" | ! missing_close second_block",
    );
    check(
        "<ACTION><write_file><path>a</path><content>one</content><mode>x</mode></write_file></ACTION>",
        "write_file(path=\"a\", content=\"one\", mode=\"x\")",
    );
    check(
        "<ACTION><write_file><path>a</path><mode>x</mode><content>has </path> in it</content></write_file></ACTION>",
        "write_file(path=\"a\", mode=\"x\", content=\"has </path> in it\") | ! raw_markup",
    );
    check("<ACTION><write_file><path>a</path><content>one</ACTION>", "! malformed_xml");
}

/// Rule 3: ends beside comments, names that clash, nested strings, lists.
#[test]
fn ends_beside_other_things() {
    check("<ACTION><write_file><path>a</path></ACTION>", "! malformed_xml");
    check("<ACTION><write_file><path>a</path><content>one</content>", "! truncated");
    check(
        "<ACTION><write_file><path>a</path><content>one</content></write_file>",
        "write_file(path=\"a\", content=\"one\") | ! missing_close",
    );
    check(
        "<ACTION><write_file><path>a</path><content>one</write_file>",
        "write_file(path=\"a\", content=\"one\") | ! missing_close truncated",
    );
    check(
        "<ACTION><write_file><path>a</path><content>one <!-- c --></content><!-- d --></write_file></ACTION>",
        "write_file(path=\"a\", content=\"one <!-- c -->\") | ! raw_markup",
    );
    check(
        "<ACTION><do><action>run</action><target>x</target></do></ACTION>",
        "do(action=\"run\", target=\"x\")",
    );
    check(
        "<ACTION><do><target>x</target><action>run </action> it</action></do></ACTION>",
        "do(target=\"x\", action=\"run </action> it\") | ! raw_markup",
    );
    check("<ACTION><note><note>remember</note></note></ACTION>", "note(note=\"remember\")");
    check(
        "<ACTION><note><note>re </note> member</note></note></ACTION>",
        "note(note=\"re </note> member\") | ! raw_markup",
    );
    check(
        "<ACTION><address><home><street>Main <b>St</b></street><city>X</city><zip> 5 </zip></home></address></ACTION>",
        "address(home={street=\"Main <b>St</b>\", city=\"X\", zip=\" 5 \"}) | ! raw_markup",
    );
    check(
        "<ACTION><address><home><street>Main</streets><city>X</city></home></address></ACTION>",
        "address(home={street=\"Main\", city=\"X\"}) | ! missing_close",
    );
    check("<ACTION><address><home><street>Main</street><city>X</city></address></ACTION>", "! malformed_xml");
    check(
        "<ACTION><address><home><street>see </home> x</street></home></address></ACTION>",
        "address(home={street=\"see </home> x\"}) | ! raw_markup",
    );
    check(
        "<ACTION><send><to><item>a</item><item>b <i>c</i></item></to><body>x</body></send></ACTION>",
        "send(to={item=\"a\", item=\"b <i>c</i>\"}, body=\"x\") | ! raw_markup",
    );
    check(
        "<ACTION><send><to>a</to><to>b</to><body>x</body></send></ACTION>",
        "send(to=\"a\", to=\"b\", body=\"x\")",
    );
}

/// Rule 6: elements without a string, and what is not typed here.
#[test]
fn trees() {
    check(
        "<ACTION><send><to>[\"a\", \"b\"]</to><body>x</body></send></ACTION>",
        "send(to=\"[\\\"a\\\", \\\"b\\\"]\", body=\"x\")",
    );
    check(
        "<ACTION><many><args><file><path>a</path></file><file><path>b</path><why>x < y</why></file></args></many></ACTION>",
        "many(args={file={path=\"a\"}, file={path=\"b\", why=\"x < y\"}})",
    );
    check(
        "<ACTION><event><type>t</type><payload><a>1</a><b><c>2</c></b></payload></event></ACTION>",
        "event(type=\"t\", payload={a=\"1\", b={c=\"2\"}})",
    );
    check(
        "<ACTION><event><type>t</type><payload>{\"a\": \"</payload>\"}</payload></event></ACTION>",
        "event(type=\"t\", payload=\"{\\\"a\\\": \\\"</payload>\\\"}\")",
    );
    check(
        "<ACTION><event><type>t</type><extra>Vec<String> is <b>x</extra></event></ACTION>",
        "event(type=\"t\", extra=\"Vec<String> is <b>x\")",
    );
    check(
        "<ACTION><event><type>t</type><extra><b>x</extra></event></ACTION>",
        "event(type=\"t\", extra=\"<b>x\")",
    );
    check(
        "<ACTION><event><type>t</type><extra><p>some <b>bold</b> text</p></extra></event></ACTION>",
        "event(type=\"t\", extra={p=~{b=\"bold\"}})",
    );
    check(
        "<ACTION><event><type>t</type><payload>\n  <!-- c -->\n  <a>1</a>\n</payload></event></ACTION>",
        "event(type=\"t\", payload={a=\"1\"})",
    );
    check("<ACTION><foo><a>Vec<String></a><b>x</b></foo></ACTION>", "foo(a=\"Vec<String>\", b=\"x\")");
    check("<ACTION><foo><a>1</a><b>2</b></foo></ACTION>", "foo(a=\"1\", b=\"2\")");
    check("<ACTION><foo>hello</foo></ACTION>", "foo()");
}

/// Rule 9 and the other forms.
#[test]
fn dialects() {
    check("<ACTION><foo x=\"1\" y='2'>hello</foo></ACTION>", "foo(x=\"1\", y=\"2\")");
    check(
        "<ACTION><read_file path=\"a &amp; b\" other=\"x\" limit=5 /></ACTION>",
        "read_file(path=\"a & b\", limit=\"5\")",
    );
    check(
        "<ACTION><read_file><param name=\"path\">a</param><param name=\"limit\">5</param></read_file></ACTION>",
        "read_file(path=\"a\", limit=\"5\")",
    );
    check("<ACTION><tool name=\"read_file\"><path>a</path></tool></ACTION>", "read_file(path=\"a\")");
    check("<tool_call name=\"read_file\"><path>a</path></tool_call>", "read_file(path=\"a\")");
    check(
        "<tool_call name=\"write_file\"><param name=\"path\">a</param><param name=\"content\">x </param> <param name=\"z\">y</param></tool_call>",
        "write_file(path=\"a\", content=\"x \", z=\"y\")",
    );
    check(
        "<tool_call name=\"write_file\"><param name=\"path\">a</param><param name=\"content\">x</param></tool_call>\n<tool_call name=\"ping\"/> then",
        "write_file(path=\"a\", content=\"x\") | ping() | then \"then\"",
    );
    check(
        "<tool_call name=\"ping\"></tool_call> text <tool_call name=\"ping\"></tool_call>",
        "ping() | then \"text\" | ! second_block",
    );
    check(
        "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}</tool_call>",
        "read_file(path=\"a\")",
    );
    check(
        "<tool_call>\n{\"name\": \"read_file\", \"arguments\": \"{\\\"path\\\": \\\"a\\\"}\"}\n</tool_call>\n<tool_call>{\"name\": \"ping\"}</tool_call>",
        "read_file(path=\"a\") | ping()",
    );
    check(
        "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}",
        "read_file(path=\"a\") | ! missing_close",
    );
    check("<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a", "! truncated");
    check(
        "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a}}</tool_call>",
        "! malformed_xml",
    );
    check(
        "<<<TOOL_CALL>>>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n<<<END_TOOL_CALL>>> after",
        "read_file(path=\"a\") | then \"after\"",
    );
    check(
        "<tool_use><tool_name>read_file</tool_name><parameters><path>a</path></parameters></tool_use>",
        "read_file(path=\"a\")",
    );
    check(
        "<tool_use><tool_name>read_file</tool_name><parameters>{\"path\": \"a\"}</parameters></tool_use>",
        "read_file(path=\"a\")",
    );
    check(
        "<tool_use><name>write_file</name><arguments><path>a</path><content>x <path> y</content></arguments></tool_use>",
        "write_file(path=\"a\", content=\"x <path> y\") | ! raw_markup",
    );
    check("<ACTION><tool_use><tool_name>ping</tool_name></tool_use></ACTION>", "ping()");
    check(
        "<ACTION>[{\"name\": \"ping\"}, {\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}]</ACTION>",
        "\"<ACTION>[{\\\"name\\\": \\\"ping\\\"}, {\\\"name\\\": \\\"read_file\\\", \\\"arguments\\\": {\\\"path\\\": \\\"a\\\"}}]</ACTION>\"",
    );
    check("<ACTION>{\"name\": \"ping\"}\n{\"name\": \"ping\"}</ACTION>", "ping() | ping()");
    check("<ACTION>{\"name\": \"ping\", \"arguments\": 5}</ACTION>", "! malformed_xml");
    check("<ACTION>{\"tool\": \"ping\", \"parameters\": {}}</ACTION>", "ping()");
    check("I mention <tool_call> here.", "\"I mention <tool_call> here.\"");
    check(
        "`<tool_call name=\"ping\"></tool_call>` is how",
        "\"`<tool_call name=\\\"ping\\\"></tool_call>` is how\" | ! opener_ignored",
    );
    check("<tool_call>ping</tool_call>", "\"<tool_call>ping</tool_call>\"");
    check(
        "<tool_call><function=read_file><parameter=path>a</parameter></function></tool_call>",
        "\"<tool_call><function=read_file><parameter=path>a</parameter></function></tool_call>\"",
    );
    check(
        "<ACTION><many><args><file><path>a</path><why>b <x></why></file><file><why>c</why><path>d</path></file></args></many></ACTION>",
        "many(args={file={path=\"a\", why=\"b <x>\"}, file={why=\"c\", path=\"d\"}}) | ! raw_markup",
    );
    check(
        "<ACTION><many><args><file><item><path>a</path><why>b</why></item></file></args></many></ACTION>",
        "many(args={file={item={path=\"a\", why=\"b\"}}})",
    );
}

/// Rule 5: CDATA.
#[test]
fn sections() {
    check(
        "<tool_call name=\"read_file\"><param name=\"path\">a</param><param name=\"bad\">1</param></tool_call>",
        "read_file(path=\"a\", bad=\"1\")",
    );
    check(
        "<ACTION><write_file><path>a</path><content><![CDATA[x]]></content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"x\")",
    );
    check(
        "<ACTION><write_file><path>a</path><content>\n  <![CDATA[x]]>\n  </content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"x\")",
    );
    check(
        "<ACTION><write_file><path>a</path><content><![CDATA[a]]><![CDATA[b]]></content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"ab\")",
    );
    check(
        "<ACTION><write_file><path>a</path><content><![CDATA[a]]> \n <![CDATA[b]]></content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"ab\")",
    );
    check(
        "<ACTION><write_file><path>a</path><content><![CDATA[a]]]]><![CDATA[>b]]></content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"a]]>b\")",
    );
    check(
        "<ACTION><write_file><path>a</path><content><![CDATA[x]] ]]></content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"x]] \")",
    );
    check(
        "<ACTION><write_file><path>a</path><content><![CDATA[use ]]> and ]]> here]]></content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"use ]]> and ]]> here\")",
    );
    check(
        "<ACTION><write_file><path>a</path><content><![CDATA[<x><![CDATA[in]]></x>]]></content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"<x><![CDATA[in]]></x>\")",
    );
    check(
        "<ACTION><write_file><path>a</path><content><![CDATA[</content></write_file></ACTION>]]></content></write_file></ACTION> after",
        "write_file(path=\"a\", content=\"</content></write_file></ACTION>\") | then \"after\"",
    );
    check(
        "<ACTION><write_file><path>a</path><content><![CDATA[abc</content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"abc\") | ! unclosed_cdata",
    );
    check(
        "<ACTION><write_file><path>a</path><content><![CDATA[abc</content></write_file></ACTION>\n  \n",
        "write_file(path=\"a\", content=\"abc\") | ! unclosed_cdata",
    );
    check(
        "<ACTION><write_file><path>a</path><content><![CDATA[abc</content></write_file></ACTION> more text",
        "write_file(path=\"a\", content=\"abc\") | then \"more text\" | ! unclosed_cdata truncated",
    );
    check(
        "<ACTION><write_file><path>a</path><content><![CDATA[abc</content></write_file>",
        "write_file(path=\"a\", content=\"abc\") | ! unclosed_cdata truncated",
    );
    check(
        "<ACTION><write_file><content><![CDATA[abc</content><path>a</path></write_file></ACTION>",
        "write_file(content=\"abc\", path=\"a\") | ! unclosed_cdata",
    );
    check(
        "<ACTION><write_file><path>a</path><content><![CDATA[abc]]></write_file></ACTION>",
        "write_file(path=\"a\", content=\"abc\") | ! missing_close",
    );
    check(
        "<ACTION><write_file><content><![CDATA[abc]]>\n<path>a</path></write_file></ACTION>",
        "write_file(content=\"abc\", path=\"a\") | ! missing_close",
    );
    check("<ACTION><write_file><path>a</path><content><![CDATA[abc]]", "! truncated");
    check("<ACTION><write_file><path>a</path><content><![CDATA[abc]]></con", "! truncated");
    check(
        "<ACTION><write_file><path>a</path><content>head <![CDATA[<b>]]> mid &lt; <![CDATA[&lt;]]> tail </content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"head <b> mid < &lt; tail \")",
    );
}

/// Rules 4 and 5: layout and entities.
#[test]
fn layout_and_entities() {
    check(
        "<ACTION><write_file><path>a</path><content>\nhead <![CDATA[<b>]]>\ntail\n  </content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"head <b>\\ntail\")",
    );
    check(
        "<ACTION><write_file><path>a</path><content><![CDATA[\n  x\n\n]]></content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"  x\\n\")",
    );
    check(
        "<ACTION><write_file><path>a</path><content>\n\n  x\n\n  </content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"\\n  x\\n\")",
    );
    check(
        "<ACTION><write_file><path>a</path><content>\n</content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"\")",
    );
    check(
        "<ACTION><write_file><path>a</path><content>   </content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"   \")",
    );
    check(
        "<ACTION><write_file><path>a</path><content>\n   </content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"\")",
    );
    check(
        "<ACTION><write_file><path>a</path><content>\n \n</content></write_file></ACTION>",
        "write_file(path=\"a\", content=\" \")",
    );
    check(
        "<ACTION><write_file><path>a</path><content/></write_file></ACTION>",
        "write_file(path=\"a\", content=\"\")",
    );
    check(
        "<ACTION><write_file><path>a</path><content>x &lt;b&gt; &#10; &#x4E2D; &bogus; &#0; &#xD800; & &amp;lt; &ampx; &#65</content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"x <b> \\n 中 &bogus; &#0; &#xD800; & &lt; &ampx; &#65\")",
    );
    check(
        "<ACTION><write_file><path>a</path><content>&lt</content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"&lt\")",
    );
    check(
        "<ACTION><write_file><path>a</path><content>]]> x</content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"]]> x\")",
    );
    check("<ACTION><![CDATA[<ping/>]]></ACTION>", "\"<ACTION><![CDATA[<ping/>]]></ACTION>\"");
}

/// JSON bodies, markup between elements.
#[test]
fn bodies_and_markup() {
    check("<ACTION><read_file><![CDATA[{\"path\": \"a\"}]]></read_file></ACTION>", "read_file(path=\"a\")");
    check(
        "<ACTION><read_file>\n```json\n{\"path\": \"a\",}\n```\n</read_file></ACTION>",
        "read_file(path=\"a\") | ! fenced_block json_repaired",
    );
    check(
        "<ACTION><read_file>{\"path\": \"</read_file>\"}</read_file></ACTION>",
        "read_file(path=\"</read_file>\")",
    );
    check("<ACTION><read_file>{\"path\": \"a\"</read_file></ACTION>", "! malformed_xml");
    check("<ACTION><read_file><limit><![CDATA[5]]></limit></read_file></ACTION>", "read_file(limit=\"5\")");
    check(
        "<ACTION><read_file><limit>5</path></read_file></ACTION>",
        "read_file(limit=\"5\") | ! missing_close",
    );
    check("<ACTION><read_file><limit><!-- n -->5</limit></read_file></ACTION>", "read_file(limit=\"5\")");
    check("<ACTION><!-- a --><?xml version=\"1.0\"?><ping/><!-- b --></ACTION>", "ping()");
    check(
        "<?xml version=\"1.0\"?>\n<ACTION><?x?><ping/></ACTION>",
        "\"<?xml version=\\\"1.0\\\"?>\" | ping()",
    );
    check("<ACTION><read_file><!ENTITY x \"y\"><path>a</path></read_file></ACTION>", "! forbidden_markup");
    check(
        "<ACTION><read_file><path><!DOCTYPE html><html></path></read_file></ACTION>",
        "read_file(path=\"<!DOCTYPE html><html>\") | ! raw_markup",
    );
    check("<ACTION>\n<ping/>\n<!-- unclosed comment </ACTION>", "ping() | ! missing_close");
    check("<ACTION><ACTION>\n<ACTION><ping/></ACTION>", "ping()");
    check("<ACTION><ACTION><ping/></ACTION></ACTION> x", "ping() | then \"x\"");
    check("<ACTION><ping/></ACTION>\n</ACTION>\nmore", "ping() | then \"</ACTION>\\nmore\"");
}

/// Tags that are damaged or wrong.
#[test]
fn damaged_tags() {
    check("<ACTION><workflows/a b.json></ACTION>", "! malformed_xml");
    check("<ACTION><ping>text</ping></ACTION>", "! malformed_xml");
    check("<ACTION><ping><x/></ping></ACTION>", "ping(x=\"\")");
    check("<ACTION><PING/></ACTION>", "PING()");
    check(
        "<ACTION><read_file><path>a</path></Read_File></ACTION>",
        "read_file(path=\"a\") | ! mangled_close",
    );
    check(
        "<ACTION><read_file><path>a</Path></read_file></ACTION>",
        "read_file(path=\"a\") | ! missing_close",
    );
    check("<ACTION><read_file><path>a\n</read_file></ACTION>", "read_file(path=\"a\") | ! missing_close");
    check(
        "<ACTION><read_file><path>  a  \n  </read_file></ACTION>",
        "read_file(path=\"  a\") | ! missing_close",
    );
    check("<ACTION><read_file><path>\n a\n</read_file></ACTION>", "read_file(path=\" a\") | ! missing_close");
    check("<ACTION><read_file <path>a</path></read_file></ACTION>", "! malformed_xml");
    check("<ACTION><read_file><path>a</path</read_file></ACTION>", "read_file(path=\"a\") | ! missing_close");
    check("<ACTION><read_file><path>a</path></read_file</ACTION>", "read_file(path=\"a\") | ! mangled_close");
    check(
        "<ACTION>\n<read_file>\n<path>a</path>\n</read_file>\n</action>\nbye",
        "read_file(path=\"a\") | then \"bye\"",
    );
    check(
        "<ACTION><read_file>\n<path>a</path>\n<\\/read_file></ACTION>",
        "read_file(path=\"a\") | ! mangled_close",
    );
    check(
        "<ACTION><read_file><path>日本</path></read_file></ACTION>。次",
        "read_file(path=\"日本\") | then \"。次\"",
    );
    check("＜ACTION＞", "\"＜ACTION＞\"");
    check(
        "<ACTION><write_file><path>a</path><content>\n<![CDATA[\nx]]]]><![CDATA[>y\n  ]]>\n</content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"x]]>y\")",
    );
    check(
        "<ACTION><write_file><path>a</path><content><![CDATA[\nx\n]]> <![CDATA[\ny\n]]></content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"xy\")",
    );
}

/// Rules 1 and 9: more openers and dialects.
#[test]
fn more_openers() {
    check(
        "Result of the tool:\nObservation: <ACTION><ping/></ACTION>\nObservation: more <ACTION><ping/></ACTION>\nOk <ACTION><read_file><path>a</path></read_file></ACTION>",
        "\"Result of the tool:\\nObservation: <ACTION><ping/></ACTION>\\nObservation: more <ACTION><ping/></ACTION>\\nOk\" | read_file(path=\"a\") | ! opener_ignored opener_ignored",
    );
    check(
        "> Observation\n>> <ACTION><ping/></ACTION>\nOk <ACTION><read_file><path>a</path></read_file></ACTION>",
        "\"> Observation\\n>> <ACTION><ping/></ACTION>\\nOk\" | read_file(path=\"a\") | ! opener_ignored",
    );
    check(
        "The doc says \"<ACTION><ping/></ACTION>\" is how. ",
        "\"The doc says \\\"\" | ping() | then \"\\\" is how.\"",
    );
    check("<b>Note</b> <ACTION><ping/></ACTION>", "\"<b>Note</b>\" | ping()");
    check(
        "<details>\n<summary>x</summary>\n<ACTION><ping/></ACTION>",
        "\"<details>\\n<summary>x</summary>\" | ping()",
    );
    check(
        "<details>\n<summary>x</summary>\n</details>\n<ACTION><ping/></ACTION>",
        "\"<details>\\n<summary>x</summary>\\n</details>\" | ping()",
    );
    check(
        "<response>\n<ACTION><ping/></ACTION>\n</response>",
        "\"<response>\\n<ACTION><ping/></ACTION>\\n</response>\" | ! opener_ignored",
    );
    check("<answer>Sure.</answer>\n<ACTION><ping/></ACTION>", "\"<answer>Sure.</answer>\" | ping()");
    check(
        "Vec<String>\n<ACTION><ping/></ACTION>\n</String>",
        "\"Vec<String>\" | ping() | then \"</String>\"",
    );
    check(
        "<T>(x: T) is generic\n<ACTION><ping/></ACTION>\nno </T> here",
        "\"<T>(x: T) is generic\\n<ACTION><ping/></ACTION>\\nno </T> here\" | ! opener_ignored",
    );
    check("{\"a\": \"b\"}\n<ACTION><ping/></ACTION>", "\"{\\\"a\\\": \\\"b\\\"}\" | ping()");
    check("{ not json <ACTION><ping/></ACTION>", "\"{ not json\" | ping()");
    check(
        "{\"thought\": \"I call <ACTION>\", \"x\": 1}\n<ACTION><ping/></ACTION>",
        "\"{\\\"thought\\\": \\\"I call <ACTION>\\\", \\\"x\\\": 1}\" | ping()",
    );
    check("<ACTION>\n  <ping/>\n</ACTION>\n<ACTION>\n <ping/>\n</ACTION>", "ping() | ! second_block");
    check("<tool_call>\n<read_file><path>a</path></read_file>\n</tool_call>", "read_file(path=\"a\")");
    check(
        "<tool_call><tool_name>read_file</tool_name><parameters><path>a</path></parameters></tool_call>",
        "read_file(path=\"a\")",
    );
    check(
        "<ACTION><tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}</tool_call></ACTION>",
        "read_file(path=\"a\")",
    );
    check(
        "<ACTION><tool_call>{\"name\": \"ping\"}</tool_call><tool_call>{\"name\": \"ping\"}</tool_call></ACTION>",
        "ping() | ping()",
    );
    check("<ACTION><<<TOOL_CALL>>>{\"name\": \"ping\"}<<<END_TOOL_CALL>>></ACTION>", "ping()");
    check(
        "```\n<tool_call>{\"name\": \"ping\"}</tool_call>\n```",
        "\"```\\n<tool_call>{\\\"name\\\": \\\"ping\\\"}</tool_call>\\n```\" | ! opener_ignored",
    );
    check("<tool_call>{\"name\": \"ping\"}</tool_call>\n```\n", "ping() | then \"```\"");
}

/// More dialects and bodies.
#[test]
fn more_dialects() {
    check("<tool_call name=\"ping\">", "\"<tool_call name=\\\"ping\\\">\"");
    check(
        "<tool_call name=\"read_file\"><param name=\"path\">a</param></tool_call></tool_call> x",
        "read_file(path=\"a\") | then \"</tool_call> x\"",
    );
    check(
        "<tool_call name=\"write_file\"><param name=\"path\">a</param><param name=\"content\">say </param></tool_call> end</param></tool_call>",
        "write_file(path=\"a\", content=\"say \") | then \"end</param></tool_call>\" | ! malformed_xml",
    );
    check(
        "<tool_use><tool_name>write_file</tool_name><parameters><path>a</path><content>x</parameters> y</content></parameters></tool_use>",
        "write_file(path=\"a\", content=\"x</parameters> y\") | ! raw_markup",
    );
    check(
        "<ACTION>{\"name\": \"write_file\", \"arguments\": {\"path\": \"a\", \"content\": \"</ACTION>\"}}</ACTION>",
        "write_file(path=\"a\", content=\"</ACTION>\")",
    );
    check(
        "<ACTION>{\"name\": \"write_file\", \"arguments\": {\"path\": \"a\", \"content\": \"line\nbreak\"}}</ACTION>",
        "write_file(path=\"a\", content=\"line\\nbreak\") | ! json_repaired",
    );
    check("<ACTION>{\"function\": {\"name\": \"ping\", \"arguments\": \"{}\"}}</ACTION>", "ping()");
    check(
        "<ACTION>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}\n</ACTION>",
        "! malformed_xml",
    );
    check("<ACTION>{\"path\": \"a\"}</ACTION>", "! malformed_xml");
    check("<ACTION><read_file>{\"path\": \"a\"} trailing</read_file></ACTION>", "! malformed_xml");
    check(
        "<ACTION><read_file>{\"path\": \"a\"}<limit>5</limit></read_file></ACTION>",
        "read_file(path=\"a\", limit=\"5\")",
    );
}

/// Lists, objects and values of no declared type.
#[test]
fn lists_and_values() {
    check("<ACTION><send><to>a, b</to><body></body></send></ACTION>", "send(to=\"a, b\", body=\"\")");
    check(
        "<ACTION><send><to><item>a</item>\n<item>b</to><body>x</body></send></ACTION>",
        "send(to={item=\"a\", item=\"b\"}, body=\"x\") | ! missing_close",
    );
    check(
        "<ACTION><send><to><item>a<item>b</item></to><body>x</body></send></ACTION>",
        "send(to={item=\"a<item>b\"}, body=\"x\") | ! raw_markup",
    );
    check(
        "<ACTION><send><to><item>a</to><body>x</body></send></ACTION>",
        "send(to={item=\"a\"}, body=\"x\") | ! missing_close",
    );
    check("<ACTION><send><to>\n a \n</to><body>x</body></send></ACTION>", "send(to=\" a \", body=\"x\")");
    check(
        "<ACTION><event><type>t</type><payload><![CDATA[<a>1</a>]]></payload></event></ACTION>",
        "event(type=\"t\", payload=\"<a>1</a>\")",
    );
    check(
        "<ACTION><event><type>t</type><extra><item>1</item><item>2</item></extra></event></ACTION>",
        "event(type=\"t\", extra={item=\"1\", item=\"2\"})",
    );
    check(
        "<ACTION><event><type>t</type><extra>a < b && c</extra></event></ACTION>",
        "event(type=\"t\", extra=\"a < b && c\")",
    );
    check(
        "<ACTION><event><type>t</type><extra><a>x</b></a></extra></event></ACTION>",
        "event(type=\"t\", extra=\"<a>x</b></a>\")",
    );
    check(
        "<ACTION><event><type>t</type><payload><a>x</b></payload></event></ACTION>",
        "event(type=\"t\", payload={a=\"x\"}) | ! missing_close",
    );
    check(
        "<ACTION><event><type>t</type><payload><a b=\"c\">x</a><d/></payload></event></ACTION>",
        "event(type=\"t\", payload={a=\"x\", d=\"\"})",
    );
    check(
        "<ACTION><event><type>t</type><payload>text <a>x</a> more</payload></event></ACTION>",
        "event(type=\"t\", payload=\"text <a>x</a> more\")",
    );
    check(
        "<ACTION><read_file path=\"a\"><limit>3</limit></read_file></ACTION>",
        "read_file(path=\"a\", limit=\"3\")",
    );
    check(
        "<ACTION><read_file path='a\"b' limit=\"3\"></read_file></ACTION>",
        "read_file(path=\"a\\\"b\", limit=\"3\")",
    );
    check("<ACTION><tool name=\"read_file\" path=\"a\"/></ACTION>", "read_file()");
}

/// Attributes, names, and ends.
#[test]
fn more_calls_and_ends() {
    check("<ACTION><tool_call name=\"read_file\" path=\"a\"></tool_call></ACTION>", "read_file()");
    check(
        "<ACTION><function name=\"read_file\"><path>a</path></function></ACTION>",
        "function(name=\"read_file\", path=\"a\")",
    );
    check("<ACTION><tool>read_file</tool><path>a</path></ACTION>", "tool() | path()");
    check("<ACTION>ping</ACTION>", "\"<ACTION>ping</ACTION>\"");
    check("<ACTION><ping></ACTION>", "! malformed_xml");
    check("<ACTION><ping>\n</ACTION></ping>", "then \"</ping>\" | ! malformed_xml");
    check(
        "<ACTION><read_file><path>a</path></read_file></ACTION></ACTION>",
        "read_file(path=\"a\") | then \"</ACTION>\"",
    );
    check("<ACTION>\n<read_file>\n<path>a</path>\n</read_file>\n", "read_file(path=\"a\") | ! missing_close");
    check_with(
        "<ACTION><read_file><path>a</path></read_file></ACTIO",
        FinishReason::Length,
        "read_file(path=\"a\") | ! mangled_close truncated",
    );
    check_with("<ACTION><write_file><path>a</path><content>abc", FinishReason::Length, "! truncated");
    check("<think>x</think>\n<think>y</think>\nok", "\"ok\" | thought \"x\\ny\"");
    check("<think>a</think> b </think>\nc", "\"c\" | thought \"<think>a</think> b\"");
    check("text\n<THINK>a</THINK>\nb", "\"text\\n\\nb\" | thought \"a\"");
    check("<thinking>a</think>b", "\"b\" | thought \"a\"");
    check("a<think>b\n</think>c", "\"ac\" | thought \"b\"");
}

/// Other spellings of generic tags, brackets too many.
#[test]
fn spellings() {
    check("<Tool_Use><tool_name>ping</tool_name><parameters></parameters></Tool_Use>", "ping()");
    check(
        "<tool_call>{\"name\":\"read_file\",\"arguments\":{\"path\":\"a\"}}}</tool_call>",
        "read_file(path=\"a\") | ! json_repaired",
    );
    check("<ACTION>{\"name\":\"ping\"}}</ACTION>", "ping() | ! json_repaired");
    check("<TOOL_CALL name=\"ping\"></tool_call> x", "ping() | then \"x\" | ! mangled_close");
    check("<ACTION><Tool name=\"ping\"/></ACTION>", "ping()");
}

/// Close tags that are cut or escaped.
#[test]
fn more_damaged_tags() {
    check("<ACTION><ACTION><ping/></ACTION></ACTION> x", "ping() | then \"x\"");
    check("<ACTION><ACTION><ping/></ACTION> x", "ping() | then \"x\"");
    check("<ACTION><read_file><path>a</path</read_file></ACTION>", "read_file(path=\"a\") | ! missing_close");
    check(
        "<ACTION><read_file><path>a</path\n</read_file></ACTION>",
        "read_file(path=\"a\") | ! missing_close",
    );
    check(
        "<ACTION><read_file><path>a</path text </path></read_file></ACTION>",
        "read_file(path=\"a</path text \")",
    );
    check("<ACTION><read_file><path>a</path></read_file</ACTION>", "read_file(path=\"a\") | ! mangled_close");
    check(
        "<ACTION><read_file><path>a</path></read_file\n</ACTION\nthen",
        "read_file(path=\"a\") | then \"then\" | ! mangled_close mangled_close",
    );
    check(
        "<ACTION><read_file><path>a</path>\n<\\/read_file>\n<\\/ACTION> bye",
        "read_file(path=\"a\") | then \"bye\" | ! mangled_close mangled_close",
    );
    check(
        "Maybe <ACTION><search> with the query...\n</think>\nFine.\n<ACTION><read_file><path>x</path></read_file></ACTION>",
        "\"Fine.\" | thought \"Maybe <ACTION><search> with the query...\" | read_file(path=\"x\")",
    );
    check(
        "<ACTION><write_file><path>a</path><content><![CDATA[<x><![CDATA[in]]></x>]]></content></write_file></ACTION>",
        "write_file(path=\"a\", content=\"<x><![CDATA[in]]></x>\")",
    );
    check("<ACTION><read_file><path>a</path><ACTION><ping/></ACTION>", "! malformed_xml");
}
