// Package gatewayapi reads the objects of the Gateway API that policies can target, in clusters that have the Gateway API.
package gatewayapi
