// Package logtime parses the times and durations of access logs.
package logtime
