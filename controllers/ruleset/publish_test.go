package ruleset

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/api/v1alpha1"
)

func TestTheTroubleThatIsToldIsTheOneThatSaysMost(t *testing.T) {
	const away, denied, untrusted = v1alpha1.ReasonStoreUnreachable, v1alpha1.ReasonStoreDenied, v1alpha1.ReasonStoreUntrusted
	for name, test := range map[string]struct{ attempts, told []string }{
		"the same all along":             {[]string{away, away}, []string{away, away}},
		"one cut connection among many":  {[]string{untrusted, away, untrusted, away}, []string{untrusted, untrusted, untrusted, untrusted}},
		"Redis goes away":                {[]string{denied, away, away, denied}, []string{denied, denied, away, denied}},
		"Redis comes back, and says why": {[]string{away, denied}, []string{away, denied}},
		"from one reason to another":     {[]string{denied, untrusted}, []string{denied, untrusted}},
	} {
		t.Run(name, func(t *testing.T) {
			var o outage
			var told []string
			for _, reason := range test.attempts {
				o.tell(NewStoreError(reason, errors.New("why")))
				told = append(told, o.first.Reason)
			}
			if diff := cmp.Diff(test.told, told); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
