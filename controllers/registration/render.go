package registration

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/rules"
)

// ConfigurationName is the name of the ValidatingWebhookConfiguration.
const ConfigurationName = "weir-throttle"

// timeoutSeconds is how long a write may wait for a limiter that does not answer. A limiter normally decides in milliseconds.
const timeoutSeconds = 2

// ThrottlingLimiter is a Limiter to register as a webhook.
type ThrottlingLimiter struct {
	Limiter *v1alpha1.Limiter
	// Rules of the policies that the Limiter selects.
	Rules []rules.Rule
	// Bundle holds the PEM certificates of the CAs with which API servers verify the Limiter.
	Bundle []byte

	// These follow from the rules. They are nil until they are needed.
	foundWrites  *reaches
	foundEntries []entry
}

// writes returns which writes the rules may match.
func (t *ThrottlingLimiter) writes() *reaches {
	if t.foundWrites == nil {
		t.foundWrites = newReaches(t.Rules, stored.ExemptionsOf(t.Limiter))
	}
	return t.foundWrites
}

// entries returns the webhooks of the Limiter.
func (t *ThrottlingLimiter) entries() []entry {
	if t.foundEntries == nil {
		t.foundEntries = t.writes().entries(stored.ExemptionsOf(t.Limiter))
	}
	return t.foundEntries
}

// Render returns the configuration. It is the same for the same Limiters in any order. A Limiter whose rules limit no writes has no
// webhook.
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
		configuration.Webhooks = append(configuration.Webhooks, t.webhooks()...)
	}
	slices.SortFunc(configuration.Webhooks, byName)
	return configuration
}

func byName(a, b admissionv1.ValidatingWebhook) int { return strings.Compare(a.Name, b.Name) }

// WebhookName returns the name of the first webhook of a Limiter. It is a DNS name; its labels are the names of the Limiter and its
// namespace. The names of the other webhooks of the Limiter have one label more, at the beginning.
func WebhookName(limiter *v1alpha1.Limiter) string {
	return limiter.Name + "." + limiter.Namespace + ".throttle.weir.dev"
}

// firstName returns the name of the first webhook of the Limiter that has the named webhook. The name of a Limiter has no dot.
func firstName(webhook string) string {
	labels := strings.Split(webhook, ".")
	return strings.Join(labels[max(0, len(labels)-5):], ".")
}

// webhooks sets every field for which an API server has a default, so that changes by others are detected. It returns nil if the Limiter
// limits no writes.
func (t *ThrottlingLimiter) webhooks() (all []admissionv1.ValidatingWebhook) {
	never := stored.ExemptionsOf(t.Limiter)
	if t.writes().empty() {
		return nil
	}
	for _, e := range t.entries() {
		all = append(all, t.webhook(&e, never))
	}
	return all
}

func (t *ThrottlingLimiter) webhook(e *entry, never exempt.Lists) admissionv1.ValidatingWebhook {
	failure := admissionv1.Ignore
	if t.Limiter.Spec.KubernetesThrottle.FailurePolicy == v1alpha1.WebhookFailureFail {
		failure = admissionv1.Fail
	}
	return admissionv1.ValidatingWebhook{
		Name: strings.TrimPrefix(e.name+"."+WebhookName(t.Limiter), "."),
		ClientConfig: admissionv1.WebhookClientConfig{
			Service: &admissionv1.ServiceReference{
				Namespace: t.Limiter.Namespace, Name: deployment.Name(t.Limiter.Name),
				Path: new(deployment.ThrottlePath), Port: new(int32(deployment.ThrottlePort)),
			},
			CABundle: t.Bundle,
		},
		Rules:                   e.rules,
		FailurePolicy:           new(failure),
		MatchPolicy:             new(admissionv1.Equivalent),
		NamespaceSelector:       e.selector,
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             new(admissionv1.SideEffectClassNoneOnDryRun),
		TimeoutSeconds:          new(int32(timeoutSeconds)),
		AdmissionReviewVersions: []string{"v1"},
		MatchConditions:         append(e.matchConditions(never), whileDeployed(t.Limiter)),
	}
}
