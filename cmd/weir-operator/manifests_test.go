package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

func TestManifests_UseValidFlags(t *testing.T) {
	file := filepath.Join("..", "..", "config", "operator", "deployment.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(data, &deployment); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	container := &deployment.Spec.Template.Spec.Containers[0]
	if want := []string{"/weir-operator"}; !slices.Equal(container.Command, want) {
		t.Errorf("%s runs %q, want %q", file, container.Command, want)
	}
	if err := rootCommand().ParseFlags(container.Args); err != nil {
		t.Errorf("%s: %v", file, err)
	}
}
