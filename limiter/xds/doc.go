// Package xds receives configuration from an xDS server: the aggregated discovery service (ADS), state of the world.
//
// A [Client] subscribes to all resources of one type, acknowledges what [Options.Apply] accepts, and rejects the rest with the reason. What
// was accepted last stays active while the server is unavailable.
package xds
