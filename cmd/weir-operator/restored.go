package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// restoreCheck is how often the operator reads the resource version of the cluster.
	restoreCheck = 5 * time.Second
	// restoreCheckTimeout bounds one read.
	restoreCheckTimeout = 5 * time.Second
)

// errRestored ends the process. Its watches would continue from resource versions that the restored etcd has not reached yet, without an
// error and without events.
var errRestored = errors.New("the resource version of the cluster went back: etcd was restored from a backup; the operator restarts to read all objects again")

// restoreWatch ends the operator when etcd was restored, on every replica: one that does not lead also holds old objects, with which it would
// lead later.
type restoreWatch struct {
	uncached client.Reader
	interval time.Duration
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (restoreWatch) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (w restoreWatch) Start(ctx context.Context) error {
	latest := ""
	for {
		version, err := w.read(ctx)
		if err == nil {
			if wentBack(latest, version) {
				slog.Error("The cluster was restored", "before", latest, "now", version)
				return errRestored
			}
			latest = version
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(w.interval):
		}
	}
}

// read returns the current resource version of the cluster. The read is linearizable: no cache of an API server can return an older one.
func (w restoreWatch) read(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, restoreCheckTimeout)
	defer cancel()
	namespaces := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NamespaceList"}}
	if err := w.uncached.List(ctx, &namespaces, client.Limit(1)); err != nil {
		return "", err
	}
	return namespaces.ResourceVersion, nil
}

// wentBack reports whether the resource version is lower than an earlier one. Versions that are no numbers cannot be compared.
func wentBack(before, now string) bool {
	order, err := resourceversion.CompareResourceVersion(now, before)
	return err == nil && order < 0
}
