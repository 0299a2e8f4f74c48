// 页面文字（画布与循环检查器除外）。
import type { en } from "./en-page.ts";

export const zh: Record<keyof typeof en, string> = {
  "app.skip": "跳到正文",
  "app.pages": "页面",
  "app.language": "Switch to English",
  "app.theme": "配色：{theme}。点击更换",
  "app.loading": "加载中…",
  "app.reconnecting": "连接已断开，正在重连…",
  "app.refused": "服务器已不认识此页面。请重新打开 weft serve 打印的地址。",
  "theme.auto": "跟随系统",
  "theme.light": "浅色",
  "theme.dark": "深色",
  "page.timeline": "时间线",
  "page.chat": "对话",
  "page.tools": "工具",
  "page.runs": "运行记录",
  "connect.title": "连接到你的项目",
  "connect.how": "打开下面这条命令打印的地址，它的末尾带有令牌。也可以把地址或令牌粘贴到这里。",
  "connect.token": "地址或令牌",
  "connect.go": "连接",
  "error.retry": "重试",
  "error.offline": "无法连接到服务器。",
  "error.offline.help": "weft serve 还在运行吗？",
};
