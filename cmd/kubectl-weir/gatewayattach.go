package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/explain"
	"github.com/weir-dev/weir/cmd/kubectl-weir/gateway"
	"github.com/weir-dev/weir/internal/terminal"
)

// attachFlags are the flags of kubectl weir gateway attach.
type attachFlags struct {
	gatewayFlags

	changed  func(flag string) bool
	failOpen bool
	timeout  time.Duration
	wait     time.Duration
	dryRun   bool
	output   string
}

// Bounds of --timeout. Above a minute, clients give up first.
const (
	minGatewayTimeout = time.Millisecond
	maxGatewayTimeout = time.Minute
)

func gatewayAttachCommand() *cobra.Command {
	var f attachFlags
	cmd := &cobra.Command{
		Use:   "attach GATEWAY",
		Short: "Make a Gateway call a Limiter",
		Long: `Create the SecurityPolicy with which a Gateway of Envoy Gateway calls a Limiter, and the ReferenceGrant that it needs if the Limiter
is in another namespace, and wait until Envoy Gateway has accepted them. Run it again to change a setting: flags that are not set
keep the settings of an attached Gateway. If you have removed failOpen from its SecurityPolicy, it stays removed. The Gateway names the
route of each request, so that policies can have routes in spec.targetRefs.

The user needs the permissions to get the Gateway and the Limiter, to get, list, create and patch SecurityPolicies in the namespace
of the Gateway, and to get, create and patch ReferenceGrants in the namespace of the Limiter.

The ReferenceGrant is deleted with the Limiter, and so is the SecurityPolicy if both namespaces are the same. Otherwise it is
deleted with the Gateway. With --dry-run, the objects have no owners, because UIDs differ between clusters.`,
		Example: "  kubectl weir gateway attach public --namespace infra\n" +
			"  kubectl weir gateway attach public -n infra --limiter team/limits --fail-open=false\n" +
			"  kubectl weir gateway attach public -n infra --dry-run -o yaml",
		Args: oneGateway,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.changed = cmd.Flags().Changed
			return attachGateway(cmd.Context(), &f, args[0], cli.StreamsOf(cmd))
		},
	}
	f.add(cmd.Flags())
	f.addLimiter(cmd.Flags())
	cmd.Flags().BoolVar(&f.failOpen, "fail-open", true, "allow requests without a decision, for example while no replica answers; false denies them")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 100*time.Millisecond, "how long Envoy waits for a decision; more than the timeout of the Limiter for Redis")
	cmd.Flags().DurationVar(&f.wait, "wait", 30*time.Second, "how long to wait until Envoy Gateway has accepted the objects; 0s does not wait")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the objects and change nothing; also if the Gateway has another SecurityPolicy")
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "print the objects as yaml or json; empty prints their names")
	return cmd
}

func attachGateway(ctx context.Context, f *attachFlags, name string, s cli.Streams) error {
	if !slices.Contains([]string{"", explain.YAML, explain.JSON}, f.output) {
		return cli.UsageError(fmt.Errorf("--output %q is invalid: must be yaml or json", f.output))
	}
	if f.timeout < minGatewayTimeout || f.timeout > maxGatewayTimeout || f.timeout%time.Millisecond != 0 {
		return cli.UsageError(fmt.Errorf("--timeout %s is invalid: must be between 1ms and 1m, in whole milliseconds", f.timeout))
	}
	c, a, err := f.open(name)
	if err != nil {
		return err
	}
	if err := f.complete(ctx, c, a); err != nil {
		return err
	}
	found, err := gateway.Check(ctx, c, a)
	if f.dryRun && gateway.IsConflict(err) {
		terminal.Println(s.Err, "note: "+err.Error())
		return printObjects(s.Out, f.output, a.Objects(), "would be applied")
	}
	if err != nil {
		return err
	}
	for _, note := range found.Notes {
		terminal.Println(s.Err, "note: "+note)
	}
	if f.dryRun {
		return printObjects(s.Out, f.output, a.Objects(), "would be applied")
	}
	objects, err := gateway.Apply(ctx, c, a, found)
	if err != nil {
		return err
	}
	if err := printObjects(s.Out, f.output, objects, "applied"); err != nil || f.wait == 0 {
		return err
	}
	return f.awaitAcceptance(ctx, c, a, s)
}

// complete sets the settings of an attachment: those of flags that are set, else those of an attached Gateway, else the defaults. If a user has
// removed failOpen, it stays removed, so that Envoy Gateway denies requests without a decision: only the flag allows them again.
func (f *attachFlags) complete(ctx context.Context, c client.Client, a *gateway.Attachment) error {
	a.FailOpen, a.Timeout = &f.failOpen, f.timeout
	current, attached, err := gateway.Settings(ctx, c, a.Gateway)
	if err != nil || !attached {
		return err
	}
	if !f.changed("limiter") {
		a.Limiter = current.Limiter
	}
	if !f.changed("fail-open") && current.ExtAuth {
		a.FailOpen = current.FailOpen
	}
	if !f.changed("timeout") && current.Timeout > 0 {
		a.Timeout = current.Timeout
	}
	return nil
}

func (f *attachFlags) awaitAcceptance(ctx context.Context, c client.Client, a *gateway.Attachment, s cli.Streams) error {
	state, err := gateway.Wait(ctx, c, a.Gateway, f.wait)
	if err != nil {
		return err
	}
	if !state.Healthy() {
		return fmt.Errorf("after %s, Gateway %s does not call Limiter %s: %s: %s", f.wait, a.Gateway, a.Limiter, state.State, state.Message)
	}
	if state.State == gateway.Overridden {
		terminal.Printf(s.Err, "note: %s: their requests do not reach Weir, unless these SecurityPolicies have mergeType StrategicMerge, or extAuth\n", state.Message)
	}
	if f.output == "" {
		terminal.Printf(s.Out, "Gateway %s calls Limiter %s\n", a.Gateway, a.Limiter)
	}
	return nil
}
