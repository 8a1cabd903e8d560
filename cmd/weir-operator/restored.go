package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/weir-dev/weir/limiter/wait"
)

const (
	// restoreCheck is how often the operator compares the history of the cluster.
	restoreCheck = 5 * time.Second
	// restoreCheckTimeout bounds one check.
	restoreCheckTimeout = 5 * time.Second
)

// errRestored ends the process. Its watches would continue from resource versions of the history that was lost, without an error, and without
// the events that the restored etcd had before.
var errRestored = errors.New("the history of the cluster has changed: etcd was restored from a backup; the operator restarts to read all objects again")

// restoreWatch ends the operator when etcd was restored, on every replica: one that does not lead also holds old objects, with which it would
// lead later.
type restoreWatch struct {
	uncached client.Reader
	// kind, version and options select the objects that are compared.
	kind, version string
	options       []client.ListOption
	interval      time.Duration
}

// watchRestores compares a namespace, which changes rarely: this notices that the resource version went back. With an election, it also compares
// the Lease. That changes every two seconds, so that a version of the lost history has other contents in the restored one.
func watchRestores(uncached client.Reader, election bool, namespace string) []manager.Runnable {
	watches := []manager.Runnable{restoreWatch{uncached, "NamespaceList", "v1", []client.ListOption{client.Limit(1)}, restoreCheck}}
	if election {
		lease := []client.ListOption{client.InNamespace(namespace), client.MatchingFields{metav1.ObjectNameField: leaderLease}}
		watches = append(watches, restoreWatch{uncached, "LeaseList", "coordination.k8s.io/v1", lease, restoreCheck})
	}
	return watches
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (restoreWatch) NeedLeaderElection() bool { return false }

// moment is the state of the compared objects at one resource version of the cluster.
type moment struct {
	version string
	objects map[string]string // resource versions by name
}

// Start implements manager.Runnable.
func (w restoreWatch) Start(ctx context.Context) error {
	var latest moment
	for {
		now, restored := w.check(ctx, latest)
		if restored {
			slog.Error("The cluster was restored", "before", latest.version, "now", now.version)
			return errRestored
		}
		latest = now
		if !wait.Sleep(ctx, w.interval) {
			return nil
		}
	}
}

// check reads the current moment, and reports whether the latest one is not in the history of the cluster any more. It returns the latest moment if the
// API server is unavailable.
func (w restoreWatch) check(ctx context.Context, latest moment) (now moment, restored bool) {
	ctx, cancel := context.WithTimeout(ctx, restoreCheckTimeout)
	defer cancel()
	now, err := w.read(ctx)
	if err != nil {
		if apierrors.IsForbidden(err) {
			slog.Warn("Cannot check whether the cluster was restored", "error", err)
		}
		return latest, false
	}
	if latest.version == "" || now.version == latest.version {
		return now, false
	}
	if wentBack(latest.version, now.version) {
		return now, true
	}
	// The restored cluster may have made as many writes as were lost. Then the old version has other contents.
	past, err := w.read(ctx, &client.ListOptions{Raw: &metav1.ListOptions{
		ResourceVersion: latest.version, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	}})
	switch {
	case apierrors.IsResourceExpired(err): // compacted: the watches are too old as well, and read all objects again
		return now, false
	case err != nil:
		return latest, false
	}
	return now, !maps.Equal(past.objects, latest.objects)
}

// read returns the current moment, or the one that the options select. The read of the current one is linearizable: no cache of an API server can
// return an older one.
func (w restoreWatch) read(ctx context.Context, options ...client.ListOption) (moment, error) {
	list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: w.version, Kind: w.kind}}
	if err := w.uncached.List(ctx, &list, append(options, w.options...)...); err != nil {
		return moment{}, err
	}
	m := moment{list.ResourceVersion, map[string]string{}}
	for i := range list.Items {
		m.objects[list.Items[i].Name] = list.Items[i].ResourceVersion
	}
	return m, nil
}

// wentBack reports whether the resource version is lower than an earlier one. Versions that are no numbers cannot be compared.
func wentBack(previous, now string) bool {
	order, err := resourceversion.CompareResourceVersion(now, previous)
	return err == nil && order < 0
}
