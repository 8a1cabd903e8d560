package redisclient

// For the tests.
var (
	ParseInfo = parseInfo
	Older     = older
	AddMemory = addMemory
)
