// Package gateways runs real gateways with the configurations of the documents, in front of a service, with real weir and Redis processes.
// Its programs come from Python wheels, so that its tests have the build tag gateways and are not part of make test.
package gateways
