// One question asked of an application of the Vercel AI SDK, traced by OpenTelemetry's SDK for JavaScript.
// `node vercel_ai.mjs CASE`; OTEL_EXPORTER_OTLP_ENDPOINT says where the spans go.
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { MockLanguageModelV3, simulateReadableStream } from "ai/test";
import { z } from "zod";

const QUESTION = "How long is the pump covered?";
const ANSWER = "The pump is covered for 24 months.";
const CHUNK = "The pump is covered for 24 months from delivery.";
const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "shop" }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
});
provider.register();

const usage = {
  inputTokens: { total: 40, noCache: 40, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 9, text: 9, reasoning: 0 },
};
const stop = { unified: "stop", raw: "stop" };
const calls = { unified: "tool-calls", raw: "tool_calls" };
const reply = (content, finishReason = stop) => ({
  content, finishReason, usage, warnings: [], response: { id: "chatcmpl-1", modelId: "gpt-4o-mini-2024-07-18" },
});
const model = (doGenerate, doStream) =>
  new MockLanguageModelV3({ provider: "openai.chat", modelId: "gpt-4o-mini", doGenerate, doStream });
const telemetry = {
  isEnabled: true,
  functionId: "answer",
  metadata: { sessionId: "conversation-1", userId: "user-ada" },
};
const search = tool({
  description: "Searches the manual.",
  inputSchema: z.object({ query: z.string() }),
  execute: async () => [{ id: "d0", content: CHUNK, score: 0.9 }],
});

const cases = {
  call: () =>
    generateText({
      model: model(async () => reply([{ type: "text", text: ANSWER }])),
      system: `Answer from this: ${CHUNK}`,
      prompt: QUESTION,
      experimental_telemetry: telemetry,
    }),
  tool: () => {
    let step = 0;
    const input = JSON.stringify({ query: "pump coverage" });
    return generateText({
      model: model(async () =>
        step++ === 0
          ? reply([{ type: "tool-call", toolCallId: "call-1", toolName: "search", input }], calls)
          : reply([{ type: "text", text: ANSWER }]),
      ),
      messages: [{ role: "user", content: QUESTION }],
      tools: { search },
      stopWhen: stepCountIs(3),
      experimental_telemetry: telemetry,
    });
  },
  stream: async () => {
    const chunks = [
      { type: "stream-start", warnings: [] },
      { type: "response-metadata", id: "chatcmpl-1", modelId: "gpt-4o-mini-2024-07-18" },
      { type: "text-start", id: "0" },
      ...ANSWER.split(/(?= )/).map((delta) => ({ type: "text-delta", id: "0", delta })),
      { type: "text-end", id: "0" },
      { type: "finish", finishReason: stop, usage },
    ];
    const result = streamText({
      model: model(undefined, async () => ({ stream: simulateReadableStream({ chunks }) })),
      prompt: QUESTION,
      experimental_telemetry: telemetry,
    });
    await result.consumeStream();
  },
  error: () =>
    generateText({
      model: model(async () => {
        throw new TypeError("the model is away");
      }),
      prompt: QUESTION,
      maxRetries: 0,
      experimental_telemetry: telemetry,
    }).catch(() => undefined),
};
await cases[process.argv[2]]();
await provider.forceFlush();
await provider.shutdown();
