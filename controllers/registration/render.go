package registration

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/limiter/rules"
)

// ConfigurationName is that of the ValidatingWebhookConfiguration.
const ConfigurationName = "weir-throttle"

// timeoutSeconds is how long a write may wait for a limiter that does not answer. It decides in milliseconds.
const timeoutSeconds = 2

// Throttling is a Limiter that API servers are to ask.
type ThrottlingLimiter struct {
	Limiter *v1alpha1.Limiter
	// Rules of the policies that the Limiter selects.
	Rules []rules.Rule
	// Bundle is whom API servers trust to be the Limiter, PEM.
	Bundle []byte
}

// Render returns the configuration, the same for the same Limiters in any order. One whose rules speak of no write has no
// webhook in it.
func Render(throttling []ThrottlingLimiter) *admissionv1.ValidatingWebhookConfiguration {
	configuration := &admissionv1.ValidatingWebhookConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName, Labels: map[string]string{
			"app.kubernetes.io/name":       "weir",
			"app.kubernetes.io/component":  "throttle",
			"app.kubernetes.io/part-of":    "weir",
			"app.kubernetes.io/managed-by": "weir-operator",
		}},
	}
	for _, t := range throttling {
		if webhook, is := t.webhook(); is {
			configuration.Webhooks = append(configuration.Webhooks, webhook)
		}
	}
	slices.SortFunc(configuration.Webhooks, byName)
	return configuration
}

func byName(a, b admissionv1.ValidatingWebhook) int { return strings.Compare(a.Name, b.Name) }

// WebhookName is that of a Limiter's webhook: a DNS name, of labels as long as those of the Limiter and its namespace.
func WebhookName(limiter *v1alpha1.Limiter) string {
	return limiter.Name + "." + limiter.Namespace + ".throttle.weir.dev"
}

// webhook says every field that an API server would give a default, so that what others change is seen. It is none if no
// write is to be asked about.
func (t *ThrottlingLimiter) webhook() (w admissionv1.ValidatingWebhook, is bool) {
	exempt := deployment.ExemptionsOf(t.Limiter)
	asked := newWebhookRules(t.Rules, exempt)
	if asked.empty() {
		return w, false
	}
	failure := admissionv1.Ignore
	if t.Limiter.Spec.KubernetesThrottle.FailurePolicy == v1alpha1.WebhookFailureFail {
		failure = admissionv1.Fail
	}
	return admissionv1.ValidatingWebhook{
		Name: WebhookName(t.Limiter),
		ClientConfig: admissionv1.WebhookClientConfig{
			Service: &admissionv1.ServiceReference{
				Namespace: t.Limiter.Namespace, Name: deployment.Name(t.Limiter.Name),
				Path: new(deployment.ThrottlePath), Port: new(int32(deployment.ThrottlePort)),
			},
			CABundle: t.Bundle,
		},
		Rules:                   asked.list(),
		FailurePolicy:           new(failure),
		MatchPolicy:             new(admissionv1.Equivalent),
		NamespaceSelector:       asked.namespaceSelector(exempt),
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             new(admissionv1.SideEffectClassNoneOnDryRun),
		TimeoutSeconds:          new(int32(timeoutSeconds)),
		AdmissionReviewVersions: []string{"v1"},
		MatchConditions:         matchConditions(exempt),
	}, true
}
