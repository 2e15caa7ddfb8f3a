// A RAG app on the Vercel AI SDK 7 with its OpenTelemetry integration: a rewrite with generateText,
// the answer with generateText and a search tool. Reads one question a line, writes one answer a line.
'use strict';

const { createRequire } = require('node:module');
const { join } = require('node:path');
const { createInterface } = require('node:readline');

const load = createRequire(join(process.env.NODE_MODULES_OF, 'package.json'));
const { OTLPTraceExporter } = load('@opentelemetry/exporter-trace-otlp-proto');
const { resourceFromAttributes } = load('@opentelemetry/resources');
const { BatchSpanProcessor, NodeTracerProvider } = load('@opentelemetry/sdk-trace-node');
const { OpenTelemetry } = load('@ai-sdk/otel');
const { createOpenAI } = load('@ai-sdk/openai');
const { generateText, isStepCount, registerTelemetry, tool } = load('ai');
const { z } = load('zod');

const settings = JSON.parse(process.argv[2]);
const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({
    'service.name': 'refund-bot',
    'service.version': settings.release,
  }),
  spanProcessors: [
    new BatchSpanProcessor(new OTLPTraceExporter({ url: `${settings.receiver}/v1/traces` })),
  ],
});
provider.register();
registerTelemetry(new OpenTelemetry());
const model = createOpenAI({ baseURL: settings.model_url, apiKey: 'k' }).chat(settings.model);

async function answer(ask) {
  const searchKb = tool({
    description: 'Searches the knowledge base.',
    inputSchema: z.object({ query: z.string() }),
    execute: async () => ask.hits,
  });
  const { text } = await generateText({
    model,
    instructions: settings.prompt,
    prompt: ask.question,
    tools: { searchKb },
    stopWhen: isStepCount(3),
    telemetry: { functionId: 'ask' },
  });
  return text;
}

async function main() {
  for await (const line of createInterface({ input: process.stdin })) {
    console.log(JSON.stringify(await answer(JSON.parse(line))));
  }
  await provider.shutdown();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
