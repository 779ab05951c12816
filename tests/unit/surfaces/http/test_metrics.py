"""Counters in the words of Prometheus."""

from parley.surfaces.http.metrics import Metrics


def test_requests_are_counted_by_method_route_and_status() -> None:
    metrics = Metrics()

    for status in (201, 201, 409):
        metrics.count("POST", "/channels/{channel_id}/messages", status, 0.002)

    text = metrics.text()
    assert 'parley_requests_total{method="POST",route="/channels/{channel_id}/messages",status="201"} 2' in text
    assert 'parley_requests_total{method="POST",route="/channels/{channel_id}/messages",status="409"} 1' in text


def test_a_histogram_counts_each_answer_in_every_bucket_that_it_fits() -> None:
    metrics = Metrics()

    for seconds in (0.0005, 0.003, 60.0):
        metrics.count("GET", "/x", 200, seconds)

    text = metrics.text()
    assert 'parley_request_seconds_bucket{route="/x",le="0.001"} 1' in text
    assert 'parley_request_seconds_bucket{route="/x",le="0.005"} 2' in text
    assert 'parley_request_seconds_bucket{route="/x",le="5.0"} 2' in text
    assert 'parley_request_seconds_bucket{route="/x",le="+Inf"} 3' in text
    assert 'parley_request_seconds_count{route="/x"} 3' in text
    assert 'parley_request_seconds_sum{route="/x"} 60.003500' in text


def test_a_gauge_shows_its_last_value() -> None:
    metrics = Metrics()

    metrics.gauge("position", 1)
    metrics.gauge("position", 7)

    assert "\nparley_position 7\n" in metrics.text()
