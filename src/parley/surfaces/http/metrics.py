"""Counters for Prometheus: requests by route and status, and how long they took. Never an id, a name or a key."""

from __future__ import annotations

from bisect import bisect_left

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class Metrics:
    """What this process has answered so far."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, str, int], int] = {}
        self._buckets: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}
        self._gauges: dict[str, float] = {}
        self._job_counts: dict[str, int] = {}

    def count(self, method: str, path: str, status: int, seconds: float) -> None:
        """One more request was answered."""
        key = (method, path, status)
        self._requests[key] = self._requests.get(key, 0) + 1
        buckets = self._buckets.get(path)
        if buckets is None:
            buckets = self._buckets[path] = [0] * (len(_BOUNDS) + 1)
        buckets[bisect_left(_BOUNDS, seconds)] += 1
        self._sums[path] = self._sums.get(path, 0.0) + seconds

    def gauge(self, name: str, value: float) -> None:
        """Something that goes up and down."""
        self._gauges[name] = value

    def count_jobs(self, counts: dict[str, int]) -> None:
        """How many jobs there are in all queues, by state."""
        self._job_counts = counts

    def text(self) -> str:
        """All of it in Prometheus' text format."""
        lines = ["# HELP parley_requests_total Requests answered.", "# TYPE parley_requests_total counter"]
        for (method, path, status), count in sorted(self._requests.items()):
            lines.append(f'parley_requests_total{{method="{method}",route="{path}",status="{status}"}} {count}')
        lines += ["# HELP parley_request_seconds How long answers took.", "# TYPE parley_request_seconds histogram"]
        for path, buckets in sorted(self._buckets.items()):
            below = 0
            for bound, count in zip((*map(str, _BOUNDS), "+Inf"), buckets, strict=True):
                below += count
                lines.append(f'parley_request_seconds_bucket{{route="{path}",le="{bound}"}} {below}')
            lines.append(f'parley_request_seconds_sum{{route="{path}"}} {self._sums[path]:.6f}')
            lines.append(f'parley_request_seconds_count{{route="{path}"}} {below}')
        if self._job_counts:
            lines += ["# HELP parley_jobs Jobs in work queues.", "# TYPE parley_jobs gauge"]
            lines += [f'parley_jobs{{state="{state}"}} {count}' for state, count in self._job_counts.items()]
        for name, value in sorted(self._gauges.items()):
            lines += [f"# TYPE parley_{name} gauge", f"parley_{name} {value:g}"]
        return "\n".join(lines) + "\n"
