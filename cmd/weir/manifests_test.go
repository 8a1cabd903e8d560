package main

import (
	"os"
	"path/filepath"
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
	cmd, flags, err := rootCommand().Find(deployment.Spec.Template.Spec.Containers[0].Args)
	if err != nil || cmd.Name() != "operator" {
		t.Errorf("%s calls %q: %v", file, cmd.Name(), err)
	}
	if err := cmd.ParseFlags(flags); err != nil {
		t.Errorf("%s: %v", file, err)
	}
}
