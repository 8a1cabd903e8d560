package ask

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/stored"
)

// limiterFile is a flag: the file with a Limiter whose identity table applies to policies in files.
type limiterFile string

func (f *limiterFile) add(flags *pflag.FlagSet) {
	flags.StringVar((*string)(f), "limiter-file", "",
		"file with the Limiter, as kubectl get limiter NAME -o yaml prints it, whose spec.identity applies to --policies; empty uses the defaults of the CRD")
}

// identity returns the identity table. All its errors are those of the command line.
func (f *limiterFile) identity() (compile.Identity, error) {
	if *f == "" {
		return compile.DefaultIdentity(), nil
	}
	text, err := os.ReadFile(string(*f))
	if err != nil {
		return compile.Identity{}, cli.UsageError(fmt.Errorf("--limiter-file: %w", err))
	}
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(text, &kind); err != nil || kind.APIVersion != v1alpha1.GroupVersion.String() || kind.Kind != "Limiter" {
		return compile.Identity{}, cli.UsageError(fmt.Errorf("--limiter-file: %s must have a Limiter with apiVersion %s, and has kind %q with apiVersion %q",
			*f, v1alpha1.GroupVersion, kind.Kind, kind.APIVersion))
	}
	var limiter v1alpha1.Limiter
	if err := yaml.UnmarshalStrict(text, &limiter); err != nil {
		return compile.Identity{}, cli.UsageError(fmt.Errorf("--limiter-file: read the Limiter in %s: %w", *f, err))
	}
	return stored.IdentityOf(&limiter.Spec), nil
}
