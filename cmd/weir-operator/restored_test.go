package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// versions is an API server that returns one resource version after the other. "" means that it is unavailable.
type versions struct {
	client.Reader

	left []string
}

func (v *versions) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	next := v.left[0]
	if len(v.left) > 1 {
		v.left = v.left[1:]
	}
	if next == "" {
		return errors.New("connection refused")
	}
	list.SetResourceVersion(next)
	return nil
}

func TestRestoreWatch_EndsWhenTheResourceVersionGoesBack(t *testing.T) {
	for name, test := range map[string]struct {
		versions []string
		restored bool
	}{
		"it grows":                                    {[]string{"9", "10", "10", "1000"}, false},
		"a restore, during an outage":                 {[]string{"1000", "", "", "999"}, true},
		"a restore to fewer digits":                   {[]string{"1000", "", "99"}, true},
		"an outage":                                   {[]string{"1000", "", "1001"}, false},
		"versions that are no numbers":                {[]string{"b", "a"}, false},
		"an API server that was unavailable at first": {[]string{"", "5"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				err := restoreWatch{&versions{left: test.versions}, restoreCheck}.Start(ctx)
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
