import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  plugins: [react()],
  define: { "process.env.NODE_ENV": '"production"' },
  build: { chunkSizeWarningLimit: 20_000, sourcemap: false },
});
