package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/source"
)

// flagsWithoutField are the flags of `weir limiter` that no field of a Limiter sets, with the reason.
var flagsWithoutField = map[string]string{
	"listen":             "the operator chooses the ports of the pods",
	"grpc-listen":        "the operator chooses the ports of the pods",
	"ops-listen":         "the operator chooses the ports of the pods",
	"admin-listen":       "the operator chooses the ports of the pods",
	"admin-operator-key": "the operator derives the key",
	"grpc-reflection":    "reflection is for tools on the machine of a developer",
	"replicas":           "pods read it from a ConfigMap, so that scaling replaces no pods",
	"replica":            "the name of the pod is the host name, which is the default",
	"hash-key":           "the operator creates and mounts the key",
	"prefix":             "the operator and all of its limiters use the same keys in Redis",
	"snapshot":           "the operator writes and mounts the snapshot",
	"log-format":         "logs of pods are read by programs",
}

// TestDeployment_SetsEveryFlagFromAField fails if a Limiter cannot express what its process can: each flag differs between the
// golden files, whose Limiters together set every field, or is listed with the reason.
func TestDeployment_SetsEveryFlagFromAField(t *testing.T) {
	renderings := limiterContainers(t)
	values := map[string]map[string]bool{} // by flag, the values in the golden files; "" for a file without the flag
	for _, container := range renderings {
		given := flagsOf(container)
		for name, value := range given {
			if values[name] == nil {
				values[name] = map[string]bool{}
			}
			values[name][value] = true
		}
	}
	for name := range values {
		for _, container := range renderings {
			if _, is := flagsOf(container)[name]; !is {
				values[name][""] = true
			}
		}
	}
	cmd, _, err := rootCommand().Find([]string{"limiter"})
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, name := range flagNames(cmd) {
		known[name] = true
		reason, listed := flagsWithoutField[name]
		switch fromField := len(values[name]) > 1; {
		case !fromField && !listed:
			t.Errorf("--%s: no field of a Limiter sets it in controllers/deployment/testdata", name)
		case fromField && listed:
			t.Errorf("--%s: a field of a Limiter sets it, so it must not be listed as %q", name, reason)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(flagsWithoutField)) {
		if !known[name] {
			t.Errorf("--%s is listed and does not exist", name)
		}
	}
}

func TestSnapshotParts_AreThoseThatALimiterReads(t *testing.T) {
	if source.MaxSnapshotParts != v1alpha1.SnapshotParts {
		t.Errorf("a limiter reads %d files, and the operator writes %d", source.MaxSnapshotParts, v1alpha1.SnapshotParts)
	}
}

// limiterContainers returns the containers of the Deployments in the golden files.
func limiterContainers(t *testing.T) []corev1.Container {
	t.Helper()
	files, err := filepath.Glob("../../controllers/deployment/testdata/*.out.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("golden files %q: %v", files, err)
	}
	var all []corev1.Container
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(text), "---\n") {
			var d appsv1.Deployment
			if err := yaml.Unmarshal([]byte(document), &d); err == nil && d.Kind == "Deployment" {
				all = append(all, d.Spec.Template.Spec.Containers[0])
			}
		}
	}
	return all
}

// flagsOf returns the flags that the arguments and the environment of a container set.
func flagsOf(container corev1.Container) map[string]string {
	given := map[string]string{}
	for _, argument := range container.Args[1:] {
		name, value, _ := strings.Cut(strings.TrimPrefix(argument, "--"), "=")
		given[name] = value
	}
	return given
}

// flagNames returns the names of the flags of a command, including those of the root command.
func flagNames(cmd *cobra.Command) []string {
	var names []string
	add := func(f *pflag.Flag) { names = append(names, f.Name) }
	cmd.InheritedFlags().VisitAll(add)
	cmd.LocalFlags().VisitAll(add)
	return names
}
