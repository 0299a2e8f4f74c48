//! Words of the agent nodes in Chinese.

mod names;
mod texts;

use workflow_engine::NodeWords;

/// All of them.
pub(crate) const WORDS: NodeWords =
    NodeWords { descriptions: DESCRIPTIONS, names: names::NAMES, texts: texts::TEXTS };

/// Description of each type.
const DESCRIPTIONS: &[(&str, &str)] = &[
    ("agent:Agent", "让一个智能体完成任务，并给出它的答复。"),
    ("agent:AvailableTools", "给出可以提供给模型的工具。"),
    ("agent:Classify", "让模型从若干类别中选一个，并把值送往对应的分支。"),
    ("agent:ExecuteTool", "运行模型所调用的工具并给出结果。需要审批的调用会等待审批。"),
    ("agent:Extract", "让模型从文本中取出符合模式的数据。"),
    ("agent:FormatPrompt", "把指令、工具、对话和调用的结果整理成给模型的消息。"),
    ("agent:LlmApiRequest", "向可以调用工具的语言模型发送消息，并给出其答复。"),
    ("agent:LlmDecisionWithTools", "询问模型下一步做什么：工具、提示词、请求和答复的解析合在一个节点中。"),
    ("agent:LoadHistory", "给出已保存的对话。"),
    ("agent:ParseLlmDecision", "解析模型的答复：文本、所调用的工具，以及其中的错误。"),
    ("agent:SaveHistory", "把用户的话和答复追加到对话并保存。"),
    ("agent:Summarize", "让语言模型把文本缩短。"),
    ("core:Knowledge", "在项目的知识库中检索与查询相符的段落。"),
    ("core:Tool", "运行项目中的任意一个工具；其参数就是节点的输入。"),
];

#[cfg(test)]
mod tests {
    #[test]
    fn every_type_is_described_in_chinese() {
        let mut catalog = workflow_engine::NodeCatalog::new();
        crate::register(&mut catalog);
        for node in catalog.definitions() {
            let kind = &node.node_type;
            assert!(catalog.description(kind, "zh").is_some(), "{kind} has no description in Chinese");
        }
    }
}
