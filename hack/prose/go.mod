module github.com/weir-dev/weir/hack/prose

go 1.26.0

require github.com/yuin/goldmark v1.8.7

require go.yaml.in/yaml/v3 v3.0.6
