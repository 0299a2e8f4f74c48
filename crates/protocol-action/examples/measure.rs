//! Measures reading on this machine: time a byte and a piece, for values that grow and for hostile
//! text. Linear reading shows as columns that stay about the same from size to size.
//!
//! ```text
//! cargo run --release -p protocol-action --example measure [NAME]
//! ```

#![expect(clippy::print_stdout, reason = "printing is what the example is for")]

use std::sync::Arc;
use std::time::Instant;

use protocol_action::{Declared, Decoder, FinishReason, Options, StaticVocabulary, parse};
use quick_xml::events::Event;

const SIZES: [usize; 4] = [1 << 10, 1 << 16, 1 << 18, 1 << 20];

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    println!(
        "{:<22} {:>9} {:>10} {:>12} {:>12} {:>12}",
        "text", "bytes", "ns/byte", "ns/piece(4)", "MB/s whole", "x quick-xml"
    );
    for (name, text) in workloads() {
        if name.contains(&wanted) {
            for size in SIZES {
                measure(name, &text(size));
            }
        }
    }
}

fn measure(name: &str, text: &str) {
    let tools = Arc::new(vocabulary());
    let rounds = ((1 << 21) / text.len()).max(1);
    let whole = best(rounds, || parse(text, tools.as_ref()).calls.len());
    let pieced = best(rounds, || {
        let mut decoder = Decoder::new(tools.clone(), Options::default());
        for piece in text.as_bytes().chunks(4) {
            std::hint::black_box(decoder.push(piece).count());
        }
        decoder.finish(FinishReason::Stop).calls.len()
    });
    let bare = best(rounds, || quick_xml_alone(text));
    let bytes = count(text.len());
    println!(
        "{name:<22} {:>9} {:>10.3} {:>12.1} {:>12.0} {:>12.2}",
        text.len(),
        whole / bytes,
        pieced / (bytes / 4.0),
        bytes / whole * 1000.0,
        bare / whole,
    );
}

/// What quick-xml alone needs for the same text: its events, texts joined and entities resolved. It
/// stops at the first error, so the figure means something for well-formed text only.
fn quick_xml_alone(text: &str) -> usize {
    let mut reader = quick_xml::Reader::from_str(text);
    let mut value = String::new();
    loop {
        match reader.read_event() {
            Ok(Event::Text(text)) => value.push_str(&text),
            Ok(Event::CData(text)) => value.push_str(&text),
            Ok(Event::GeneralRef(name)) => {
                value.push_str(quick_xml::escape::resolve_predefined_entity(&name).unwrap_or_default());
            }
            Ok(Event::Eof) | Err(_) => return value.len(),
            Ok(_) => {}
        }
    }
}

