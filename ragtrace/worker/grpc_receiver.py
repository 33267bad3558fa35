"""Receives OTLP over gRPC. Only traces: other signals get UNIMPLEMENTED from gRPC itself."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from ragtrace.capture.spans.request_body import PROTOBUF, IntakeError
from ragtrace.errors import SettingError
from ragtrace.worker.intake import BUSY, GRPC_CODES, UNAVAILABLE, Intake
from ragtrace.worker.worker_settings import BODY_BYTES, RETRY_SECONDS, Senders, WorkerSettings, split_address

_T = TypeVar("_T")
_SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"
_CALLS = 256
"""Calls at a time; gRPC answers more with RESOURCE_EXHAUSTED."""
_MESSAGE_SECONDS = 15.0
"""In which a call's message must come: a silent sender takes no thread, but one of the calls."""
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class GrpcReceiver:
    """A gRPC server for `TraceService/Export`."""

    def __init__(self, settings: WorkerSettings, senders: Senders, intake: Intake) -> None:
        """Raises SettingError where the address cannot be listened on, and for certificates that cannot be read."""
        self._settings, self._senders, self._intake = settings, senders, intake
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="ragtrace-grpc", daemon=True)
        self._thread.start()
        try:
            self._server, self.port = self._await(self._create())
        except SettingError:
            self._loop.call_soon_threadsafe(self._loop.stop)
            raise

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def _await(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _create(self) -> tuple[grpc.aio.Server, int]:
        # A second worker on the port is an error, and does not share it.
        options = [("grpc.max_receive_message_length", BODY_BYTES), ("grpc.so_reuseport", 0)]
        server = grpc.aio.server(maximum_concurrent_rpcs=_CALLS, options=options)
        # Bytes instead of messages: gRPC answers damaged ones with INTERNAL, and logs each with a traceback. A stream
        # of one: the call arrives before its message, so that one that is too long is counted.
        method = grpc.stream_unary_rpc_method_handler(self._export)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, {"Export": method}),))
        address = self._settings.grpc
        split_address(address, "grpc")
        try:
            credentials = _credentials(self._settings)
            if credentials is None:
                return server, server.add_insecure_port(address)
            return server, server.add_secure_port(address, credentials)
        except OSError as error:
            raise SettingError(f"the certificates of the worker cannot be read: {error}") from error
        except (RuntimeError, ValueError) as error:
            raise SettingError(f"grpc: {address} cannot be listened on ({error}); is it taken?") from error

    def start(self) -> None:
        """Begin to answer."""
        self._await(self._server.start())

    def stop(self, seconds: float) -> None:
        """Take no further calls; those under way may take so long."""
        if self._thread.is_alive():
            self._await(self._server.stop(seconds))
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    async def _export(self, messages: AsyncIterator[bytes], context: Any) -> bytes:
        try:
            metadata = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
            sender = self._senders.check(metadata.get("authorization", ""))
            self._intake.check_open()
            response = await asyncio.to_thread(self._intake.take, await self._read(messages), "", PROTOBUF, sender)
        except IntakeError as error:
            self._intake.refuse(error)
            await self._abort(context, error)
        return bytes(response.SerializeToString())

    async def _read(self, messages: AsyncIterator[bytes]) -> bytes:
        """The message of a call. Raises IntakeError where none comes: gRPC has refused it, or the sender is silent."""
        try:
            return await asyncio.wait_for(anext(messages), _MESSAGE_SECONDS)
        except (StopAsyncIteration, TimeoutError, grpc.RpcError):
            message = f"no message came with the call: it has more than {BODY_BYTES} bytes, or its sender is silent"
            raise IntakeError(400, "incomplete", message) from None

    async def _abort(self, context: Any, error: IntakeError) -> NoReturn:
        code = _CODES[GRPC_CODES.get(error.status, 3)]
        if error.status in (BUSY, UNAVAILABLE):
            info = RetryInfo(retry_delay=Duration(seconds=RETRY_SECONDS))
            packed = AnyMessage()
            packed.Pack(info)
            status = Status(code=code.value[0], message=error.message, details=[packed])
            # The second name is the one that OpenTelemetry's SDK for Python reads.
            trailers: Any = (
                ("grpc-status-details-bin", status.SerializeToString()),
                ("google.rpc.retryinfo-bin", info.SerializeToString()),
            )
            context.set_trailing_metadata(trailers)
        await context.abort(code, error.message)
        raise error  # not reached: `abort` raises


def _credentials(settings: WorkerSettings) -> grpc.ServerCredentials | None:
    if not settings.tls_certificate:
        return None
    pair = (Path(settings.tls_key).read_bytes(), Path(settings.tls_certificate).read_bytes())
    authorities = Path(settings.tls_client_ca).read_bytes() if settings.tls_client_ca else None
    return grpc.ssl_server_credentials([pair], authorities, require_client_auth=authorities is not None)
