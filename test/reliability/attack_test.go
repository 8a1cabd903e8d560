package reliability

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/latency"
)

// What an attacker has, and what another client may notice of it.
const (
	attackConnections = 40
	attackRate        = 10 << 20               // bytes a second of all connections
	attackMemory      = 256 << 20              // the memory limit of a pod, by default
	attackSlowdown    = 5                      // times the p99 latency without an attack
	attackNoise       = 500 * time.Millisecond // of a machine that the attacker, Redis and other tests share
	attackCalm        = 25 * time.Millisecond
	attackEnd         = time.Second // after which the latency is the usual one
)

const attackPolicy = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: tenants, namespace: shop}
spec: {axis: Tenant, identifier: {descriptor: tenant}, limit: 100000000, window: 1h, match: {descriptors: [{key: tenant}]}}
`

// TestServe_AnAttackerTakesNothingFromOthers runs each attack against a limiter with the resources of a pod: one second each, or ten with WEIR_SOAK.
func TestServe_AnAttackerTakesNothingFromOthers(t *testing.T) {
	latency.Alone(t)
	lasts := time.Second
	if os.Getenv("WEIR_SOAK") != "" {
		lasts = 10 * time.Second
	}
	weir, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	redis, err := fixture.StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := redis.Stop(); err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "policies.yaml"), []byte(attackPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOMAXPROCS", "2")
	t.Setenv("GOMEMLIMIT", "256000000B")
	transports := []string{"fast", "standard"}
	if only := os.Getenv("WEIR_ATTACK_TRANSPORT"); only != "" { // "before" is a limiter without the flag
		transports = []string{only}
	}
	for _, transport := range transports {
		args := []string{"serve", "--policies", dir, "--redis", redis.URL(), "--memory", "256Mi"}
		if transport != "before" {
			args = append(args, "--grpc-transport", transport)
		}
		listen, ops := address(t), address(t)
		process := fixture.Weir(t, weir, append(args, "--listen", address(t), "--grpc-listen", listen, "--ops-listen", ops)...)
		if err := fixture.WaitHTTP(t.Context(), "http://"+ops+"/readyz", http.StatusOK); err != nil {
			t.Fatal(err)
		}
		for _, a := range attacks() {
			t.Run(transport+"/"+a.name, func(t *testing.T) {
				slow := latency.Of(t)
				o := runAttack(t, process, listen, a, lasts)
				t.Log(o)
				if transport == "standard" { // grpc-go does not bound frames and streams that it refuses
					if o.lost > 0 {
						t.Errorf("%d calls failed a second after the attack: %v", o.lost, o.firstError)
					}
					return
				}
				o.check(t, slow, a.decided)
			})
		}
		if err := process.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// outcome is what another client has noticed of an attack.
type outcome struct {
	quiet, during, after time.Duration // p99
	calls, failed        int
	lost                 int // failed after the attack
	firstError           error
	memory               int64
	sent                 int64
	connections          int64
}

func (o outcome) String() string {
	return fmt.Sprintf("| %d of %d failed | p99 %v, quiet %v, after %v | %d MiB | sent %.1f MiB on %d connections |", o.failed, o.calls,
		o.during.Round(100*time.Microsecond), o.quiet.Round(100*time.Microsecond), o.after.Round(100*time.Microsecond), o.memory>>20,
		float64(o.sent)/(1<<20), o.connections)
}

// check checks the promises. Of the calls that Redis decides, one can be late for its batch.
func (o outcome) check(t *testing.T, slow *latency.Failures, decided bool) {
	t.Helper()
	most := 0
	if decided {
		most = max(1, o.calls/50)
	}
	if o.failed > most {
		t.Errorf("%d of %d calls of another client failed: %v", o.failed, o.calls, o.firstError)
	}
	if o.memory > attackMemory {
		t.Errorf("%d MiB resident, want at most %d", o.memory>>20, attackMemory>>20)
	}
	longest := max(attackSlowdown*o.quiet, attackNoise)
	if o.during > longest {
		slow.Errorf("the p99 latency of another client is %v, want at most %v", o.during, longest)
	}
	if o.after > longest {
		slow.Errorf("the p99 latency is %v a second after the attack, want at most %v", o.after, longest)
	}
}

// runAttack attacks, and calls the limiter on another connection before, meanwhile and afterwards.
func runAttack(t *testing.T, process *fixture.WeirProcess, address string, a attack, lasts time.Duration) (o outcome) {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := ratelimitv3.NewRateLimitServiceClient(conn)
	for range 20 { // the end of the attack before it is not what this one causes
		if o.quiet, _, _, err = wellBehaved(t.Context(), client, 500*time.Millisecond); err == nil && o.quiet < attackCalm {
			break
		}
	}
	if err != nil {
		t.Fatalf("before the attack: %v", err)
	}
	if err := process.ResetPeakMemory(); err != nil {
		t.Fatal(err)
	}
	attacker := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAttacker_HelperProcess$", "-test.v")
	attacker.Env = append(os.Environ(), attackerEnv+"="+strings.Join([]string{a.name, address, lasts.String()}, "|"))
	var report bytes.Buffer
	attacker.Stdout, attacker.Stderr = &report, &report
	if err := attacker.Start(); err != nil {
		t.Fatal(err)
	}
	o.during, o.calls, o.failed, o.firstError = wellBehaved(t.Context(), client, lasts)
	if err := attacker.Wait(); err != nil {
		t.Fatalf("%v: %s", err, report.String())
	}
	if _, found, _ := strings.Cut(report.String(), attackerReport); found == "" {
		t.Fatalf("the attacker reports %s", report.String())
	} else if _, err := fmt.Sscan(found, &o.sent, &o.connections); err != nil {
		t.Fatal(err)
	}
	time.Sleep(attackEnd)
	var errAfter error
	o.after, _, o.lost, errAfter = wellBehaved(t.Context(), client, 300*time.Millisecond)
	if o.failed += o.lost; o.firstError == nil {
		o.firstError = errAfter
	}
	o.memory, err = process.PeakMemory()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

const (
	attackerEnv    = "WEIR_TEST_ATTACKER" // makes the test program an attacker
	attackerReport = "sent: "
)

// An attacker is a process that has only the processor time that others leave: it stands for one on another machine.
func TestAttacker_HelperProcess(t *testing.T) {
	job := strings.Split(os.Getenv(attackerEnv), "|")
	if len(job) != 3 {
		t.Skip("it is the helper of another test")
	}
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19); err != nil {
		t.Fatal(err)
	}
	lasts, err := time.ParseDuration(job[2])
	if err != nil {
		t.Fatal(err)
	}
	all := attacks()
	chosen := slices.IndexFunc(all, func(a attack) bool { return a.name == job[0] })
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var running sync.WaitGroup
	tally := &attackTally{}
	for range attackConnections {
		running.Go(func() { all[chosen].run(ctx, job[1], tally) })
	}
	running.Wait()
	t.Log(attackerReport, tally.sent.Load(), tally.connections.Load())
}

// wellBehaved calls the limiter every two milliseconds, and returns the p99 latency.
func wellBehaved(ctx context.Context, client ratelimitv3.RateLimitServiceClient, lasts time.Duration) (p99 time.Duration, calls, failed int, first error) {
	asked := &ratelimitv3.RateLimitRequest{Domain: "shop", Descriptors: []*descriptorv3.RateLimitDescriptor{
		{Entries: []*descriptorv3.RateLimitDescriptor_Entry{{Key: "tenant", Value: "acme"}}},
	}}
	var took []time.Duration
	for began := time.Now(); time.Since(began) < lasts; time.Sleep(2 * time.Millisecond) {
		start := time.Now()
		call, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := client.ShouldRateLimit(call, asked)
		cancel()
		took = append(took, time.Since(start))
		if err != nil {
			failed++
			if first == nil {
				first = err
			}
		}
	}
	slices.Sort(took)
	return took[len(took)*99/100], len(took), failed, first
}
