// Takes the pictures that render.py asks for, with Chromium.
import { readFile } from "node:fs/promises";
import http from "node:http";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const asked = JSON.parse(process.argv[2]);
const dist = path.join(path.dirname(fileURLToPath(import.meta.url)), "dist");
const pages = new Map(asked.pages.map((page) => [`/${path.basename(page)}`, page]));
const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json" };

const server = http.createServer(async (request, response) => {
  const { pathname } = new URL(request.url, "http://localhost");
  const inside = path.normalize(path.join(dist, pathname === "/" ? "index.html" : pathname));
  const file = pages.get(pathname) ?? (inside.startsWith(dist + path.sep) ? inside : null);
  try {
    const body = await readFile(file);
    response.writeHead(200, { "Content-Type": types[path.extname(file)] ?? "application/octet-stream" }).end(body);
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const base = `http://127.0.0.1:${server.address().port}`;
const browser = await chromium.launch({
  executablePath: asked.chromium,
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
let troubles = 0;
for (const name of pages.keys()) {
  for (const theme of asked.themes) {
    const tab = await browser.newPage({ viewport: { width: 1600, height: 400 } });
    const errors = [];
    tab.on("pageerror", (error) => errors.push(String(error)));
    const query = { prometheus: asked.prometheus, dashboard: name, from: asked.from, to: asked.to, theme };
    await tab.goto(`${base}/?${new URLSearchParams(query)}`);
    await tab.waitForFunction(() => window.waiting === 0, null, { timeout: 60_000 }).catch(() => errors.push("not drawn within a minute"));
    await tab.evaluate(() => document.fonts.ready);
    await tab.waitForTimeout(500);
    errors.push(...(await tab.evaluate(() => window.troubles)));
    const file = path.join(asked.out, `${path.basename(name, ".json")}-${theme}.png`);
    await tab.screenshot({ path: file, fullPage: true });
    await tab.close();
    for (const error of errors) {
      console.error(`${name} ${theme}: ${error}`);
    }
    troubles += errors.length;
  }
}
await browser.close();
server.close();
process.exit(troubles ? 1 : 0);
