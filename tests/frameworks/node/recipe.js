// Runs the recipe that is given on standard input, inside an app as small as can be, and sends what
// it says to the collector named as the only argument. Prints the trace id.
'use strict';

const { readFileSync } = require('node:fs');
const { createRequire } = require('node:module');
const { join } = require('node:path');

const load = createRequire(join(process.env.NODE_MODULES_OF, 'package.json'));
const { OTLPTraceExporter } = load('@opentelemetry/exporter-trace-otlp-proto');
const { resourceFromAttributes } = load('@opentelemetry/resources');
const { BatchSpanProcessor, NodeTracerProvider } = load('@opentelemetry/sdk-trace-node');

const KB = [
  { id: 'refund#1', doc: 'refund', version: 'v7', text: 'Refunds within "30" days.\nÄ', score: 1.0 },
  { id: 'refund#2', doc: 'refund', version: 'v6', text: 'Refunds within 60 days.', score: 0.5 },
  { id: 'warranty#1', doc: 'warranty', version: 'v1', text: 'Two years.', score: 0.25 },
  { id: 'shipping#1', doc: 'shipping', version: 'v1', text: 'Three days.', score: 0.125 },
];

async function main() {
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ 'service.name': 'refund-bot', 'service.version': '1.4.2' }),
    spanProcessors: [
      new BatchSpanProcessor(new OTLPTraceExporter({ url: `${process.argv[2]}/v1/traces` })),
    ],
  });
  provider.register();
  let traceId;
  const app = {
    require: load,
    question: 'And how long?',
    query: 'How long is the refund window?',
    conversationId: 'c-node',
    search: async () => KB,
    generate: async () => {
      traceId = load('@opentelemetry/api').trace.getActiveSpan().spanContext().traceId;
      return 'Within 30 days.';
    },
  };
  const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor;
  await new AsyncFunction(...Object.keys(app), readFileSync(0, 'utf8'))(...Object.values(app));
  await provider.shutdown();
  console.log(traceId);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
