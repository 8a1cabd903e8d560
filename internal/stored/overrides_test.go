package stored_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/internal/stored"
)

func TestOverriddenBy_ListsTheFirstDomains(t *testing.T) {
	var many []redundancy.Override
	for domain := range strings.SplitSeq("a b c d e f g h i j", " ") {
		many = append(many, redundancy.Override{Policy: "_cluster/x", Domain: domain, By: domain + "/own", Reason: v1alpha1.ReasonNamespacePolicy})
	}
	by := stored.OverriddenBy(slices.Repeat(many, 2))
	if len(by) != 16 || by[9] != (v1alpha1.PolicyOverride{Domain: "j", Kind: "RateLimitPolicy", Name: "own"}) {
		t.Errorf("%d policies are listed: %+v", len(by), by)
	}
}
