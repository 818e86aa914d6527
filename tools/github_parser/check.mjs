// Reads workflows and actions with GitHub's own parser; prints every error, and ends with 1 if there is one.
import { readFileSync } from "node:fs";
import { convertWorkflowTemplate, NoOperationTraceWriter, parseWorkflow } from "@actions/workflow-parser";
import { parseAction } from "@actions/workflow-parser/actions/action-parser";

let wrong = 0;
for (const name of process.argv.slice(2)) {
  const file = { name, content: readFileSync(name, "utf8") };
  const trace = new NoOperationTraceWriter();
  const isAction = /action\.ya?ml$/.test(name);
  const parsed = isAction ? parseAction(file, trace) : parseWorkflow(file, trace);
  if (!isAction && parsed.value) await convertWorkflowTemplate(parsed.context, parsed.value);
  for (const error of parsed.context.errors.getErrors()) {
    console.log(`${name}: ${error.message}`);
    wrong += 1;
  }
}
process.exit(wrong ? 1 : 0);
