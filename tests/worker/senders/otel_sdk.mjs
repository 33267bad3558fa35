// One request of an application, sent by OpenTelemetry's SDK for JavaScript.
// `node otel_sdk.mjs grpc|http/json|http/protobuf`; OTEL_EXPORTER_OTLP_ENDPOINT says where the spans go.
import { SpanKind, SpanStatusCode } from "@opentelemetry/api";
import { OTLPTraceExporter as GrpcExporter } from "@opentelemetry/exporter-trace-otlp-grpc";
import { OTLPTraceExporter as JsonExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter as ProtobufExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

const QUESTION = "How long is the pump covered? (24 \u{1F4C5})";
const ANSWER = "The pump is covered for 24 months.";
const exporters = { grpc: GrpcExporter, "http/json": JsonExporter, "http/protobuf": ProtobufExporter };
const compression = process.argv[2] === "http/protobuf" ? "gzip" : "none";
const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "shop" }),
  spanProcessors: [new BatchSpanProcessor(new exporters[process.argv[2]]({ compression }))],
});
provider.register();
const tracer = provider.getTracer("openinference.instrumentation.langchain", "1.0");
const messages = (role, content) => JSON.stringify([{ role, parts: [{ type: "text", content }] }]);
const from = { "session.id": "conversation-1", "user.id": "user-ada" };

tracer.startActiveSpan("chain", { attributes: { "openinference.span.kind": "CHAIN", ...from } }, (chain) => {
  chain.setAttributes({ "input.value": QUESTION, "output.value": ANSWER });
  tracer.startActiveSpan("search", { attributes: { "openinference.span.kind": "RETRIEVER" } }, (search) => {
    search.setAttribute("retrieval.documents.0.document.id", "d0");
    search.setAttribute("retrieval.documents.0.document.content", "The pump is covered for 24 months from delivery.");
    search.setAttribute("retrieval.documents.0.document.score", 0.9);
    search.end();
  });
  tracer.startActiveSpan("chat", { kind: SpanKind.CLIENT }, (chat) => {
    chat.setAttributes({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "openai",
      "gen_ai.request.model": "gpt-4o-mini",
      "gen_ai.response.finish_reasons": ["stop"],
      "gen_ai.usage.input_tokens": 40,
      "gen_ai.usage.output_tokens": 9,
      "gen_ai.input.messages": messages("user", QUESTION),
      "gen_ai.output.messages": messages("assistant", ANSWER),
    });
    chat.addEvent("cut", { at: 3 });
    chat.end();
  });
  chain.setStatus({ code: SpanStatusCode.OK });
  chain.end();
});
await provider.forceFlush();
await provider.shutdown();
