//! Descriptions of the slots and settings of the agent nodes in Chinese.

/// Description of slots and settings, by the English one.
pub(super) const TEXTS: &[(&str, &str)] = &[
    ("JSON Schema of the value; descriptions in it help the model", "值的 JSON Schema；其中的描述能帮助模型"),
    (
        "`ok` if every call succeeded, `none` without calls, else the status of the first that did not succeed",
        "所有调用成功时为 `ok`，没有调用时为 `none`，否则为第一个未成功的调用的状态",
    ),
    ("arguments as an object; inputs of their own names count before them", "对象形式的参数；同名的输入优先"),
    ("arguments that every call has; inputs count before them", "每次调用都有的参数；输入优先"),
    ("calls that one reply may make; those beyond are refused", "一次答复可作的调用数；超出的被拒绝"),
    (
        "calls {tool, arguments}, one or a list of them; nothing is run where there are none",
        "调用 {tool, arguments}，一个或一个列表；没有调用时什么也不运行",
    ),
    ("how many passages at most, up to 100", "最多几个段落，不超过 100"),
    (
        "how the query is put, with `{{ query }}`, `history`, `observation`, `tools` and `vars`",
        "查询的写法，可用 `{{ query }}`、`history`、`observation`、`tools` 和 `vars`",
    ),
    ("how to choose", "怎样选择"),
    ("id of the agent, as in `weft agent list`", "智能体的 id，如 `weft agent list` 所列"),
    ("id of the tool, as in `weft tool list`", "工具的 id，如 `weft tool list` 所列"),
    (
        "ids of tools; absent means all that the agent or the workflow allows",
        "工具的 id；不写即智能体或工作流所允许的全部",
    ),
    (
        "ids or names of tools; absent means all that the agent or the workflow allows, or all of the project where neither says which",
        "工具的 id 或名称；不写即智能体或工作流所允许的全部，两者都未指明时为项目的全部工具",
    ),
    ("instructions that come first; absent means those of the agent", "最前面的指令；不写即智能体的指令"),
    ("language of what is said of tools", "介绍工具所用的语言"),
    (
        "limits that count besides those of its profile: {turns, tool_calls, tokens, cost_usd, wall_ms}",
        "除其配置之外另行生效的限额：{turns, tool_calls, tokens, cost_usd, wall_ms}",
    ),
    (
        "message of the user behind the others, unless it is among them",
        "排在其他消息之后的用户消息，除非已在其中",
    ),
    ("messages {role, content}, oldest first", "消息 {role, content}，最早的在前"),
    (
        "messages {role, content}, or a text; required without the setting `prompt`",
        "消息 {role, content}，或一段文本；没有设置 `prompt` 时必填",
    ),
    ("most words that are wanted", "希望的最多词数"),
    (
        "name of the base, an entry `[kb.<name>]` of weft.toml",
        "知识库的名称，即 weft.toml 的条目 `[kb.<name>]`",
    ),
    ("pieces of the result as they come", "结果的片段，随到随给"),
    ("pieces of the results as they come", "结果的片段，随到随给"),
    (
        "the answer as a value, where the agent has an `output_schema`; else its text",
        "智能体有 `output_schema` 时为答复的值，否则为其文本",
    ),
    ("the answer as text", "文本形式的答复"),
    (
        "the calls that may run: {call, tool, arguments}; empty where there are none",
        "可以运行的调用：{call, tool, arguments}；没有时为空",
    ),
    (
        "the classes: an object of name → what belongs there, or a list of names; each is an output that gives the value",
        "类别：名称 → 属于其中的内容的对象，或名称的列表；每个类别是一个给出该值的输出",
    ),
    ("the conversation so far: messages {role, content}", "到目前为止的对话：消息 {role, content}"),
    ("the conversation with this decision", "包含此次决策的对话"),
    ("the messages", "消息"),
    ("the name of the conversation; absent means the workflow's id", "对话的名称；不写即工作流的 id"),
    ("the output `other` is a choice too", "输出 `other` 也可选"),
    ("the passages {source, text}, the best first", "段落 {source, text}，最相符的在前"),
    (
        "the reply as a message for the history, without text behind a block",
        "作为对话消息的答复，不含调用块之后的文本",
    ),
    ("the reply of a model, or its text", "模型的答复，或其文本"),
    (
        "the reply: {text, reasoning?, tool_calls?, usage, finish}",
        "答复：{text, reasoning?, tool_calls?, usage, finish}",
    ),
    (
        "the result: the value of a tool that gives one, else its text",
        "结果：工具给出值时为该值，否则为其文本",
    ),
    (
        "the same as one text, each passage behind its source; empty where nothing fits",
        "合为一段文本，每段前是其来源；没有相符的内容时为空",
    ),
    ("the same as text", "同样的内容，文本形式"),
    ("the same as the model's observations", "同样的内容，作为模型的观察结果"),
    ("the summary", "摘要"),
    (
        "the text as it comes, as the model writes it, up to the end of its calls",
        "模型书写的文本，随写随给，直到其调用结束",
    ),
    ("the text for the user: before the calls, or all of it", "给用户的文本：调用之前的部分，或全部"),
    ("the text; a value that is not a text is written as JSON", "文本；不是文本的值写成 JSON"),
    ("the tools that the model is taught to call in text", "教模型以文本调用的工具"),
    ("the tools: {id, description, parameters}", "各工具：{id, description, parameters}"),
    (
        "the value, where no class fits; only with the setting `other`",
        "没有合适的类别时为该值；仅在设置了 `other` 时有",
    ),
    (
        "the value; one that is not a text is shown to the model as JSON",
        "值；不是文本的值以 JSON 形式给模型看",
    ),
    ("the whole conversation", "整个对话"),
    ("the whole text of the reply, as it was written", "答复的全文，照原样"),
    (
        "tools that the model may call; absent means those that the agent or the workflow allows",
        "模型可以调用的工具；不写即智能体或工作流所允许的工具",
    ),
    (
        "tools that this request offers more: {toolIds, descriptionTemplate?} with {toolName} and {toolDescription}",
        "此请求另外提供的工具：{toolIds, descriptionTemplate?}，可用 {toolName} 和 {toolDescription}",
    ),
    (
        "what came of each call: {call, tool, status, observation, value?}",
        "每次调用的结果：{call, tool, status, observation, value?}",
    ),
    (
        "what came of the last calls: texts, or results with their images",
        "上次调用的结果：文本，或带图像的结果",
    ),
    ("what is to be shortened", "要缩短的内容"),
    (
        "what is wrong with the calls: {code, message, observation}; then none of them may run",
        "调用中的错误：{code, message, observation}；有错误时都不运行",
    ),
    (
        "what the agent is to do; a value that is not a text is written as JSON",
        "智能体要做的事；不是文本的值写成 JSON",
    ),
    ("what the person said", "用户所说的话"),
    ("what the summary is for, or what must stay", "摘要的用途，或必须保留的内容"),
    ("what the user wants; in later passes it is not said again", "用户的要求；之后的各轮不再重复"),
    ("what to look for, and how to write it", "要找什么，以及怎样书写"),
    ("what to look for, beside the setting", "除设置之外要找的内容"),
    ("words to look for", "要查找的词"),
];
