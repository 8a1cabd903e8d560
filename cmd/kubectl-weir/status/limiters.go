package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
)

// Values of Limiter.Redis, in addition to reasons of the condition Degraded.
const (
	redisReachable   = "Reachable"
	redisUnreachable = "Unreachable"
	redisUnknown     = "Unknown" // the operator has not connected yet
)

// Limiter is the state of a Limiter.
type Limiter struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Ready, Reason and Message are those of the condition Ready. Reason is empty if the operator has not processed this generation.
	Ready    bool     `json:"ready"`
	Reason   string   `json:"reason,omitempty"`
	Message  string   `json:"message,omitempty"`
	Replicas Replicas `json:"replicas"`
	Image    string   `json:"image,omitempty"`
	Version  string   `json:"version,omitempty"` // the tag of the image, or its digest
	// Revision is that of the published rules, and Enforcing the number of replicas that enforce them.
	Revision  string `json:"revision,omitempty"`
	Enforcing int32  `json:"enforcing"`
	// Redis is the reason of the condition Degraded if it is about Redis, or Reachable, Unreachable, or Unknown.
	Redis string `json:"redis"`
	// Degraded is the reason of the condition Degraded while it is true.
	Degraded string `json:"degraded,omitempty"`
	// ThrottleRegistered is the reason of the condition with this name, if the Limiter has it.
	ThrottleRegistered string `json:"throttleRegistered,omitempty"`
	// Certificates of the Limiter, and when they expire.
	Certificates []v1alpha1.LimiterCertificate `json:"certificates,omitempty"`
}

// Replicas count pods.
type Replicas struct {
	Ready int32 `json:"ready"`
	// Wanted is the number in the Deployment. It is absent if the Deployment does not exist or cannot be read.
	Wanted *int32 `json:"wanted,omitempty"`
}

func (r *Report) addLimiters(o *Objects) {
	deployments := map[string]*appsv1.Deployment{}
	for i := range o.Deployments {
		deployments[o.Deployments[i].Namespace+"/"+o.Deployments[i].Name] = &o.Deployments[i]
	}
	limiters := slices.SortedFunc(slices.Values(o.Limiters), func(a, b v1alpha1.Limiter) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for i := range limiters {
		l := &limiters[i]
		r.Limiters = append(r.Limiters, limiterOf(l, deployments[l.Namespace+"/"+deployment.Name(l.Name)]))
		r.addLimiterProblems(l, &r.Limiters[i], o)
	}
}

func limiterOf(l *v1alpha1.Limiter, pods *appsv1.Deployment) Limiter {
	ready := readyOf(l.Generation, l.Status.Conditions)
	one := Limiter{
		Namespace: l.Namespace, Name: l.Name,
		Ready: ready.Status == metav1.ConditionTrue, Reason: ready.Reason, Message: ready.Message,
		Replicas: Replicas{Ready: l.Status.ReadyReplicas},
		Revision: l.Status.Revision, Enforcing: l.Status.EnforcingReplicas,
		Redis: redisUnknown, Degraded: reasonIfTrue(l.Status.Conditions, v1alpha1.ConditionDegraded), Certificates: l.Status.Certificates,
	}
	if pods != nil {
		one.Replicas.Wanted = pods.Spec.Replicas
		one.Image, one.Version = imageOf(pods)
	}
	switch {
	case isAboutRedis(one.Degraded):
		one.Redis = one.Degraded
	case l.Status.Redis != nil && l.Status.Redis.Reachable:
		one.Redis = redisReachable
	case l.Status.Redis != nil:
		one.Redis = redisUnreachable
	}
	if c := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionThrottleRegistered); c != nil {
		one.ThrottleRegistered = c.Reason
	}
	return one
}

// isAboutRedis returns whether a reason of Degraded is about Redis.
func isAboutRedis(degraded string) bool {
	switch degraded {
	case v1alpha1.ReasonStoreUnreachable, v1alpha1.ReasonStoreDenied, v1alpha1.ReasonStoreUntrusted, v1alpha1.ReasonStoreTooOld,
		v1alpha1.ReasonStoreEvicts, v1alpha1.ReasonStoreClockWrong, v1alpha1.ReasonSecretNotFound, v1alpha1.ReasonLocalMode,
		v1alpha1.ReasonStoreCredentialsUnavailable:
		return true
	default:
		return false
	}
}

// imageOf returns the image of the first container and the version in it: its tag, or its digest.
func imageOf(d *appsv1.Deployment) (image, version string) {
	if len(d.Spec.Template.Spec.Containers) == 0 {
		return "", ""
	}
	image = d.Spec.Template.Spec.Containers[0].Image
	name, digest, _ := strings.Cut(image, "@")
	if index := strings.LastIndex(name, ":"); index > strings.LastIndex(name, "/") {
		return image, name[index+1:]
	}
	return image, digest
}

func (r *Report) addLimiterProblems(l *v1alpha1.Limiter, one *Limiter, o *Objects) {
	object := fmt.Sprintf("Limiter %s/%s", l.Namespace, l.Name)
	if !one.Ready {
		r.problem(object, one.Reason, one.Message, adviceForLimiter(one.Reason))
	}
	if degraded := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionDegraded); one.Degraded != "" {
		r.problem(object, degraded.Reason, degraded.Message, adviceForDegraded(degraded.Reason))
	} else if one.Ready && one.Revision != "" && one.Enforcing < one.Replicas.Ready {
		r.problem(object, "", fmt.Sprintf("%d of %d ready replicas enforce the current rules", one.Enforcing, one.Replicas.Ready), advice{
			"wait ten seconds. If it remains, look at the log of the replicas that are missing", "WeirRulesDiffer",
		})
	}
	for i := range one.Certificates {
		r.addCertificateProblem(object, &one.Certificates[i], o.Now)
	}
	throttle := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionThrottleRegistered)
	switch {
	case throttle == nil || throttle.Reason == v1alpha1.ReasonNoPolicies: // no policy needs the webhook
	case throttle.Status != metav1.ConditionTrue:
		r.problem(object, throttle.Reason, throttle.Message, adviceForThrottle(throttle.Reason))
	case o.Namespace == "" && !o.isUnread(webhookResource) && !o.hasThrottleWebhook(l):
		r.problem(object, "", "ValidatingWebhookConfiguration "+throttleConfiguration+" has no webhook of this Limiter: writes to the Kubernetes API are not limited",
			advice{"check that the operator runs. It restores the webhook", "WeirOperatorAbsent"})
	}
}
