// Package policyci tests what checks policies in continuous integration: the GitHub Action, the template for GitLab, and the hooks for pre-commit. The
// scripts run in repositories of their own, as far as they can without their platforms. With the build tag gateways, the hooks run in pre-commit.
package policyci
