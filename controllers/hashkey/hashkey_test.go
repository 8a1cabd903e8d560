package hashkey_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/hashkey"
	"github.com/weir-dev/weir/limiter"
)

var name = types.NamespacedName{Namespace: "weir-system", Name: "weir-hash-key"}

func secretWith(text string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, Data: map[string][]byte{"key": []byte(text)}}
}

func stored(t *testing.T, c client.Client) string {
	t.Helper()
	var secret corev1.Secret
	if err := c.Get(t.Context(), name, &secret); err != nil {
		t.Fatal(err)
	}
	return string(secret.Data["key"])
}

func TestMaster_CreatesTheSecretOnce(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	var text string
	for range 3 {
		key, err := hashkey.Master(t.Context(), c, "weir-system")
		if err != nil {
			t.Fatal(err)
		}
		if now := stored(t, c); now != string(key.Text()) || text != "" && now != text || len(now) < 64 {
			t.Errorf("the Secret has %q, the key is %q, and was %q", now, key.Text(), text)
		}
		text = string(key.Text())
	}
}

func TestMaster_NeverChangesAnExistingSecret(t *testing.T) {
	for text, want := range map[string]string{
		"a key that the administrator made": "",
		"too short":                         `key "key" of Secret weir-system/weir-hash-key: a hash key must have from 32 to 4096 bytes, got 9`,
	} {
		c := interceptor.NewClient(fake.NewClientBuilder().WithObjects(secretWith(text)).Build(), interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				return errors.New("a write")
			},
			Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
				return errors.New("a write")
			},
		})
		key, err := hashkey.Master(t.Context(), c, "weir-system")
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		if err != nil || string(key.Text()) != text {
			t.Errorf("%q: %v, %v", text, key, err)
		}
	}
}

// Two replicas of the operator start at the same time.
func TestMaster_UsesTheSecretThatAnotherReplicaCreated(t *testing.T) {
	const theirs = "the key of the replica that was faster"
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			return errors.Join(c.Create(ctx, secretWith(theirs)), c.Create(ctx, object))
		},
	})
	key, err := hashkey.Master(t.Context(), c, "weir-system")
	if err != nil || string(key.Text()) != theirs {
		t.Errorf("%v, %v", key, err)
	}
}

func TestOf_IsTheSameForLimitersThatShareCountersOnly(t *testing.T) {
	master, err := limiter.NewHashKey([]byte("the master key of the installation"))
	if err != nil {
		t.Fatal(err)
	}
	of := func(namespace, name, group string) string {
		l := &v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		l.Spec.CounterGroup = group
		return hashkey.Of(master, l).ID()
	}
	if of("a", "x", "shared") != of("b", "y", "shared") {
		t.Error("two Limiters of a group have different keys")
	}
	seen := map[string]bool{master.ID(): true}
	for _, id := range []string{of("a", "x", ""), of("a", "y", ""), of("b", "x", ""), of("a", "x", "shared"), of("a", "x", "x")} {
		if seen[id] {
			t.Error("Limiters that share no counters have the same key")
		}
		seen[id] = true
	}
}
