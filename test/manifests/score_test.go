package manifests

import (
	"maps"
	"slices"
	"testing"

	"github.com/weir-dev/weir/test/manifests/tool"
)

// exceptions are arguments that disable checks of kube-score, each with the reason.
func exceptions() map[string]string {
	return map[string]string{
		"--ignore-test=pod-networkpolicy":                             "egress is open: the operator connects to Redis on any port that a Limiter specifies",
		"--ignore-test=container-security-context-user-group-id":      "the image has a user, and OpenShift rejects any other ID than the one it assigns",
		"--ignore-test=container-ephemeral-storage-request-and-limit": "the operator cannot write files: no volumes, read-only root file system; the kubelet rotates its log",
		"--ignore-test=deployment-has-host-podantiaffinity":           "topologySpreadConstraints spread the pods, which kube-score does not recognize",
		"--ignore-test=container-image-pull-policy":                   "the content of a digest never changes, and a start that needs the registry can fail",
		"--ignore-container-cpu-limit":                                "a CPU limit would throttle the webhook",
	}
}

func TestKubeScore_ReportsNothingExceptTheExceptions(t *testing.T) {
	file, err := installManifest(t, image)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"score", "--kubernetes-version", "v" + oldestKubernetes, "--exit-one-on-warning", "--output-format", "ci"}
	for _, optional := range []string{"container-seccomp-profile", "container-ports-check"} {
		args = append(args, "--enable-optional-test", optional)
	}
	args = slices.AppendSeq(args, maps.Keys(exceptions()))
	tool.Run(t, "kube-score", append(args, file)...)
}
