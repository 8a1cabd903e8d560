package registration

import (
	"context"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	namespacematcher "k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/namespace"
	rulematcher "k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/weir-dev/weir/limiter/rules"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
)

// webhookMatcher decides whether to call a webhook, with the code of the API server.
type webhookMatcher struct {
	namespaces namespacematcher.Matcher
	compiler   cel.ConditionCompiler
}

func newWebhookMatcher(t testing.TB, namespaces []string) *webhookMatcher {
	t.Helper()
	held := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, name := range namespaces {
		must(t, held.Add(namespace(name)))
	}
	return &webhookMatcher{
		namespacematcher.Matcher{NamespaceLister: corelisters.NewNamespaceLister(held)},
		cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())),
	}
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}}
}

// calls reports whether an API server calls the webhook for the write. Equivalent versions of resources are not considered.
func (s *webhookMatcher) calls(t testingT, w *admissionv1.ValidatingWebhook, conditions matchconditions.Matcher, write *rules.KubernetesRequest) bool {
	t.Helper()
	what := attributesOf(write)
	within, err := s.namespaces.MatchNamespaceSelector(webhookAccessor{w}, what)
	if err != nil {
		t.Fatalf("%+v: %v", write, err)
	}
	matched := false
	for _, rule := range w.Rules {
		matched = matched || (&rulematcher.Matcher{Rule: rule, Attr: what}).Matches()
	}
	if !within || !matched {
		return false
	}
	result := conditions.Match(t.Context(), &admission.VersionedAttributes{
		Attributes: what, VersionedKind: what.GetKind(),
		VersionedObject: admission.NewLazyObject(what.GetObject()), VersionedOldObject: admission.NewLazyObject(what.GetOldObject()),
	}, nil, allow{})
	if result.Error != nil {
		t.Fatalf("%+v: %v", write, result.Error)
	}
	return result.Matches
}

// allow is an authorizer that allows everything: the Limiter is deployed.
type allow struct{}

func (allow) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

// callsOf returns a function that counts the webhooks of the configuration that an API server calls for a write.
func (s *webhookMatcher) callsOf(t testingT, configuration *admissionv1.ValidatingWebhookConfiguration) func(*rules.KubernetesRequest) int {
	conditions := make([]matchconditions.Matcher, len(configuration.Webhooks))
	for i := range configuration.Webhooks {
		conditions[i] = s.conditions(&configuration.Webhooks[i])
	}
	return func(write *rules.KubernetesRequest) (called int) {
		t.Helper()
		for i := range configuration.Webhooks {
			if s.calls(t, &configuration.Webhooks[i], conditions[i], write) {
				called++
			}
		}
		return called
	}
}

// conditions compiles the match conditions of the webhook.
func (s *webhookMatcher) conditions(w *admissionv1.ValidatingWebhook) matchconditions.Matcher {
	all := make([]cel.ExpressionAccessor, len(w.MatchConditions))
	for i := range w.MatchConditions {
		all[i] = new(matchconditions.MatchCondition(w.MatchConditions[i]))
	}
	has := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	return matchconditions.NewMatcher(s.compiler.CompileCondition(all, has, environment.StoredExpressions), w.FailurePolicy, "webhook", "validating", w.Name)
}

type webhookAccessor struct{ *admissionv1.ValidatingWebhook }

func (s webhookAccessor) GetParsedNamespaceSelector() (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(s.NamespaceSelector)
}

func attributesOf(write *rules.KubernetesRequest) admission.Attributes {
	in := write.Namespace
	object, old := decoded(write.Object), decoded(write.OldObject)
	if isNamespace(write) { // API servers send the name of the Namespace as its namespace
		in, object = write.Name, namespace(write.Name)
	}
	return admission.NewAttributesRecord(object, old, schema.GroupVersionKind{Group: write.Group, Version: "v1", Kind: "Any"}, in, write.Name,
		schema.GroupVersionResource{Group: write.Group, Version: "v1", Resource: write.Resource}, write.Subresource,
		admission.Operation(write.Operation), nil, false, &user.DefaultInfo{Name: write.User, Groups: write.Groups})
}

// decoded returns the object, nil if the text is nil.
func decoded(text []byte) runtime.Object {
	if text == nil {
		return nil
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		panic(err)
	}
	return object
}

func isNamespace(write *rules.KubernetesRequest) bool {
	return write.Group == "" && write.Resource == "namespaces"
}
