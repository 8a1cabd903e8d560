package exempt

import (
	"slices"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
)

func TestWrite_ExemptsWhatRepairsNeed(t *testing.T) {
	of := func(operation, group, resource, subresource string) rules.KubernetesRequest {
		return rules.KubernetesRequest{Operation: operation, Group: group, Resource: resource, Subresource: subresource, Namespace: "shop", Name: "a"}
	}
	for _, c := range []struct {
		write rules.KubernetesRequest
		want  bool
	}{
		{of("CREATE", "weir.dev", "ratelimitpolicies", ""), true},
		{of("UPDATE", "weir.dev", "limiters", "status"), true},
		{of("CREATE", "rbac.authorization.k8s.io", "rolebindings", ""), true},
		{of("UPDATE", "admissionregistration.k8s.io", "validatingadmissionpolicies", ""), true},
		{of("CREATE", "authentication.k8s.io", "tokenreviews", ""), true},
		{of("CREATE", "authorization.k8s.io", "subjectaccessreviews", ""), true},
		{of("UPDATE", "coordination.k8s.io", "leases", ""), true},
		{of("CREATE", "certificates.k8s.io", "certificatesigningrequests", ""), true},
		{of("UPDATE", "certificates.k8s.io", "certificatesigningrequests", "approval"), true},
		{of("CREATE", "", "pods", "eviction"), true},
		{of("CREATE", "", "nodes", ""), true},
		{of("UPDATE", "", "nodes", "status"), true},
		{of("DELETE", "apps", "deployments", ""), true},
		{of("DELETE", "", "pods", ""), true},

		{of("CREATE", "", "pods", ""), false},
		{of("CONNECT", "", "pods", "exec"), false},
		{of("CREATE", "example.com", "nodes", ""), false},
		{of("CREATE", "example.com", "pods", "eviction"), false},
		{of("UPDATE", "", "configmaps", ""), false},
		{of("CREATE", "networking.k8s.io", "networkpolicies", ""), false},
		{of("CREATE", "", "events", ""), false},
		{of("CREATE", "weir.dev.example.com", "things", ""), false},
	} {
		if got := Write(&c.write); got != c.want {
			t.Errorf("%s %s/%s/%s: %v, want %v", c.write.Operation, c.write.Group, c.write.Resource, c.write.Subresource, got, c.want)
		}
	}
}

