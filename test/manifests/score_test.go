package manifests

import (
	"maps"
	"slices"
	"testing"

	"github.com/weir-dev/weir/test/manifests/tool"
)

// exceptions are checks of kube-score that the operator does not pass, as arguments, and why it need not.
func exceptions() map[string]string {
	return map[string]string{
		"--ignore-test=pod-networkpolicy":                             "it reaches Redis on whatever port a Limiter names, and API servers, which reach it, have no labels",
		"--ignore-test=container-ephemeral-storage-request-and-limit": "it cannot write: no volumes, a read-only root; the kubelet rotates its log",
		"--ignore-test=deployment-has-host-podantiaffinity":           "it is spread by topologySpreadConstraints, which kube-score does not know",
		"--ignore-test=container-image-pull-policy":                   "what a digest names is always the same; a start that asks the registry for it can fail",
		"--ignore-container-cpu-limit":                                "a CPU limit would throttle it while it answers a webhook",
	}
}

func TestKubeScoreFindsNothingThatHasNoReason(t *testing.T) {
	file, err := installManifest(t, image)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"score", "--kubernetes-version", "v1.32", "--exit-one-on-warning", "--output-format", "ci"}
	for _, optional := range []string{"container-seccomp-profile", "container-ports-check"} {
		args = append(args, "--enable-optional-test", optional)
	}
	args = slices.AppendSeq(args, maps.Keys(exceptions()))
	tool.Run(t, "kube-score", append(args, file)...)
}
