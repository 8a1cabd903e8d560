// Package dashboards tests the Grafana dashboards of config/grafana: it lints them, and runs each of their queries in a real Prometheus
// that scrapes an operator, limiters and API servers under load.
package dashboards
