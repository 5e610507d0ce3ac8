#!/usr/bin/env python3
"""The daemon's spans against OpenTelemetry's own definition: a collector of Python's http.server reads what is posted by
the protobuf messages of opentelemetry-proto, which refuse unknown fields and wrong types, and looks at ids and times.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install opentelemetry-proto
    /tmp/venv/bin/python bench/serving_otlp.py --build build
"""
import argparse
import base64
import http.server
import json
import os
import sys
import threading
import urllib.error
import urllib.request

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from serving_daemon import daemon

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
posted, enough = [], threading.Event()


def read(text):
    """OTLP's JSON has ids in hexadecimal where protobuf's has base64; all else is protobuf's."""
    tree = json.loads(text)

    def walk(node):
        if isinstance(node, list):
            for item in node:
                walk(item)
        elif isinstance(node, dict):
            for key, value in node.items():
                if key in ("traceId", "spanId", "parentSpanId"):
                    node[key] = base64.b64encode(bytes.fromhex(value)).decode()
                else:
                    walk(value)

    walk(tree)
    return json_format.ParseDict(tree, trace_service_pb2.ExportTraceServiceRequest(), ignore_unknown_fields=False)


class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = read(self.rfile.read(int(self.headers["Content-Length"])))
        posted.extend(span for r in message.resource_spans for s in r.scope_spans for span in s.spans)
        answer = json_format.MessageToJson(trace_service_pb2.ExportTraceServiceResponse()).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
        if len([s for s in posted if s.kind == trace_pb2.Span.SPAN_KIND_SERVER]) >= 3:
            enough.set()

    def log_message(self, *_):
        pass


def ask(port, headers, body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v2/models/m/infer", json.dumps(body).encode(), headers)
    try:
        return urllib.request.urlopen(request).status
    except urllib.error.HTTPError as error:
        return error.code


def check(path):
    with open(path) as f:
        filed = [span for line in f for r in read(line).resource_spans for s in r.scope_spans for span in s.spans]
    assert [s.SerializeToString() for s in filed] == [s.SerializeToString() for s in posted], "file and collector differ"
    ids = {s.span_id: s for s in posted}
    assert len(ids) == len(posted), "a span's id comes twice"
    for span in posted:
        assert len(span.trace_id) == 16 and len(span.span_id) == 8 and span.name
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        keys = [a.key for a in span.attributes]
        assert len(keys) == len(set(keys)), keys
        parent = ids.get(span.parent_span_id)
        if parent:
            assert parent.trace_id == span.trace_id
            assert parent.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano <= parent.end_time_unix_nano
    tops = [s for s in posted if s.kind == trace_pb2.Span.SPAN_KIND_SERVER]
    assert [s.trace_id.hex() == TRACE and s.parent_span_id.hex() == PARENT for s in tops] == [True, False, True]
    assert tops[0].trace_state == "a=1" and not tops[1].parent_span_id
    assert [s.status.code for s in tops] == [0, 0, trace_pb2.Status.STATUS_CODE_ERROR]
    return len(posted)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    args = parser.parse_args()
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    folder = os.environ.get("TMPDIR", "/tmp")
    path = os.path.join(folder, f"braid-spans-{os.getpid()}.jsonl")
    config = (f"port: PORT\ntrace: {{endpoint: \"http://127.0.0.1:{collector.server_port}/v1/traces\", file: {path}, sample: 1}}\n"
              f"models:\n  - {{name: m, path: {os.path.abspath('models/lenet.cfg')}}}\n")
    body = {"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 1, 28, 28], "data": [0.5] * 784}]}
    caller = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "a=1"}
    try:
        with daemon(args.build, config) as (port, _):
            assert ask(port, caller, body) == 200 and ask(port, {}, body) == 200
            assert ask(port, caller, {**body, "parameters": {"timeout": 1}}) == 503
            assert enough.wait(10), "no spans came"
        print(f"{check(path)} spans, as opentelemetry-proto defines them")
    finally:
        if os.path.exists(path):
            os.remove(path)


if __name__ == "__main__":
    sys.exit(main())
