"""Keep what a chain's own Grafana and Prometheus load: a dashboard, alert rules (a test holds them to the metrics)."""
