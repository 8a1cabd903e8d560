// Package policyfile reads policies from YAML files, for commands that run without Kubernetes.
//
// A file means what it would mean to an API server: documents are converted, defaulted and validated by the same code
// and the same CustomResourceDefinition, unknown and repeated fields included, and what passes is compiled. Every
// [Problem] says the line.
package policyfile
