package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// answer is what an API server returns for one check: the version of the cluster and of the Lease, now and at the version of the check before.
type answer struct{ version, lease, before string }

// versions is an API server that returns one answer after the other. An empty one means that it is unavailable.
type versions struct {
	client.Reader

	left []answer
	past bool
}

func (v *versions) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	exact := o.Raw != nil && o.Raw.ResourceVersionMatch == metav1.ResourceVersionMatchExact
	if !exact && v.past && len(v.left) > 1 {
		v.left = v.left[1:]
	}
	v.past = true
	next := v.left[0]
	lease := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: leaderLease, ResourceVersion: next.lease}}
	switch {
	case next.version == "":
		return errors.New("connection refused")
	case exact && next.before == "compacted":
		return apierrors.NewResourceExpired("compacted")
	case exact && next.before == "unavailable":
		return errors.New("connection refused")
	case exact:
		lease.ResourceVersion = next.before
	}
	list.SetResourceVersion(next.version)
	list.(*metav1.PartialObjectMetadataList).Items = []metav1.PartialObjectMetadata{lease} //nolint:forcetypeassert // it panics
	return nil
}

func TestRestoreWatch_EndsWhenTheHistoryHasChanged(t *testing.T) {
	for name, test := range map[string]struct {
		answers  []answer
		restored bool
	}{
		"it grows":                    {[]answer{{"9", "7", ""}, {"10", "10", "7"}, {"10", "10", ""}, {"1000", "999", "10"}, {"1000", "999", ""}}, false},
		"a restore, during an outage": {[]answer{{"1000", "998", ""}, {}, {}, {"999", "998", ""}}, true},
		"a restore to fewer digits":   {[]answer{{"1000", "998", ""}, {}, {"99", "98", ""}}, true},
		"an outage":                   {[]answer{{"1000", "998", ""}, {}, {"1001", "1001", "998"}, {"1001", "1001", ""}}, false},
		"a restored cluster with as many writes as were lost": {[]answer{{"1000", "998", ""}, {}, {"1001", "1001", "997"}}, true},
		"the same, and an outage between both reads":          {[]answer{{"1000", "998", ""}, {"1001", "1001", "unavailable"}, {"1002", "1001", "997"}}, true},
		"a compaction during an outage":                       {[]answer{{"1000", "998", ""}, {}, {"9000", "8999", "compacted"}, {"9000", "8999", ""}}, false},
		"versions that are no numbers":                        {[]answer{{"b", "b", ""}, {"a", "a", "b"}, {"a", "a", ""}}, false},
		"an API server that was unavailable at first":         {[]answer{{}, {"5", "5", ""}, {"5", "5", ""}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				watches := watchRestores(&versions{left: test.answers}, true, "weir-system")
				err := watches[len(watches)-1].Start(ctx) // of the Lease
				if errors.Is(err, errRestored) != test.restored || !test.restored && err != nil {
					t.Errorf("error %v", err)
				}
			})
		})
	}
	if (restoreWatch{}).NeedLeaderElection() {
		t.Error("a replica that does not lead keeps the old objects, with which it leads later")
	}
}
