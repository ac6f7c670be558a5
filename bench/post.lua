-- wrk's request, and its summary as one line of JSON.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"model": "m", "stream": false, "messages": [{"role": "user", "content": "'
  .. string.rep("hello ", 80) .. '"}]}'

function done(summary, latency, requests)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format(
    '{"requests": %d, "failed": %d, "seconds": %.6f, "time_p50_ms": %.3f, "time_p99_ms": %.3f}\n',
    summary.requests, failed, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
