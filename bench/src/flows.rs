//! A thousand flows, and what it costs to find the one that a message sets off.

use anyhow::{Result, ensure};
use executors_flow_system::{Flows, FlowsBuilder, FlowsFile, Triggered};
use serde_json::{Value, json};

use crate::measure::{Work, medians};
use crate::table::{Aim, Figure, against, begin, note, row};

/// How many flows there are.
const FLOWS: usize = 1_000;

/// Longest time that a usual message may take.
const MOST: Figure = Figure::Nanos(50_000.0);

/// Words that patterns and messages are made of.
const WORDS: [&str; 24] = [
    "invoice",
    "refund",
    "delivery",
    "password",
    "address",
    "warranty",
    "booking",
    "cancel",
    "请假",
    "退款",
    "发票",
    "物流",
    "repair",
    "upgrade",
    "contract",
    "payment",
    "voucher",
    "return",
    "预约",
    "投诉",
    "catalogue",
    "sample",
    "会员",
    "积分",
];

/// A flow of one kind after the other: three texts, one exact text, an expression.
fn flow(number: usize) -> Value {
    let (first, second) = (WORDS[number % WORDS.len()], WORDS[(number / WORDS.len() + 5) % WORDS.len()]);
    let (kind, patterns) = match number % 3 {
        0 => (
            "contains",
            vec![
                format!("{first} number {number}"),
                format!("{second}{number}"),
                format!("case {number} {first}"),
            ],
        ),
        1 => ("exact", vec![format!("{first} {second} {number}")]),
        _ => (
            "regex",
            vec![format!("{first} (?<id>[a-z]\\d+) {second} {number}"), format!("{second}.*第{number}号")],
        ),
    };
    json!({"flow_id": format!("flow_{number}"), "match": kind, "trigger_patterns": patterns,
        "endpoint": {"url": "https://flows.example.com/run", "method": "POST"}})
}

/// The same without an index: every text in turn, on the message in small letters.
struct Naive(Vec<String>);

impl Naive {
    fn find(&self, message: &str) -> Option<usize> {
        let message = message.to_lowercase();
        self.0.iter().position(|text| message.contains(text))
    }
}

pub(crate) fn run() -> Result<()> {
    begin(&format!("{FLOWS} flows"));
    let flows: Vec<Value> = (0..FLOWS).map(flow).collect();
    let texts = flows.iter().filter(|flow| flow["match"] == "contains");
    let texts = texts.flat_map(|flow| flow["trigger_patterns"].as_array().cloned().unwrap_or_default());
    let naive = Naive(texts.filter_map(|text| text.as_str().map(str::to_owned)).collect());
    let file = FlowsFile::from_value(json!({"flows": flows}))?;
    let built = FlowsBuilder::new(&file).build()?;

    let english =
        "Hello, my parcel has not come yet and the page says that it was handed to a neighbour. What now?";
    let chinese = "你好，我上周买的茶具到现在还没有收到，请问什么时候可以送到？如果太晚我想取消订单。";
    let near = "I want a refund for my invoice, the delivery was late and the warranty has ended, cancel the booking";
    let hit = "Please look at case 999 退款, thank you";
    ensure!(fires(&built, "case 999 发票") == fires(&built, "CASE　999 发票"), "width and case do not count");
    for (message, expected) in [(english, false), (chinese, false), (near, false)] {
        ensure!(fires(&built, message) == expected, "{message}");
    }
    let long: String = english.chars().cycle().take(1_000_000).collect();
    let figures = medians(&mut [
        Work::repeated(|| built.matched(english)),
        Work::repeated(|| built.matched(chinese)),
        Work::repeated(|| built.matched(near)),
        Work::repeated(|| built.matched(hit)),
        Work::repeated(|| naive.find(english)),
        Work::repeated(|| built.matched(&long)),
        Work::repeated(|| naive.find(&long)),
        Work::repeated(|| FlowsBuilder::new(&file).build().is_ok()),
    ]);
    let nanos = Figure::Nanos;
    against(
        "a message in English, nothing fits",
        nanos(figures[0]),
        ("every text in turn", nanos(figures[4])),
        Aim::AtMost(MOST),
    );
    row("a message in Chinese, nothing fits", nanos(figures[1]), Aim::AtMost(MOST));
    row("a message with words of many patterns", nanos(figures[2]), Aim::AtMost(MOST));
    row("a message that sets one off", nanos(figures[3]), Aim::AtMost(MOST));
    against("a message of 1 MB", nanos(figures[5]), ("every text in turn", nanos(figures[6])), Aim::None);
    row("checking the file", nanos(figures[7]), Aim::None);
    note("A third of the flows have three texts, a third one exact text, a third two regular expressions.");
    Ok(())
}

fn fires(flows: &Flows, message: &str) -> bool {
    matches!(flows.matched(message), Triggered::Flow { .. })
}
