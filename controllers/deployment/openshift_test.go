package deployment

import "testing"

// The SCC restricted-v2 rejects pods with a user or group ID outside the range of the namespace, so no ID may be fixed. Then mounted files must be
// readable for any user.
func TestPod_FixesNoUserAndReadsItsSecrets(t *testing.T) {
	for _, name := range []string{"full", "throttle"} {
		spec := pod(goldenLimiter(t, name), Secrets{TLS: Keys{caKey}}, testOptions).Spec
		if c := spec.SecurityContext; c.RunAsUser != nil || c.RunAsGroup != nil || c.FSGroup != nil || c.RunAsNonRoot == nil || !*c.RunAsNonRoot {
			t.Errorf("%s: security context of the pod %+v", name, c)
		}
		if c := spec.Containers[0].SecurityContext; c.RunAsUser != nil || c.RunAsGroup != nil {
			t.Errorf("%s: security context of the container %+v", name, c)
		}
		secrets := 0
		for _, volume := range spec.Volumes {
			if s := volume.Secret; s != nil {
				secrets++
				if *s.DefaultMode&0o444 != 0o444 {
					t.Errorf("%s: volume %s has mode %o", name, volume.Name, *s.DefaultMode)
				}
			}
		}
		if secrets == 0 {
			t.Errorf("%s mounts no Secret", name)
		}
	}
}
