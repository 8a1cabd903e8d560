package importer

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile/window"
	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules/credentials"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// Policy is an imported policy.
type Policy struct {
	Place // of its source

	// Domain is the domain of the requests. The policy is a RateLimitPolicy in the namespace of this name, or a ClusterRateLimitPolicy for
	// the domain if Cluster is true or there can be no such namespace. "" is every domain.
	Domain  string
	Cluster bool
	// Path describes what the policy limits, and makes its name. Equal ones in a domain get a number.
	Path []string
	// Comment is about the source. It can contain values of the source.
	Comment string
	// LimitName is the name of the limit in the source, "" for a limit without a name.
	LimitName string
	// Targets are what the requests name, such as HTTPRoute/shop. Importers use it to find the policies that can match one request.
	Targets []string
	Spec    v1alpha1.RateLimitPolicySpec

	name        string
	annotations map[string]string
}

// simplify leaves out what has no effect in a policy that denies every request: it counts nothing.
func (p *Policy) simplify() {
	s := &p.Spec
	if s.Limit == nil || *s.Limit > 0 || len(s.Tiers) > 0 || s.Match != nil && s.Match.Kubernetes != nil {
		return
	}
	s.Axis, s.Identifier, s.Burst, s.Cost, s.OnStoreFailure, s.Storage = v1alpha1.AxisIP, nil, nil, nil, "", ""
	if length, err := window.Parse(s.Window); err == nil && length <= limiter.DefaultAlgorithm.Traits().MaxWindow { // longer ones need FixedWindow
		s.Algorithm = ""
	}
	if s.Enforcement == v1alpha1.EnforcementShadow {
		p.Comment += ": reports every request as denied"
		return
	}
	p.Comment += ": denies every request"
}

// maxName is the maximum length of the name of a policy.
const maxName = 63

// isCluster reports whether the policy is a ClusterRateLimitPolicy. A namespace must have a DNS label as its name.
func (p *Policy) isCluster() bool {
	return p.Cluster || len(validation.IsDNS1123Label(p.Domain)) > 0
}

// fullName returns the name of the policy as rules have it, if the policy is valid.
func (p *Policy) fullName() string {
	if p.isCluster() {
		return policyname.Join(policyname.Cluster, p.name)
	}
	return policyname.Join(p.Domain, p.name)
}

// numberPath adds a number to a path that an earlier policy of the domain has: two limits of a list can be alike. Numbers has the paths.
func (p *Policy) numberPath(numbers map[string]int) {
	path := p.Path
	key := func() string { return fmt.Sprintf("%q%q%t", p.Domain, p.Path, p.Cluster) }
	first := key()
	for numbers[key()] > 0 {
		numbers[first]++
		p.Path = append(slices.Clone(path), strconv.Itoa(numbers[first]))
	}
	numbers[key()] = 1
}

// setNames names the policies after their paths. Names that would be equal or too long end with a hash of the path, so that the name of a
// policy does not depend on the order of the source.
func setNames(policies []Policy) {
	count, numbers := map[string]int{}, map[string]int{}
	for i := range policies {
		p := &policies[i]
		p.numberPath(numbers)
		parts := p.Path
		if p.isCluster() {
			parts = slices.Concat([]string{p.Domain}, parts)
		}
		p.name = cmp.Or(slug(strings.Join(parts, "-")), "limit")
		count[p.fullName()]++
	}
	for i := range policies {
		p := &policies[i]
		if count[p.fullName()] == 1 && len(p.name) <= maxName {
			continue
		}
		sum := sha256.Sum256([]byte(fmt.Sprintf("%q%q", p.Domain, p.Path)))
		p.name = strings.TrimRight(p.name[:min(len(p.name), maxName-9)], "-") + "-" + hex.EncodeToString(sum[:4])
	}
}

// slug converts text to a DNS label of any length: lower-case letters, digits and single hyphens.
func slug(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else if b.Len() > 0 && !strings.HasSuffix(b.String(), "-") {
			b.WriteByte('-')
		}
	}
	return strings.TrimRight(b.String(), "-")
}

// credential finds what usually is a part of a credential: an authorization scheme with its value, the prefix of a token, and a long mixture
// of letters and digits.
var credential = regexp.MustCompile(`(?i)\b(bearer|basic|digest|negotiate|apikey)[ :=]+\S|` +
	`\b(sk|rk|pk|gh[a-z]|github_pat|glpat|xox[a-z]|whsec|akia|eyj)[-_]?[a-z0-9][-_a-z0-9]{7}`)

// IsCredential reports whether a value looks like a credential, or contains one, for example as a parameter of a query. In doubt it does.
func IsCredential(value string) bool {
	if credential.MatchString(value) {
		return true
	}
	for _, parameter := range strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune("?&;,# ", c) }) {
		name, content, found := strings.Cut(parameter, "=")
		if !found {
			name, content, found = strings.Cut(parameter, ":")
		}
		if found && content != "" && (credentials.Names{}).Name(name) {
			return true
		}
	}
	const random = 16 // characters without a separator
	return slices.ContainsFunc(strings.FieldsFunc(value, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }), func(word string) bool {
		return len(word) >= random && strings.ContainsFunc(word, unicode.IsLetter) && strings.ContainsFunc(word, unicode.IsDigit)
	})
}

// object returns the policy as an API object.
func (p *Policy) object() any {
	version := v1alpha1.GroupVersion.String()
	if p.isCluster() {
		policy := &v1alpha1.ClusterRateLimitPolicy{
			TypeMeta:   metav1.TypeMeta{APIVersion: version, Kind: "ClusterRateLimitPolicy"},
			ObjectMeta: metav1.ObjectMeta{Name: p.name, Annotations: p.annotations},
			Spec:       v1alpha1.ClusterRateLimitPolicySpec{RateLimitPolicySpec: p.Spec},
		}
		if p.Domain != "" {
			policy.Spec.Domains = []v1alpha1.Domain{v1alpha1.Domain(p.Domain)}
		}
		return policy
	}
	return &v1alpha1.RateLimitPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: version, Kind: "RateLimitPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: p.name, Namespace: p.Domain, Annotations: p.annotations},
		Spec:       p.Spec,
	}
}

// yaml returns the policy as a document, with its source in a comment.
func (p *Policy) yaml() ([]byte, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p.object())
	if err != nil {
		return nil, fmt.Errorf("encode the policy of %s:%d: %w", p.File, p.Line, err)
	}
	delete(content, "status")
	text, err := terminal.MarshalYAML(content)
	if err != nil {
		return nil, fmt.Errorf("encode the policy of %s:%d: %w", p.File, p.Line, err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n", oneLine(fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Comment)))
	b.Write(text)
	return b.Bytes(), nil
}
