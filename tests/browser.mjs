// Drives the Chromium of this machine over the pages of a site. Arguments: what tests/browser.py writes, as JSON.
import { readFileSync } from "node:fs";
const job = JSON.parse(process.argv[2]);
const { chromium } = (await import(job.playwright)).default;
const axe = readFileSync(job.axe, "utf8");
const browser = await chromium.launch({ executablePath: job.executable, args: ["--no-sandbox"] });
const found = [];

// Errors of the page's scripts, and requests to other hosts.
function watch(page, problems) {
  page.on("pageerror", (error) => problems.push(`script: ${error.message}`));
  page.on("console", (line) => line.type() === "error" && problems.push(`console: ${line.text()}`));
  page.on("request", (request) => request.url().startsWith(job.site) || problems.push(`request: ${request.url()}`));
}

// What can't be seen whole: pixels beyond the window, right or left, and text that ends at an edge which does not show it.
function measure() {
  const shown = [...document.querySelectorAll("body *:not(.skip)")].filter((element) => element.checkVisibility());
  const left = Math.min(0, ...shown.filter((element) => !element.closest(".wide")).map((element) => element.getBoundingClientRect().left));
  const cut = shown.filter((element) => {
    const style = getComputedStyle(element);
    const isHinted = style.backgroundImage !== "none" || style.textOverflow === "ellipsis";
    return element.scrollWidth > element.clientWidth + 1 && style.overflowX !== "visible" && !isHinted;
  });
  return { wide: Math.max(document.documentElement.scrollWidth - window.innerWidth, -left), cut: cut.map((element) => element.outerHTML.slice(0, 80)) };
}

async function audit(page) {
  const results = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  return results.violations.map(({ id, impact, nodes }) => [id, impact, nodes.map((node) => node.target.join(" "))]);
}

for (const width of job.widths) {
  for (const scheme of job.schemes) {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme });
    const page = await context.newPage();
    const problems = [];
    watch(page, problems);
    await page.addInitScript(axe);
    for (const path of job.pages) {
      await page.goto(job.site + path);
      for (const [action, ...values] of job.steps[path] ?? []) {
        if (action === "type") await page.keyboard.type(...values);
        else if (action === "press") await page.keyboard.press(...values);
        else if (action === "arrive") await page.waitForURL((url) => url.href.endsWith(values[0]));
        else await page.locator(values[0]).first()[action](); // focus, waitFor
      }
      const sizes = await page.evaluate(measure);
      const violations = await audit(page);
      found.push({ path, width, scheme, ...sizes, violations, url: page.url(), problems: problems.splice(0) });
      if (job.pictures) {
        const name = `${path.replaceAll("/", "_").replace(/_?$/, "")}-${width}-${scheme}.png`;
        await page.screenshot({ path: `${job.pictures}/${name}`, fullPage: true });
      }
    }
    await context.close();
  }
}
await browser.close();
console.log(JSON.stringify(found));