/// The shortest of five measurements, in nanoseconds a round.
fn best(rounds: usize, mut work: impl FnMut() -> usize) -> f64 {
    let one = |work: &mut dyn FnMut() -> usize| {
        let start = Instant::now();
        for _ in 0..rounds {
            std::hint::black_box(work());
        }
        start.elapsed().as_secs_f64() * 1e9 / count(rounds)
    };
    (0..5).map(|_| one(&mut work)).fold(f64::INFINITY, f64::min)
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

fn vocabulary() -> StaticVocabulary {
    StaticVocabulary::builder()
        .tool("write_file", |tool| {
            tool.text("path").text("content").scalar("mode").list("tags", Declared::Text)
        })
        .tool("save", |tool| tool.any("data").object("meta", |meta| meta.text("a").text("b")))
        .build()
}

type Workload = (&'static str, Box<dyn Fn(usize) -> String>);

fn workloads() -> Vec<Workload> {
    let value = |unit: &'static str| {
        move |size: usize| {
            let value = unit.repeat(size / unit.len() + 1);
            format!(
                "Text.\n<ACTION><write_file><path>a</path><content>{value}</content></write_file></ACTION>"
            )
        }
    };
    let plain = |unit: &'static str| move |size: usize| unit.repeat(size / unit.len() + 1);
    let inside = |head: &'static str, unit: &'static str, tail: &'static str| {
        move |size: usize| format!("{head}{}{tail}", unit.repeat(size / unit.len() + 1))
    };
    let open = "<ACTION><write_file><content>";
    vec![
        ("value prose", Box::new(value("The quick brown fox jumps over the lazy dog. "))),
        ("value code", Box::new(value("if a < b && c[d] > 0 { e(); } // 0123456789\n"))),
        ("value entities", Box::new(value("if a &lt; b &amp;&amp; c[d] &gt; 0 { e(); } // 01\n"))),
        ("value html", Box::new(value("<div class=\"x\"><p>Some <b>bold</b> text</p></div>\n"))),
        (
            "value cdata",
            Box::new(|size| {
                let value = "if a < b && c[d] > 0 { e(); } // 0123456789\n".repeat(size / 44 + 1);
                format!(
                    "<ACTION><write_file><path>a</path><content><![CDATA[{value}]]></content></write_file></ACTION>"
                )
            }),
        ),
        (
            "small calls",
            Box::new(|size| {
                let call = "<write_file>\n<path>src/a.rs</path>\n<content>one &lt; two</content>\n<mode>7</mode>\n</write_file>\n";
                format!("<ACTION>\n{}</ACTION>", call.repeat((size / call.len()).clamp(1, 200)))
            }),
        ),
        (
            "small items",
            Box::new(|size| {
                let item = "<item>value</item>\n";
                format!(
                    "<ACTION><write_file><tags>{}</tags></write_file></ACTION>",
                    item.repeat((size / item.len()).clamp(1, 50_000))
                )
            }),
        ),
        ("prose", Box::new(plain("The quick brown fox `jumps` over the <i>lazy</i> dog.\n"))),
        ("openers", Box::new(plain("<ACTION> "))),
        ("openers then text", Box::new(inside("", "<ACTION> ", "text"))),
        ("openers and comments", Box::new(plain("<ACTION><!-- "))),
        ("openers, comment ends", Box::new(inside("", "<ACTION><!-- ", "--> text"))),
        ("angles", Box::new(plain("<"))),
        ("angles in value", Box::new(inside(open, "<", ""))),
        ("section ends", Box::new(inside("<ACTION><write_file><content><![CDATA[", "]]>", ""))),
        ("sections", Box::new(inside(open, "<![CDATA[x]]> ", ""))),
        (
            "unclosed sections",
            Box::new(inside("<ACTION>", "<write_file><content><![CDATA[x</content></write_file>", "")),
        ),
        ("own closers", Box::new(inside(open, "</content>", " x"))),
        ("own closers, text", Box::new(inside(open, "</content> x", ""))),
        ("closers, comments", Box::new(inside(open, "</content><!-- ", "-->"))),
        ("closers, ended comments", Box::new(inside(open, "</content><!-- x -->", " x"))),
        ("own opens", Box::new(inside("<ACTION><write_file>", "<content>", ""))),
        ("two opens", Box::new(inside("<ACTION><write_file>", "<content>x<path>y", ""))),
        ("tool closes", Box::new(inside(open, "</write_file>", ""))),
        (
            "unclosed calls",
            Box::new(inside("<ACTION>", "<write_file><content>x<path>y</write_file>", "</ACTION>")),
        ),
        ("foreign closers", Box::new(inside(open, "</x><path>", ""))),
        ("blanks in value", Box::new(inside(open, " ", "x"))),
        ("blanks, then closer", Box::new(inside(open, "x</content> ", "x"))),
        ("long blanks", Box::new(inside("<ACTION><write_file><content>x</content>", " ", "x"))),
        ("deep", Box::new(inside("<ACTION><save><data>", "<a>", ""))),
        ("unknown tools", Box::new(inside("<ACTION><x>", "<y>1</y>", "</x></ACTION>"))),
        ("undeclared", Box::new(inside("<ACTION><write_file>", "<y>1</y>", "</write_file></ACTION>"))),
        ("stray words", Box::new(inside("<ACTION><ping/>", "word <ping/>", "</ACTION>"))),
        ("backticks", Box::new(plain("` `` ``` ```` ````` x "))),
        ("thoughts", Box::new(plain("a <think> b "))),
        ("thought lines", Box::new(plain("<think>\n"))),
        ("line elements", Box::new(plain("<div>\n"))),
        ("entity starts", Box::new(inside(open, "&", ""))),
        ("entity digits", Box::new(inside(open, "&#0000000", ""))),
        ("attributes", Box::new(inside("<ACTION><write_file ", "a=\"b\" ", "/></ACTION>"))),
        ("quotes in tag", Box::new(inside("<ACTION><write_file a=\"", "x ", ""))),
        (
            "json",
            Box::new(inside("<ACTION><write_file>{\"content\": \"", "a\\n", "\"}</write_file></ACTION>")),
        ),
        ("json depth", Box::new(inside("<ACTION>{\"a\":", "[", ""))),
        ("json reply", Box::new(inside("{\"a\": \"", "<ACTION><ping/></ACTION>", "\"}"))),
        ("second blocks", Box::new(plain("<ACTION><ping/></ACTION> "))),
        ("bare calls", Box::new(plain("<tool_call name=\"ping\"/>"))),
        ("fences", Box::new(plain("```\n<ACTION><ping/></ACTION>\n```\n"))),
    ]
}
