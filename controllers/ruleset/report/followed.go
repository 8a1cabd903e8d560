package report

import (
	"iter"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/internal/stored"
)

// followedPolicies are the policies that exist, and which of them have statuses to look at. The zero value has no policies.
type followedPolicies struct {
	listed stored.Policies
	byUID  map[types.UID]selection.Object
	byKey  map[selection.Key]types.UID
	// unsettled policies have changed, or their statuses change with time, or could not be made yet.
	unsettled map[types.UID]bool
}

// replace replaces the policies by those of the next list. It calls deleted for each policy that does not exist any more.
func (f *followedPolicies) replace(listed stored.Policies, deleted func(types.UID)) {
	if f.byUID == nil {
		f.byUID, f.byKey, f.unsettled = map[types.UID]selection.Object{}, map[selection.Key]types.UID{}, map[types.UID]bool{}
	}
	gone, added := selection.Changes(f.listed, listed)
	f.listed = listed
	missing := make(map[types.UID]selection.Object, len(gone))
	for _, o := range gone {
		missing[o.UID] = o
	}
	for _, o := range added {
		delete(missing, o.UID)
		if !f.byUID[o.UID].Is(o) { // it has not only moved in the list
			f.byUID[o.UID], f.byKey[o.Key()], f.unsettled[o.UID] = o, o.UID, true
		}
	}
	for uid, o := range missing {
		delete(f.byUID, uid)
		delete(f.unsettled, uid)
		if key := o.Key(); f.byKey[key] == uid { // no other policy has its name now
			delete(f.byKey, key)
		}
		deleted(uid)
	}
}

// setSettled sets whether the status of a policy stays until the policy, or its state at a Limiter, changes.
func (f *followedPolicies) setSettled(policy types.UID, isSettled bool) {
	if isSettled {
		delete(f.unsettled, policy)
	} else {
		f.unsettled[policy] = true
	}
}

// toEvaluate yields the unsettled policies, and the changed ones.
func (f *followedPolicies) toEvaluate(changed *changedPolicies) iter.Seq2[types.UID, selection.Object] {
	if changed.all {
		return func(yield func(types.UID, selection.Object) bool) {
			for o := range selection.Objects(f.listed) {
				if !yield(o.UID, o) {
					return
				}
			}
		}
	}
	uids := make(map[types.UID]bool, len(f.unsettled)+len(changed.uids)+len(changed.names))
	for uid := range f.unsettled {
		uids[uid] = true
	}
	for uid := range changed.uids {
		uids[uid] = true
	}
	for name := range changed.names {
		for _, key := range []selection.Key{{Name: name}, {Name: name, Cluster: true}} {
			if uid, exists := f.byKey[key]; exists {
				uids[uid] = true
			}
		}
	}
	return func(yield func(types.UID, selection.Object) bool) {
		for uid := range uids {
			if o, exists := f.byUID[uid]; exists && !yield(uid, o) {
				return
			}
		}
	}
}
