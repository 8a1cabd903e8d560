package gatewayapi

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-dev/weir/internal/compile/gateway"
)

// absent is the Discovery of a cluster without the Gateway API. Calls fail until the time up.
type absent struct {
	up    time.Time
	calls map[string][]time.Time // by version
}

func (a *absent) ServerResourcesForGroupVersionWithContext(_ context.Context, version string) (*metav1.APIResourceList, error) {
	a.calls[version] = append(a.calls[version], time.Now())
	if time.Now().Before(a.up) {
		return nil, errDown
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, version)
}

// An operator that starts before the API server answers must not wait for a whole interval.
func TestStart_RetriesAfterASecondOrTheInterval(t *testing.T) {
	for interval, want := range map[time.Duration][]time.Duration{
		15 * time.Second:       {0, time.Second, 2 * time.Second, 17 * time.Second, 32 * time.Second},
		700 * time.Millisecond: {0, 700 * time.Millisecond, 1400 * time.Millisecond, 2100 * time.Millisecond, 2800 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			a := &absent{up: began.Add(1500 * time.Millisecond), calls: map[string][]time.Time{}}
			o := New(a, nil, nil, interval)
			ctx, stop := context.WithTimeout(t.Context(), want[len(want)-1]+time.Millisecond)
			defer stop()
			if err := o.Start(ctx); err != nil {
				t.Error(err)
			}
			var got []time.Duration
			for _, at := range a.calls["gateway.networking.k8s.io/v1"] {
				got = append(got, at.Sub(began))
			}
			if !slices.Equal(got, want) {
				t.Errorf("queried after %v, want %v", got, want)
			}
			if n := len(a.calls["gateway.networking.k8s.io/v1beta1"]); n == 0 || n > len(want) {
				t.Errorf("%d queries for the version of ReferenceGrants, want one for each of the other version", n)
			}
		})
	}
}

func TestChanged_ReceivesOneValueWhenTheKindsAreKnown(t *testing.T) {
	a := &absent{calls: map[string][]time.Time{}}
	o := New(a, nil, nil, time.Hour)
	subscribers := []<-chan struct{}{o.Changed(), o.Changed()}
	values := func() (n [2]int) {
		for i, c := range subscribers {
			n[i] = len(c)
		}
		return n
	}
	if _, _, err := o.Read(t.Context()); !errors.Is(err, gateway.ErrGatewaysPending) {
		t.Errorf("before the first query: %v", err)
	}
	must(t, o.discover(t.Context()))
	o.notify() // before the first value is read
	if got := values(); got != [2]int{1, 1} {
		t.Errorf("%v values", got)
	}
	for _, c := range subscribers {
		<-c
	}
	must(t, o.discover(t.Context()))
	if got := values(); got != [2]int{} {
		t.Errorf("%v values after a query that changed nothing", got)
	}
	if _, hash, err := o.Read(t.Context()); err != nil || hash == 0 {
		t.Errorf("hash %d, %v", hash, err)
	}
}
