//! Words of the core nodes in Chinese.

mod names;
mod texts;

use workflow_engine::NodeWords;

/// All of them.
pub(crate) const WORDS: NodeWords =
    NodeWords { descriptions: DESCRIPTIONS, names: names::NAMES, texts: texts::TEXTS };

/// Description of each type. Types of other crates in the namespace `core` are among them.
const DESCRIPTIONS: &[(&str, &str)] = &[
    ("core:ApplyRegex", "依次应用替换规则。"),
    ("core:Ask", "向用户提问并等待回答。"),
    ("core:Condition", "把值送往两个方向之一。"),
    ("core:Const", "给出一个固定的值。"),
    ("core:CreateMessage", "生成对话中的一条消息。"),
    ("core:DateTime", "读取、换算和书写日期与时间。"),
    ("core:Delay", "等待一段时间，然后传递其值。"),
    ("core:Distinct", "去掉列表中重复的项。"),
    ("core:Expression", "用 CEL 表达式计算一个值。"),
    ("core:Filter", "只保留列表中满足条件的项。"),
    ("core:Frame", "编辑器中围住若干节点的框；运行时不起作用。"),
    ("core:GenericLlmRequest", "向语言模型发送消息。"),
    ("core:Group", "按键把列表的项分组。"),
    ("core:GroupInput", "给出工作流的参数；其输出即 `interfaceInputs`。"),
    (
        "core:GroupOutput",
        "接收工作流的结果；其输入即 `interfaceOutputs`。在循环内接收一轮的结果，每个结果一个输入。",
    ),
    (
        "core:Http",
        "发送 HTTP 请求并给出应答。状态码不小于 400 时节点失败。GET、HEAD 和 OPTIONS 只读取；其他方法视为有副作用，除非节点写明 `\"effect\": false`。",
    ),
    ("core:JsonMerge", "合并对象：后面的成员覆盖前面的，内层对象也逐层合并。"),
    ("core:JsonParse", "从文本读取 JSON。"),
    ("core:JsonSelect", "按路径（RFC 9535）查找值的一部分。"),
    ("core:JsonSet", "设置值的一部分。"),
    ("core:Knowledge", "在知识库中检索。"),
    ("core:Log", "向运行日志写一行，并传递其值。"),
    ("core:LoopNext", "接收下一轮的循环值；没有连线的键保持原值。"),
    ("core:LoopState", "给出本轮的循环值；每个键是一个输出插槽。"),
    (
        "core:LoopZone",
        "逐轮运行其循环体：以它为 `parentNode` 的节点，或 `body`。循环值的键既是输入插槽（初值）也是输出插槽（终值）；最后一轮的结果和 `collected.<名称>` 也是输出。",
    ),
    ("core:Map", "对列表的每一项计算一个值。"),
    ("core:MathOperation", "对一个或两个数进行计算。"),
    ("core:Merge", "把几个列表合并为一个。"),
    ("core:MergeMessages", "把消息和消息列表合并为一个列表。"),
    ("core:NodeGroup", "嵌入另一个工作流；其插槽即该工作流的接口。"),
    ("core:RandomNumber", "给出一个随机整数。"),
    ("core:ReadFile", "读取项目 `files/` 中的文件。"),
    ("core:Reply", "按模板的顺序写出文本和流。所有来源同时运行；前面的内容一旦完整，后面的随即写出。"),
    ("core:Script", "在沙箱中运行 JavaScript。"),
    ("core:Sort", "对列表排序。"),
    ("core:Split", "把列表分成几段。"),
    ("core:Stop", "以一个值结束运行，或只结束其所在的循环。"),
    ("core:StreamToString", "把一个流读到结束，合成一段文本。"),
    ("core:Switch", "把值送往若干输出之一。"),
    ("core:TextJoin", "连接列表的各项。"),
    ("core:TextMerge", "连接来自多条连线的文本。"),
    ("core:TextReplace", "替换模式的所有匹配。"),
    ("core:TextSplit", "把文本切成列表。"),
    ("core:TextTemplate", "填写模板：`{{ name }}`、循环和条件。"),
    ("core:Tool", "调用一个工具。"),
    ("core:Workflow", "按 id 运行另一个工作流。"),
    ("core:WriteFile", "在项目的 `files/` 中写入文件。"),
];

#[cfg(test)]
mod tests {
    #[test]
    fn every_type_is_described_in_chinese() {
        let catalog = crate::catalog();
        for node in crate::definitions() {
            let kind = &node.node_type;
            assert!(catalog.description(kind, "zh").is_some(), "{kind} has no description in Chinese");
        }
    }
}
