// The chat's own words.

const en = {
  say: "Write a message",
  send: "Send",
  messages: "Messages",
  thinking: "Writing …",
  person: "{name} answers you now.",
  anybody: "A colleague answers you now.",
  closed: "This conversation is closed.",
  failed: "Your message could not be sent. Try again.",
  slow: "You write faster than messages are taken. Wait a moment.",
  lost: "Connection lost. Reconnecting …",
};
export type Words = typeof en;

const zh: Words = {
  say: "输入消息",
  send: "发送",
  messages: "消息",
  thinking: "正在输入…",
  person: "现在由 {name} 为你服务。",
  anybody: "现在由同事为你服务。",
  closed: "此会话已关闭。",
  failed: "消息未能发送，请重试。",
  slow: "发送过快，请稍候。",
  lost: "连接已断开，正在重连…",
};

export function wordsOf(language: "en" | "zh"): Words {
  return language === "zh" ? zh : en;
}
