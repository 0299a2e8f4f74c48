import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// A `weft serve` that answers what the page asks while the page itself is served from its sources.
const server = process.env["WEFT_URL"] ?? "http://127.0.0.1:8080";
// The server lets its own origin write, and no other.
const proxied = { target: server, changeOrigin: true, rewriteWsOrigin: true, headers: { origin: server } };

export default defineConfig({
  base: "./",
  plugins: [svelte()],
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
    rollupOptions: {
      // The page, and the chat that other sites embed.
      input: { index: "index.html", widget: "src/widget/main.ts" },
      output: {
        entryFileNames: "assets/[name].js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
      },
    },
  },
  server: { proxy: { "/api": proxied, "/ws": { ...proxied, ws: true } } },
});
