-- wrk's request: a file as the body, headers by the environment.
local file = assert(io.open(os.getenv("BODY"), "rb"))
wrk.method = "POST"
wrk.body = file:read("*a")
wrk.headers["Content-Type"] = os.getenv("JSON_BYTES") and "application/octet-stream" or os.getenv("TYPE")
if os.getenv("JSON_BYTES") then wrk.headers["Inference-Header-Content-Length"] = os.getenv("JSON_BYTES") end
done = function(summary, latency, requests)
  io.write(string.format("\n%d %d %d %d %d %d\n", summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout, latency.min))
end
