import { mount } from "svelte";
import App from "./App.svelte";
import { takeToken } from "./api/token.ts";
import "./app.css";

await takeToken();
const target = document.getElementById("app");
if (target) mount(App, { target });
