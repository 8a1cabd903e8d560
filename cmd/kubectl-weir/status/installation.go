package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/registration"
)

// Names of the objects of an installation, their labels and their resources.
const (
	nameLabel             = "app.kubernetes.io/name"
	componentLabel        = "app.kubernetes.io/component"
	policyConfiguration   = "weir-policies"
	throttleConfiguration = registration.ConfigurationName
	limiterResource       = "limiters.weir.dev"
	policyResource        = "ratelimitpolicies.weir.dev"
	clusterPolicyResource = "clusterratelimitpolicies.weir.dev"
	deploymentResource    = "deployments.apps"
	webhookResource       = "validatingwebhookconfigurations.admissionregistration.k8s.io"
)

// Operator is the Deployment of the operator.
type Operator struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Replicas  Replicas `json:"replicas"`
	Image     string   `json:"image"`
	Version   string   `json:"version"`
}

// Webhook is a ValidatingWebhookConfiguration of Weir.
type Webhook struct {
	Name       string `json:"name"`
	Registered bool   `json:"registered"`
	Webhooks   int    `json:"webhooks"`
	// CAExpires is when the first of the webhooks has no valid CA any more. It is absent if no CA can be read.
	CAExpires *time.Time `json:"caExpires,omitempty"`
}

func (r *Report) addOperator(o *Objects) {
	if o.isUnread(deploymentResource) {
		return
	}
	wanted := cmp.Or(o.Namespace, o.OperatorNamespace)
	elsewhere := ""
	for i := range o.Deployments {
		d := &o.Deployments[i]
		if d.Labels[componentLabel] != "operator" {
			continue
		}
		if d.Namespace != wanted {
			elsewhere = d.Namespace
			continue
		}
		image, version := imageOf(d)
		r.Operator = &Operator{d.Namespace, d.Name, Replicas{d.Status.ReadyReplicas, d.Spec.Replicas}, image, version}
		if wanted := d.Spec.Replicas; d.Status.ReadyReplicas == 0 || wanted != nil && d.Status.ReadyReplicas < *wanted {
			r.problem(fmt.Sprintf("Deployment %s/%s", d.Namespace, d.Name), "", "the operator has "+r.Operator.Replicas.String()+" ready replicas",
				advice{"look at the pods and their log. Without a ready operator, edits of policies and Limiters have no effect", "WeirOperatorAbsent"})
		}
		return
	}
	switch {
	case wanted != o.OperatorNamespace: // the operator may be in another namespace than the one that the report is about
	case elsewhere != "":
		r.problem("Deployment of the operator", "", "namespace "+wanted+" has no operator, and namespace "+elsewhere+" has one",
			advice{"set --operator-namespace=" + elsewhere, "WeirOperatorAbsent"})
	default:
		r.problem("Deployment of the operator", "", "namespace "+wanted+" has no operator: edits of policies and Limiters have no effect",
			advice{"if the operator is in another namespace, set --operator-namespace. Otherwise install it", "WeirOperatorAbsent"})
	}
}

// String returns, for example, 1/2.
func (r Replicas) String() string {
	if r.Wanted == nil {
		return fmt.Sprintf("%d/?", r.Ready)
	}
	return fmt.Sprintf("%d/%d", r.Ready, *r.Wanted)
}

func webhookConfigurations() []string { return []string{policyConfiguration, throttleConfiguration} }

func (r *Report) addWebhooks(o *Objects) {
	if o.Namespace != "" || o.isUnread(webhookResource) {
		return
	}
	for _, name := range webhookConfigurations() {
		c := o.webhook(name)
		if c == nil {
			r.Webhooks = append(r.Webhooks, Webhook{Name: name})
			continue
		}
		r.Webhooks = append(r.Webhooks, Webhook{name, true, len(c.Webhooks), r.addExpiry(c, o.Now)})
		for i := range c.Webhooks {
			if len(c.Webhooks[i].ClientConfig.CABundle) == 0 {
				r.problem("ValidatingWebhookConfiguration "+name, "", "webhook "+c.Webhooks[i].Name+" has no CA: API servers cannot call it",
					advice{"check that the operator runs, or that cert-manager does, which writes the CA", "WeirOperatorAbsent"})
				break
			}
		}
	}
}

func (o *Objects) webhook(name string) *admissionv1.ValidatingWebhookConfiguration {
	for i := range o.Webhooks {
		if o.Webhooks[i].Name == name {
			return &o.Webhooks[i]
		}
	}
	return nil
}

// hasThrottleWebhook returns whether a webhook sends writes to the Limiter.
func (o *Objects) hasThrottleWebhook(l *v1alpha1.Limiter) bool {
	c := o.webhook(throttleConfiguration)
	if c == nil {
		return false
	}
	for i := range c.Webhooks {
		if name := registration.WebhookName(l); c.Webhooks[i].Name == name || strings.HasSuffix(c.Webhooks[i].Name, "."+name) {
			return true
		}
	}
	return false
}
