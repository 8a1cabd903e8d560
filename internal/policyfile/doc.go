// Package policyfile reads policies from YAML files, for commands that run without Kubernetes.
//
// A file has the same meaning as in an API server. Documents are converted and validated as there, including unknown and duplicate fields. Valid policies
// are then compiled. Every [Problem] has the line number.
package policyfile
