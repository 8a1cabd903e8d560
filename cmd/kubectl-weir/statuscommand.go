package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/ask"
	"github.com/weir-dev/weir/cmd/kubectl-weir/status"
)

// statusFlags are the flags of kubectl weir status.
type statusFlags struct {
	cluster   clusterFlags
	namespace string
	output    string
}

func statusCommand() *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the installation in a cluster, and its problems",
		Long: `Show Limiters, their Redis, policies by condition, webhooks, the expiry of certificates, and the operator of a cluster, and the problems with what to
do and the runbook page of each. Everything except bypasses is read from the API server, with the ClusterRole weir-observer. Bypasses are read from
limiters through the operator; if it cannot be reached, the output states why. With --namespace it shows only the Limiters and
RateLimitPolicies of one namespace, and a RoleBinding suffices.

Exit status: 0 if there are no problems, 1 if there are problems, 2 if the readable objects have no problems, but something cannot
be read, or if the command line or the kubeconfig is invalid.`,
		Example: "  kubectl weir status\n" +
			"  kubectl weir status -o wide\n" +
			"  kubectl weir status --namespace shop -o json",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			defer cli.Waiting(cmd.ErrOrStderr(), "the API server")()
			return showStatus(cmd.Context(), &f, cmd.OutOrStdout())
		},
	}
	f.cluster.addKubeconfig(cmd.Flags())
	f.cluster.addOperator(cmd.Flags())
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "only the Limiters and RateLimitPolicies of this namespace; empty is the whole installation")
	ask.AddOutput(cmd, &f.output)
	cli.CompleteFlags(cmd, map[string]cli.Values{"namespace": f.cluster.namespaces, "context": f.cluster.contexts})
	return cmd
}

func showStatus(ctx context.Context, f *statusFlags, out io.Writer) error {
	if err := ask.ValidateOutput(f.output); err != nil {
		return err
	}
	c, err := f.cluster.reader()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, ask.Timeout)
	defer cancel()
	objects, err := status.Read(ctx, c, status.Scope{Namespace: f.namespace, OperatorNamespace: f.cluster.operatorNamespace})
	if errors.Is(err, status.ErrNotInstalled) {
		err = fmt.Errorf("%w; install Weir, or select another cluster with --context", err)
	}
	if err != nil {
		return cli.UsageError(err)
	}
	report := status.New(objects)
	report.SetBypasses(f.bypasses(ctx, objects.Limiters))
	if err := status.Print(out, f.output, report); err != nil {
		return err
	}
	switch {
	case len(report.Problems) > 0:
		return &cli.ExitError{Code: cli.ExitFailed}
	case len(report.Unread) > 0:
		return &cli.ExitError{Code: cli.ExitUsage}
	default:
		return nil
	}
}
