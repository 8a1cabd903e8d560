module github.com/weir-dev/weir/go/weir/cel

go 1.26.0

require (
	github.com/gaissmai/bart v0.30.0 // indirect
	github.com/google/cel-go v0.29.2
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20250707201910-8d1bb00bc6a7 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

require github.com/weir-dev/weir/go v0.0.0

require (
	cel.dev/expr v0.25.1 // indirect
	github.com/antlr4-go/antlr/v4 v4.13.1 // indirect
	golang.org/x/exp v0.0.0-20240823005443-9b4947da3948 // indirect
	golang.org/x/text v0.22.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20240826202546-f6391c0de4c7 // indirect
)

replace github.com/weir-dev/weir/go => ../..
