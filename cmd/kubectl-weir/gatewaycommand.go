package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/ask"
	"github.com/weir-dev/weir/cmd/internal/cli/explain"
	"github.com/weir-dev/weir/cmd/kubectl-weir/gateway"
	"github.com/weir-dev/weir/internal/terminal"
)

// gatewayFlags are the flags that the commands for Gateways share.
type gatewayFlags struct {
	cluster   clusterFlags // without operator and operatorCA
	namespace string
}

func (f *gatewayFlags) add(flags *pflag.FlagSet) {
	f.cluster.addKubeconfig(flags)
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the Gateway; empty uses that of the context of the kubeconfig file")
}

func (f *gatewayFlags) addLimiter(flags *pflag.FlagSet) {
	flags.StringVar(&f.cluster.limiter, "limiter", "default", "Limiter that the Gateway calls, as namespace/name, or its name in --operator-namespace")
}

func gatewayCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Attach Gateways of Envoy Gateway to a Limiter",
		Long: `Attach a Gateway of Envoy Gateway (1.8 or later) to a Limiter, so that the Gateway calls the Limiter for each request. The commands
use the permissions of the user, not those of the operator.`,
		Args:                       cli.NoUnknownCommand,
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(gatewayAttachCommand(), gatewayDetachCommand(), gatewayListCommand())
	return cmd
}

// oneGateway accepts exactly one argument.
func oneGateway(_ *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" || strings.Contains(args[0], "/") {
		return cli.UsageError(errors.New("name one Gateway, and its namespace with --namespace"))
	}
	return nil
}

// printObjects prints objects, or their names with what was done.
func printObjects(w io.Writer, format string, objects []*unstructured.Unstructured, done string) error {
	if format == explain.JSON {
		list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
		for _, object := range objects {
			list.Items = append(list.Items, *object)
		}
		_, err := explain.PrintObject(w, explain.JSON, list)
		return err
	}
	for i, object := range objects {
		if format == "" {
			terminal.Printf(w, "%s %s %s\n", object.GetKind(), client.ObjectKeyFromObject(object), done)
			continue
		}
		text, err := terminal.MarshalYAML(object.Object)
		if err != nil {
			return err
		}
		if i > 0 {
			text = append([]byte("---\n"), text...)
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}

func gatewayDetachCommand() *cobra.Command {
	var f gatewayFlags
	cmd := &cobra.Command{
		Use:   "detach GATEWAY",
		Short: "Make a Gateway call no Limiter",
		Long: `Delete the SecurityPolicy and the ReferenceGrant that gateway attach has created. The Gateway and the Limiter can be deleted already.
Objects that other users created are not deleted. A SecurityPolicy to which users have added settings, for example authentication,
is kept without spec.extAuth.

The user needs the permissions to get, patch and delete SecurityPolicies in the namespace of the Gateway, and ReferenceGrants in the
namespace of the Limiter.`,
		Example: "  kubectl weir gateway detach public --namespace infra",
		Args:    oneGateway,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, a, err := f.open(args[0])
			if err != nil {
				return err
			}
			deleted, err := gateway.Detach(cmd.Context(), c, a.Gateway, a.Limiter.Namespace)
			for _, object := range deleted {
				done := "deleted"
				if gateway.IsKept(object) {
					done = "kept without spec.extAuth, because users have added settings to it"
				}
				err = errors.Join(printObjects(cmd.OutOrStdout(), "", []*unstructured.Unstructured{object}, done), err)
			}
			return err
		},
	}
	f.add(cmd.Flags())
	f.addLimiter(cmd.Flags())
	return cmd
}

func gatewayListCommand() *cobra.Command {
	var f gatewayFlags
	var allNamespaces bool
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the attached Gateways, and what Envoy Gateway reports",
		Long: `List the Gateways that gateway attach has attached. STATE is Accepted, Overridden if SecurityPolicies of routes or listeners replace
that of the Gateway, Pending, LimiterNotFound, or the reason for which Envoy Gateway does not accept it. The user needs the
permission to list SecurityPolicies.

Exit status: 0 if requests of all Gateways reach their Limiters, 1 if not, 2 if the command line or the kubeconfig is invalid.`,
		Example: "  kubectl weir gateway list --all-namespaces",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listGateways(cmd.Context(), &f, allNamespaces, output, cmd.OutOrStdout())
		},
	}
	f.add(cmd.Flags())
	f.cluster.limiter = "default" // no flag
	cmd.Flags().BoolVarP(&allNamespaces, "all-namespaces", "A", false, "the Gateways of all namespaces")
	ask.AddOutput(cmd, &output)
	return cmd
}

func listGateways(ctx context.Context, f *gatewayFlags, allNamespaces bool, output string, out io.Writer) error {
	if err := ask.ValidateOutput(output); err != nil {
		return err
	}
	c, a, err := f.open("")
	if err != nil {
		return err
	}
	namespace := a.Gateway.Namespace
	if allNamespaces {
		namespace = ""
	}
	list, err := gateway.List(ctx, c, namespace)
	if err != nil {
		return err
	}
	if err := printGateways(out, output, list); err != nil {
		return err
	}
	if slices.ContainsFunc(list, func(s gateway.Status) bool { return !s.Healthy() }) {
		return &cli.ExitError{Code: cli.ExitFailed}
	}
	return nil
}

func printGateways(out io.Writer, output string, list []gateway.Status) error {
	if printed, err := explain.PrintObject(out, output, map[string]any{"version": "v1", "gateways": list}); printed || err != nil {
		return err
	}
	if len(list) == 0 {
		terminal.Println(out, "No attached Gateways.")
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	terminal.Printf(table, "GATEWAY\tLIMITER\tSECURITYPOLICY\tSTATE\tMESSAGE\n")
	for i := range list {
		s := &list[i]
		terminal.Printf(table, "%s\t%s\t%s\t%s\t%s\n", s.Gateway, s.Limiter, s.SecurityPolicy, s.State, s.Message)
	}
	return table.Flush()
}

// open returns a client of the API server, and the Gateway with this name and the Limiter of the flags.
func (f *gatewayFlags) open(name string) (client.Client, *gateway.Attachment, error) {
	limiterNamespace, limiter, err := f.cluster.limiterName()
	if err != nil {
		return nil, nil, err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.cluster.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.cluster.context})
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, nil, cli.UsageError(errors.New("there is no kubeconfig: set --kubeconfig or KUBECONFIG"))
	}
	if err != nil {
		return nil, nil, cli.UsageError(fmt.Errorf("read the kubeconfig: %w", err))
	}
	namespace := f.namespace
	if namespace == "" {
		if namespace, _, err = loader.Namespace(); err != nil {
			return nil, nil, cli.UsageError(fmt.Errorf("read the kubeconfig: %w", err))
		}
	}
	config.Timeout = ask.Timeout
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, nil, cli.UsageError(fmt.Errorf("read the kubeconfig: %w", err))
	}
	return c, &gateway.Attachment{
		Gateway: types.NamespacedName{Namespace: namespace, Name: name},
		Limiter: types.NamespacedName{Namespace: limiterNamespace, Name: limiter},
	}, nil
}
