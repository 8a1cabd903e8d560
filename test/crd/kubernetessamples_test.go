package crd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

func TestSamples_CountWritesToTheKubernetesAPI(t *testing.T) {
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity().WithHashKey(testHashKey()), schema)
	result, err := loader.Load(nil, repositoryPath(t, "config", "samples", "cluster"))
	if err != nil || len(result.Problems) > 0 {
		t.Fatal(err, result.Problems)
	}
	set := result.Rules
	set.Namespaces = []rules.Namespace{{Name: "shop", Labels: map[string]string{"plan": "paid"}, Tenant: "acme"}}
	index, err := matching.NewIndex(set, "", "weir:", matching.WithHashKey(testHashKey()))
	if err != nil {
		t.Fatal(err)
	}
	const deployer = "system:serviceaccount:shop:deployer"
	for _, c := range []struct {
		name  string
		write rules.KubernetesRequest
		want  []appliedLimit
	}{
		{
			"a Deployment of a tenant of the tier paid",
			rules.KubernetesRequest{Operation: "CREATE", Group: "apps", Resource: "deployments", Namespace: "shop", User: "alice"},
			[]appliedLimit{{Policy: "workloads-per-tenant", Identifier: "acme", Tier: "paid", Units: 600, Cost: 1}},
		},
		{
			"a Pod of a tenant without a tier",
			rules.KubernetesRequest{Operation: "CREATE", Resource: "pods", Namespace: "bank", User: deployer},
			[]appliedLimit{{Policy: "workloads-per-tenant", Identifier: "bank", Units: 60, Cost: 1}},
		},
		{"the deletion of a Pod", rules.KubernetesRequest{Operation: "DELETE", Resource: "pods", Namespace: "bank", User: "alice"}, nil},
		{"the binding of a Pod", rules.KubernetesRequest{Operation: "CREATE", Resource: "pods", Subresource: "binding", Namespace: "bank", User: "alice"}, nil},
		{
			"a Job with a high parallelism",
			rules.KubernetesRequest{
				Operation: "CREATE", Group: "batch", Resource: "jobs", Namespace: "bank", User: "alice", Object: []byte(`{"spec":{"parallelism":500}}`),
			},
			[]appliedLimit{
				{Policy: "job-parallelism", Identifier: "bank", Units: 1000, Cost: 500},
				{Policy: "workloads-per-tenant", Identifier: "bank", Units: 60, Cost: 1},
			},
		},
		{
			"a Job without parallelism",
			rules.KubernetesRequest{Operation: "CREATE", Group: "batch", Resource: "jobs", Namespace: "bank", User: "alice", Object: []byte(`{"spec":{}}`)},
			[]appliedLimit{
				{Policy: "job-parallelism", Identifier: "bank", Units: 1000, Cost: 1},
				{Policy: "workloads-per-tenant", Identifier: "bank", Units: 60, Cost: 1},
			},
		},
		{
			"a ConfigMap that a service account writes",
			rules.KubernetesRequest{Operation: "UPDATE", Resource: "configmaps", Namespace: "shop", User: deployer},
			[]appliedLimit{{Policy: "configuration-per-service-account", Identifier: "shop/deployer", Units: 300, Cost: 1}},
		},
		{"a ConfigMap that a user writes", rules.KubernetesRequest{Operation: "UPDATE", Resource: "configmaps", Namespace: "shop", User: "alice"}, nil},
		{
			"an Event of the core API group",
			rules.KubernetesRequest{
				Operation: "CREATE", Resource: "events", Namespace: "shop", User: "system:node:n1",
				Object: []byte(`{"source":{"component":"kubelet","host":"n1"},"involvedObject":{"kind":"Pod","namespace":"shop","name":"web","uid":"7"}}`),
			},
			[]appliedLimit{
				{Policy: "events-namespace", Identifier: "shop", Units: 50, Cost: 1},
				{Policy: "events-server", Identifier: "all", Units: 5000, Cost: 1},
				{Policy: "events-source-and-object", Identifier: "kubelet/n1/Pod/shop/web/7", Units: 1, Cost: 1},
				{Policy: "events-user", Identifier: "system:node:n1", Units: 10, Cost: 1},
			},
		},
		{
			"an Event of the API group events.k8s.io",
			rules.KubernetesRequest{
				Operation: "CREATE", Group: "events.k8s.io", Resource: "events", Namespace: "shop", User: "alice",
				Object: []byte(`{"reportingController":"weir","regarding":{"kind":"Node","name":"n1"}}`),
			},
			[]appliedLimit{
				{Policy: "events-namespace", Identifier: "shop", Units: 50, Cost: 1},
				{Policy: "events-server", Identifier: "all", Units: 5000, Cost: 1},
				{Policy: "events-source-and-object", Identifier: "weir//Node//n1/", Units: 1, Cost: 1},
				{Policy: "events-user", Identifier: "alice", Units: 10, Cost: 1},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			request := &rules.Request{Domain: c.write.Namespace, Kubernetes: &c.write}
			var got []appliedLimit
			for _, m := range index.Match(nil, request) {
				identifier := m.Identify(request)
				terms := m.Terms(request, identifier)
				got = append(got, appliedLimit{
					Policy: strings.TrimPrefix(m.Rule.Policy, "_cluster/kubernetes-"), Identifier: identifier, Tier: terms.Tier,
					Units: terms.Limit.Units(), Cost: terms.Cost,
				})
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
