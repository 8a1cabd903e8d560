package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/limiter/redisclient"
)

// TestDeployment_UsesValidFlags parses the commands in the rendered Deployments of Limiters as the limiter does.
func TestDeployment_UsesValidFlags(t *testing.T) {
	files, err := filepath.Glob("../../controllers/deployment/testdata/*.out.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(text), "---\n") {
			var d appsv1.Deployment
			if err := yaml.Unmarshal([]byte(document), &d); err != nil || d.Kind != "Deployment" {
				continue
			}
			container := d.Spec.Template.Spec.Containers[0]
			cmd, args, err := rootCommand().Find(container.Args)
			if err != nil || cmd.Name() != "limiter" {
				t.Fatalf("%s calls %q: %v", file, container.Args, err)
			}
			if err := cmd.ParseFlags(args); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			url, err := cmd.Flags().GetString("redis")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := redisclient.ParseURL(url); err != nil {
				t.Errorf("%s: %s: %v", file, url, err)
			}
			for _, variable := range container.Env {
				name := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(variable.Name, "WEIR_")), "_", "-")
				if strings.HasPrefix(variable.Name, "WEIR_") && cmd.Flags().Lookup(name) == nil {
					t.Errorf("%s: variable %s belongs to no flag", file, variable.Name)
				}
			}
		}
	}
}
