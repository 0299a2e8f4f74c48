//! Descriptions of the built-in tools in Chinese.

use tool_registry::Tool;

/// Description of a tool, and of its parameters by name.
struct Words(&'static str, &'static [(&'static str, &'static str)]);

const KEY: (&str, &str) = ("key", "某一个值：写名称，或 JSON 指针（如 `/cart/0`）；不写则返回全部");
const DEFAULT: (&str, &str) = ("default_value", "该处没有值时返回的值");
const CHANGES: (&str, &str) = ("changes", "按名称给出的新值");
const TASK: (&str, &str) = ("task", "任务的 id");
const LIMIT: (&str, &str) = ("limit", "最多读取的字节数");

/// Adds the Chinese descriptions of a built-in tool.
pub(super) fn translated(tool: Tool) -> Tool {
    match words(tool.id().as_str()) {
        Some(Words(description, parameters)) => tool.translated("zh", description, parameters),
        None => tool,
    }
}

fn words(id: &str) -> Option<Words> {
    Some(match id {
        "system:get_current_time" => {
            Words("当前的日期和时间。", &[("timezone", "IANA 时区名，如 `Asia/Shanghai`；不写则为 UTC")])
        }
        "system:read_state" => Words("读取你的私有状态。", &[KEY, DEFAULT]),
        "system:update_state" => Words("修改你的私有状态。同名成员被替换，null 表示删除。", &[CHANGES]),
        "system:read_world" => Words("读取所有代理共享的状态。", &[KEY, DEFAULT]),
        "system:update_world" => Words("修改所有代理共享的状态。同名成员被替换，null 表示删除。", &[CHANGES]),
        "system:publish_event" => Words(
            "向其他代理发布一个事件。",
            &[("event", "订阅者所订阅的名称"), ("payload", "它们收到的数据")],
        ),
        "system:done" => Words("以结果结束你的工作。", &[("result", "工作的结果")]),
        "system:read_blob" => Words(
            "读取一个长结果的一部分。",
            &[("ref", "给出的 id：`blob:` 加 64 位十六进制数字"), ("offset", "从第几个字节开始"), LIMIT],
        ),
        "system:task_status" => Words("返回先前启动的任务的状态。", &[TASK]),
        "system:task_result" => Words(
            "返回任务目前的输出，结束后还有其结果。",
            &[TASK, ("offset", "从何处继续读，即上次答复中的 `next`"), LIMIT],
        ),
        "system:task_cancel" => Words("取消一个任务。", &[TASK]),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_tool_and_parameter_is_described_in_chinese() {
        for tool in crate::system_tools().unwrap() {
            let definition = tool.definition();
            let words = &definition.translations["zh"];
            let named: Vec<&String> = words.parameters.keys().collect();
            let mut declared: Vec<&String> =
                definition.parameters["properties"].as_object().unwrap().keys().collect();
            declared.sort();
            assert_eq!(named, declared, "{}", tool.id());
            assert_eq!(definition.in_language("zh").description, words.description);
        }
    }
}