func TestWrite_ExemptsUpdatesThatOnlyFinishADeletion(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string
		want          bool
	}{
		"of an object that is being deleted": {
			`{"metadata":{"name":"a","deletionTimestamp":"2026-11-22T00:00:00Z","finalizers":["x/y"]},"data":{"a":"b"}}`,
			`{"metadata":{"name":"a","deletionTimestamp":"2026-11-22T00:00:00Z","finalizers":["x/y"]},"data":{"a":"c"}}`, true,
		},
		"that removes the last finalizer": {
			`{"metadata":{"name":"a","finalizers":["x/y"],"resourceVersion":"1","managedFields":[{"time":"1"}]},"data":{"a":"b"}}`,
			`{"metadata":{"name":"a","resourceVersion":"1","managedFields":[{"time":"2"}]},"data":{"a":"b"}}`, true,
		},
		"that removes one of several finalizers": {
			`{"metadata":{"finalizers":["a","b","c"]}}`, `{"metadata":{"finalizers":["a","c"]}}`, true,
		},
		"that removes a finalizer and changes data": {
			`{"metadata":{"finalizers":["a"]},"data":{"a":"b"}}`, `{"metadata":{},"data":{"a":"c"}}`, false,
		},
		"that removes a finalizer and changes a label": {
			`{"metadata":{"finalizers":["a"],"labels":{"a":"b"}}}`, `{"metadata":{"labels":{"a":"c"}}}`, false,
		},
		"that replaces a finalizer":               {`{"metadata":{"finalizers":["a","b"]}}`, `{"metadata":{"finalizers":["c"]}}`, false},
		"that adds a finalizer":                   {`{"metadata":{"finalizers":["a"]}}`, `{"metadata":{"finalizers":["a","b"]}}`, false},
		"that changes nothing":                    {`{"metadata":{"finalizers":["a"]}}`, `{"metadata":{"finalizers":["a"]}}`, false},
		"that sets a deletion timestamp":          {`{"metadata":{}}`, `{"metadata":{"deletionTimestamp":"2026-11-22T00:00:00Z"}}`, false},
		"of an object with the word in its data":  {`{"metadata":{},"data":{"deletionTimestamp":"now"}}`, `{"metadata":{},"data":{}}`, false},
		"of an object that has null as timestamp": {`{"metadata":{"deletionTimestamp":null}}`, `{"metadata":{}}`, false},
		"with finalizers that are no texts":       {`{"metadata":{"finalizers":[{},{}]}}`, `{"metadata":{"finalizers":[{}]}}`, false},
		"with a finalizer that is no list":        {`{"metadata":{"finalizers":["a"]}}`, `{"metadata":{"finalizers":"a"}}`, false},
		"that is not valid":                       {`"deletionTimestamp"`, `{}`, false},
		"without an object":                       {`{"metadata":{"finalizers":["a"]}}`, ``, false},
	} {
		t.Run(name, func(t *testing.T) {
			write := rules.KubernetesRequest{Operation: "UPDATE", Resource: "configmaps", Object: []byte(c.after), OldObject: []byte(c.before)}
			if got := Write(&write); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestWrite_ExemptsOnlyUpdatesAsCleanup(t *testing.T) {
	before, after := []byte(`{"metadata":{"finalizers":["a"]}}`), []byte(`{"metadata":{}}`)
	for operation, want := range map[string]bool{"UPDATE": true, "CREATE": false, "CONNECT": false} {
		write := rules.KubernetesRequest{Operation: operation, Resource: "configmaps", Object: after, OldObject: before}
		if got := Write(&write); got != want {
			t.Errorf("%s: %v, want %v", operation, got, want)
		}
	}
}

func TestWith_AddsToWhatAlwaysApplies(t *testing.T) {
	lists := With("limits", Lists{Groups: []string{"staff"}})
	for _, group := range []string{
		"system:masters", "kubeadm:cluster-admins", "system:nodes", "system:bootstrappers", "system:serviceaccounts:kube-system",
		"system:serviceaccounts:limits", "staff",
	} {
		if !slices.Contains(lists.Groups, group) {
			t.Errorf("group %s is not exempt", group)
		}
	}
	if slices.Contains(lists.Namespaces, "weir-system") || !slices.Contains(lists.Namespaces, "limits") {
		t.Errorf("namespaces %q", lists.Namespaces)
	}
	lists = With("a", Lists{Namespaces: []string{"zoo", "kube-system", "bar"}, Users: []string{"root", "admin"}, Groups: []string{"staff", "all"}})
	for _, names := range [][]string{lists.Namespaces, lists.Users, lists.Groups} {
		if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Errorf("%q is not sorted, or has duplicates", names)
		}
	}
	if lists := With("", Lists{Namespaces: []string{""}}); slices.Contains(lists.Namespaces, "") || slices.Contains(lists.Groups, "system:serviceaccounts:") {
		t.Errorf("an empty name is exempt: %+v", lists)
	}
}

func TestIncludes_IsAnyOfTheListsOrAnExemptWrite(t *testing.T) {
	lists := With("limits", Lists{Users: []string{"robot"}, Groups: []string{"staff"}})
	for want, writes := range map[bool][]rules.KubernetesRequest{
		true: {
			{Operation: "CREATE", Namespace: "limits"},
			{Operation: "CREATE", Namespace: "shop", User: "robot"},
			{Operation: "CREATE", Namespace: "shop", Groups: []string{"all", "staff"}},
			{Operation: "DELETE", Namespace: "shop", User: "jane"},
		},
		false: {{Operation: "CREATE"}, {Operation: "CREATE", Namespace: "shop", User: "jane", Groups: []string{"all"}}},
	} {
		for i := range writes {
			if got := lists.Includes(&writes[i]); got != want {
				t.Errorf("%+v: %v, want %v", writes[i], got, want)
			}
		}
	}
}
