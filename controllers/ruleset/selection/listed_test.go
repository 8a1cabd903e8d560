package selection

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/stored"
)

// After each event, the list has the policies that exist, and the changes between two lists lead from one to the other.
func TestListed_HasThePoliciesThatExist(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var listed Listed
	exist, followed := map[string]client.Object{}, map[types.UID]Object{}
	var before stored.Policies
	uids, reached := 0, map[string]int{}
	for step := range 5000 {
		for range random.IntN(4) {
			key := fmt.Sprint(random.IntN(2), random.IntN(12))
			meta := metav1.ObjectMeta{Namespace: "shop", Name: key, ResourceVersion: strconv.Itoa(step)}
			uids++
			meta.UID = types.UID(fmt.Sprint("uid-", uids))
			if known := exist[key]; known != nil && random.IntN(4) > 0 {
				meta.UID = known.GetUID()
			}
			var spec v1alpha1.RateLimitPolicySpec
			switch random.IntN(40) {
			case 0:
				spec.TargetRefs = []v1alpha1.TargetReference{{}}
			case 1:
				spec.Match = &v1alpha1.Match{Kubernetes: &v1alpha1.KubernetesMatch{}}
			}
			var object client.Object = &v1alpha1.RateLimitPolicy{ObjectMeta: meta, Spec: spec}
			if key[0] == '1' {
				meta.Namespace = ""
				object = &v1alpha1.ClusterRateLimitPolicy{ObjectMeta: meta, Spec: v1alpha1.ClusterRateLimitPolicySpec{RateLimitPolicySpec: spec}}
			}
			switch random.IntN(5) {
			case 0:
				listed.Remove(object)
				delete(exist, key)
			case 1:
				object.SetDeletionTimestamp(new(metav1.NewTime(time.Unix(1, 0))))
				listed.Set(object)
				delete(exist, key)
			default:
				listed.Set(object)
				exist[key] = object
			}
		}
		after, err := listed.ListPolicies(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for o := range Objects(after) {
			n++
			if known := exist[o.Name]; known == nil || known.GetUID() != o.UID || known.GetResourceVersion() != o.ResourceVersion {
				t.Fatalf("step %d: the list has %s of version %s, want %v", step, o.Name, o.ResourceVersion, known)
			}
		}
		if n != len(exist) {
			t.Fatalf("step %d: the list has %d policies, want %d", step, n, len(exist))
		}
		targets, writes := 0, 0
		for o := range Objects(after) {
			p := o.Policy()
			if targets += len(p.Targets); p.Match != nil {
				writes++
			}
		}
		if after.NoTargets != (targets == 0) || after.NoWrites != (writes == 0) {
			t.Fatalf("step %d: %+v with %d targets and %d policies for writes", step, after, targets, writes)
		}
		reached[fmt.Sprint(after.NoTargets, after.NoWrites)]++
		gone, added := Changes(before, after)
		for _, o := range gone {
			if !followed[o.UID].Is(o) {
				t.Fatalf("step %d: %s of version %s has gone, and was not there", step, o.Name, o.ResourceVersion)
			}
		}
		for _, o := range gone {
			delete(followed, o.UID)
		}
		for _, o := range added {
			followed[o.UID] = o
		}
		for o := range Objects(after) {
			if !followed[o.UID].Is(o) {
				t.Fatalf("step %d: the changes do not lead to %s of version %s", step, o.Name, o.ResourceVersion)
			}
		}
		if len(followed) != n {
			t.Fatalf("step %d: the changes lead to %d policies, want %d", step, len(followed), n)
		}
		before = after
	}
	if len(reached) != 4 {
		t.Errorf("the lists have, by NoTargets and NoWrites, only %v", reached)
	}
}

// A list that was returned stays as it is, and a policy without events keeps its place.
func TestListed_ReturnsListsThatDoNotChange(t *testing.T) {
	var listed Listed
	var objects []*v1alpha1.RateLimitPolicy
	for i := range 4 {
		objects = append(objects, &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: strconv.Itoa(i)}})
		listed.Set(objects[i])
	}
	first, _ := listed.ListPolicies(t.Context())
	edited := objects[1].DeepCopy()
	listed.Set(edited)
	listed.Remove(objects[3])
	listed.Remove(objects[3]) // again
	second, _ := listed.ListPolicies(t.Context())
	if !slices.Equal(first.Namespaced, objects) {
		t.Errorf("the first list is now %v", first.Namespaced)
	}
	if want := []*v1alpha1.RateLimitPolicy{objects[0], edited, objects[2]}; !slices.Equal(second.Namespaced, want) {
		t.Errorf("the second list is %v, want %v", second.Namespaced, want)
	}
}
