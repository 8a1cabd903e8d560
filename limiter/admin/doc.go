// Package admin describes what a limiter does, for people and tools: why a request is allowed or denied, and what the limiter has loaded.
//
// Its JSON is part of the public interface, as that of package reply: fields are added, never renamed or removed.
package admin
