// Package report writes the result of a replay as one HTML file, which needs no script and no network, and can be mailed or kept by a CI job.
package report
