module github.com/weir-dev/weir/go/grpclimit

go 1.26.0

require (
	github.com/gaissmai/bart v0.30.0 // indirect
	github.com/pires/go-proxyproto v0.8.0 // indirect
	github.com/sony/gobreaker/v2 v2.4.0 // indirect
	golang.org/x/time v0.8.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20250707201910-8d1bb00bc6a7
	google.golang.org/grpc v1.75.0
	google.golang.org/protobuf v1.36.12
)

require github.com/weir-dev/weir/go v0.0.0

require (
	golang.org/x/net v0.41.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.26.0 // indirect
)

replace github.com/weir-dev/weir/go => ..
