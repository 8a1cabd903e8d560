package ask

import (
	"context"
	"io"
	"net/http"

	"github.com/weir-dev/weir/cmd/internal/cli/explain"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/rules/policyname"
	"github.com/weir-dev/weir/limiter/topk"
)

// domains returns the namespaces of policies.
func domains(limiters Limiters) func(context.Context) []string {
	return func(ctx context.Context) (names []string) {
		for _, policy := range limiters.Policies(ctx) {
			if namespace, _ := policyname.Split(policy); namespace != policyname.Cluster {
				names = append(names, namespace)
			}
		}
		return names
	}
}

// identifiers returns the busiest and the most denied identifiers, as arguments.
func identifiers(limiters Limiters) func(context.Context) []string {
	return topIdentifiers(limiters, func(e *topk.Entry) string { return explain.Identifier(e.Identifier, e.Hashed) })
}

// loggedIdentifiers returns them as denials have them.
func loggedIdentifiers(limiters Limiters) func(context.Context) []string {
	return topIdentifiers(limiters, func(e *topk.Entry) string { return e.Identifier })
}

func topIdentifiers(limiters Limiters, name func(*topk.Entry) string) func(context.Context) []string {
	return func(ctx context.Context) (names []string) {
		tops, err := call[admin.Top](ctx, limiters, http.MethodGet, "/admin/v1/top", nil, io.Discard)
		if err != nil {
			return nil
		}
		for i := range tops {
			for _, list := range []topk.List{tops[i].value.Denied, tops[i].value.Allowed} {
				for j := range list.Identifiers {
					names = append(names, name(&list.Identifiers[j]))
				}
			}
		}
		return names
	}
}
