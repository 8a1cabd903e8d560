package registration

import (
	"slices"

	"github.com/weir-dev/weir/limiter/rules"
)

// maxAudience bounds the users and groups in a match condition. If policies name more, the webhook is called for all users.
const maxAudience = 64

// audience is whose writes some policies may match. The zero value is the audience of no policy.
type audience struct {
	all           bool
	users, groups []string // sorted; either is enough
}

func audienceOf(match *rules.KubernetesMatch) audience {
	switch { // a policy with both lists matches the members of the groups that are in users
	case len(match.Users) > 0:
		return audience{users: match.Users}.bounded()
	case len(match.Groups) > 0:
		return audience{groups: match.Groups}.bounded()
	default:
		return audience{all: true}
	}
}

func (a audience) union(b audience) audience {
	return audience{all: a.all || b.all, users: slices.Concat(a.users, b.users), groups: slices.Concat(a.groups, b.groups)}.bounded()
}

func (a audience) bounded() audience {
	if a.all {
		return audience{all: true}
	}
	a.users, a.groups = slices.Compact(slices.Sorted(slices.Values(a.users))), slices.Compact(slices.Sorted(slices.Values(a.groups)))
	if len(a.users)+len(a.groups) > maxAudience {
		return audience{all: true}
	}
	return a
}

// covers reports whether every user of b is certainly one of a.
func (a audience) covers(b audience) bool {
	in := func(list []string) func(string) bool {
		return func(name string) bool { return !slices.Contains(list, name) }
	}
	return a.all || !b.all && !slices.ContainsFunc(b.users, in(a.users)) && !slices.ContainsFunc(b.groups, in(a.groups))
}
