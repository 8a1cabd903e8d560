package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/ask"
	"github.com/weir-dev/weir/cmd/internal/cli/policydiff"
	"github.com/weir-dev/weir/cmd/internal/cli/policyset"
	"github.com/weir-dev/weir/cmd/kubectl-weir/status"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// diffFlags are the flags of kubectl weir diff.
type diffFlags struct {
	policydiff.Flags

	cluster clusterFlags
}

func diffCommand() *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use:   "diff FILES…",
		Short: "Compare the policies of a cluster with files: what applying them would enforce differently",
		Long: `Compare the policies of a cluster with policies in files: what applying the files would enforce differently, in the words of their YAML.

FILES are files, directories (their *.yaml, *.yml and *.json files, including subdirectories) and "-" for standard input. Only the namespaces
of the policies in FILES are read and compared, ClusterRateLimitPolicies if FILES have some, and the Limiters in FILES. weir diff compares files with files.

` + policydiff.Effects + `

Exit status, as with diff: 0 if the policies are the same, 1 if they differ, 2 if an error occurs or a policy in FILES is invalid. Invalid
policies in the cluster are reported, and left out.`,
		Example: "  kubectl weir diff policies/\n" +
			"  kubectl kustomize overlays/production | kubectl weir diff -",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.UsageError(errors.New("missing argument: name files or directories, or - for standard input; see kubectl weir diff --help"))
			}
			return nil
		},
		RunE: cli.Interruptible(func(cmd *cobra.Command, args []string) error {
			defer cli.Waiting(cmd.ErrOrStderr(), "the API server")()
			return f.diff(cmd.Context(), cli.StreamsOf(cmd), args)
		}),
	}
	f.Add(cmd.Flags())
	f.cluster.addKubeconfig(cmd.Flags())
	cli.CompleteFlags(cmd, map[string]cli.Values{"context": f.cluster.contexts})
	return cmd
}

func (f *diffFlags) diff(ctx context.Context, s cli.Streams, paths []string) error {
	outputs, err := f.Outputs(paths...)
	if err != nil {
		return cli.UsageError(err)
	}
	files, err := policyfile.Read(s.In, paths...)
	if err != nil {
		return cli.UsageError(err)
	}
	newer, err := f.Compile(s.Err, "the files", files, false)
	if err != nil {
		return cli.UsageError(err)
	}
	scopes := policydiff.Scopes(newer)
	if len(scopes) == 0 && len(newer.Limiters()) == 0 {
		return cli.UsageError(errors.New("the files have neither a policy nor a Limiter"))
	}
	c, err := f.cluster.reader()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, ask.Timeout)
	defer cancel()
	policies, err := readPolicies(ctx, c, scopes)
	if err != nil {
		return cli.UsageError(err)
	}
	stored, err := readLimiters(ctx, c, newer, s.Err)
	if err != nil {
		return cli.UsageError(err)
	}
	older, err := f.Among(stored.limiters).Compile(s.Err, "the cluster", []policyfile.File{policies, stored.file}, true)
	if err != nil {
		return cli.UsageError(err)
	}
	d, err := policydiff.Compare(older, newer, policydiff.Scope{
		Policies: func(scope string) bool { return scopes[scope] }, Limiters: func(name string) bool { return stored.compared[name] },
	})
	if err != nil {
		return err
	}
	d.Before, d.After = "the cluster", "the files"
	return policydiff.Print(s.Out, outputs, d)
}

// readPolicies returns the policies of a cluster in the scopes as a file: namespaces, and policyname.Cluster.
func readPolicies(ctx context.Context, c client.Reader, scopes map[string]bool) (policyfile.File, error) {
	var items []any
	for _, scope := range slices.Sorted(maps.Keys(scopes)) {
		if scope == policyname.Cluster {
			var list v1alpha1.ClusterRateLimitPolicyList
			if err := c.List(ctx, &list); err != nil {
				return policyfile.File{}, readError("clusterratelimitpolicies.weir.dev", err)
			}
			for i := range list.Items {
				items = append(items, fileObject("ClusterRateLimitPolicy", &list.Items[i].ObjectMeta, list.Items[i].Spec))
			}
			continue
		}
		var list v1alpha1.RateLimitPolicyList
		if err := c.List(ctx, &list, client.InNamespace(scope)); err != nil {
			return policyfile.File{}, readError("ratelimitpolicies.weir.dev in namespace "+scope, err)
		}
		for i := range list.Items {
			items = append(items, fileObject("RateLimitPolicy", &list.Items[i].ObjectMeta, list.Items[i].Spec))
		}
	}
	content, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	return policyfile.File{Name: "cluster", Content: content}, err
}

// storedLimiters are the Limiters of files as they are in the cluster.
type storedLimiters struct {
	file     policyfile.File
	limiters map[string]bool // those in the file
	compared map[string]bool // and those that the cluster does not have
}

// readLimiters reads the Limiters that the files have. A user who can read policies may not be able to read Limiters.
func readLimiters(ctx context.Context, c client.Reader, files *policyset.Set, stderr io.Writer) (s storedLimiters, err error) {
	items := []any{}
	s.limiters, s.compared = map[string]bool{}, map[string]bool{}
	for _, l := range files.Limiters() {
		namespace, name, _ := strings.Cut(l.Name, "/")
		var object v1alpha1.Limiter
		switch err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &object); {
		case apierrors.IsForbidden(err):
			terminal.Println(stderr, fmt.Sprintf("warning: Limiter %s is not compared: %v", l.Name, err))
			continue
		case err == nil:
			items = append(items, fileObject("Limiter", &object.ObjectMeta, object.Spec))
			s.limiters[l.Name] = true
		case !apierrors.IsNotFound(err):
			return s, readError("limiters.weir.dev "+l.Name, err)
		}
		s.compared[l.Name] = true
	}
	content, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	s.file = policyfile.File{Name: "cluster", Content: content}
	return s, err
}

func readError(what string, err error) error {
	if meta.IsNoMatchError(err) {
		err = status.ErrNotInstalled
	}
	return fmt.Errorf("read %s: %w", what, err)
}

// fileObject returns what of a policy a file has.
func fileObject(kind string, m *metav1.ObjectMeta, spec any) map[string]any {
	return map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind, "spec": spec,
		"metadata": map[string]any{"name": m.Name, "namespace": m.Namespace, "labels": m.Labels},
	}
}
