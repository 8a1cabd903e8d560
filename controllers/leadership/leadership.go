// Package leadership lets the elected operator confirm that it still is the leader, immediately before it changes something.
//
// Leader election alone does not stop an operator whose process was paused, for example by a debugger, a throttled node or a live
// migration: when it continues, another operator may lead, and the first writes of the paused one are older than those of the new leader.
package leadership

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// ConfirmedFor is how long a confirmation is enough for a write to the API server. It is shorter than the time after which another operator
// can be elected.
const ConfirmedFor = 5 * time.Second

// renewTimeout bounds a request about the Lease: half of the time in which the leader must renew it.
const renewTimeout = 5 * time.Second

// Leadership is one candidate for leader election. A nil Leadership always leads: the operator runs without election.
type Leadership struct {
	identity string
	leases   coordinationv1client.LeasesGetter
	lease    metav1.ObjectMeta
	clock    func() time.Time

	mu        sync.Mutex
	confirmed time.Time
}

// New returns a candidate for the named Lease.
func New(kube *rest.Config, namespace, name string) (*Leadership, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("read the name of the host: %w", err)
	}
	kube = rest.AddUserAgent(rest.CopyConfig(kube), "leader-election")
	kube.Timeout = renewTimeout
	leases, err := coordinationv1client.NewForConfig(kube)
	if err != nil {
		return nil, fmt.Errorf("connect to the Kubernetes API server: %w", err)
	}
	return &Leadership{
		identity: host + "_" + string(uuid.NewUUID()), leases: leases, lease: metav1.ObjectMeta{Namespace: namespace, Name: name}, clock: time.Now,
	}, nil
}

// Lock returns the lock for the election. Its event recorder can be set until the election begins.
func (l *Leadership) Lock() *resourcelock.LeaseLock {
	return &resourcelock.LeaseLock{LeaseMeta: l.lease, Client: l.leases, LockConfig: resourcelock.ResourceLockConfig{Identity: l.identity}}
}

// Identity returns the name of this operator in the Lease.
func (l *Leadership) Identity() string { return l.identity }

// Confirm reads the Lease. It returns an error if another operator is the leader, or if the API server does not answer.
func (l *Leadership) Confirm(ctx context.Context) error {
	if l == nil {
		return nil
	}
	asked := l.clock()
	lease, err := l.leases.Leases(l.lease.Namespace).Get(ctx, l.lease.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("confirm that this operator is the leader: %w", err)
	}
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder != l.identity {
		return fmt.Errorf("this operator is not the leader any more: Lease %s/%s has another holder", l.lease.Namespace, l.lease.Name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.confirmed = asked
	return nil
}

// ConfirmRecent is Confirm, unless the leadership was confirmed within ConfirmedFor.
func (l *Leadership) ConfirmRecent(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	confirmed := l.confirmed
	l.mu.Unlock()
	now := l.clock()
	// The monotonic clock does not count while a virtual machine is suspended. The clock of the day does, when it is set.
	age := max(now.Sub(confirmed), now.Round(0).Sub(confirmed.Round(0)))
	if !confirmed.IsZero() && age >= 0 && age < ConfirmedFor {
		return nil
	}
	return l.Confirm(ctx)
}
